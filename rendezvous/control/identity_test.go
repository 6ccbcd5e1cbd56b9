package control

import (
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

// TestHelloProvesItsID checks that an id is proven by its own agent only, and that a
// proof counts on its own stream only.
func TestHelloProvesItsID(t *testing.T) {
	checkLeaks(t)
	b := start(t, shortTimes())
	mine, other := rendezvous.NewIdentity(), rendezvous.NewIdentity()
	var received *rendezvous.Proof
	for _, tt := range []struct {
		name     string
		identity *rendezvous.Identity
		proven   bool
	}{{"its own", mine, true}, {"another's", other, false}, {"a proof of another stream", nil, false}} {
		opts := shortTimes()
		opts.Identity = tt.identity
		a := start(t, opts)
		a.p.Dial(t.Context(), b.addr)
		d := await[rendezvous.Dialed](a, nil)
		a.p.Send(d.Conn, rendezvous.Message{Type: rendezvous.MsgHello, Text: tt.name, Node: &rendezvous.Node{ID: mine.ID(), Proven: true}, Proof: received})
		r := await(b, func(r rendezvous.Received) bool { return r.Msg.Text == tt.name })
		if r.Msg.Node.Proven != tt.proven || r.Msg.Proof == nil {
			t.Errorf("%s: proven is %v", tt.name, r.Msg.Node.Proven)
		}
		if tt.proven {
			received = r.Msg.Proof
		}
	}
}
