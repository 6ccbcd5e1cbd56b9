package control

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// failing is a listener that fails after its first connection.
type failing struct {
	net.Listener
	first bool
}

func (f *failing) Accept() (net.Conn, error) {
	if f.first {
		return nil, errors.New("out of something")
	}
	f.first = true
	return f.Listener.Accept()
}

// TestOpenStreamsOutliveTheListener checks that they do, because the others learn
// over them why the job ends.
func TestOpenStreamsOutliveTheListener(t *testing.T) {
	checkLeaks(t)
	a := start(t, shortTimes())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failed, got := make(chan error, 1), make(chan rendezvous.Event, 16)
	opts := shortTimes()
	opts.Post = func(e rendezvous.Event) { got <- e }
	opts.Failed = func(err error) { failed <- err }
	p := New(opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Serve(ctx, &failing{Listener: l})
	}()
	defer func() { cancel(); <-done }()
	a.p.Dial(t.Context(), l.Addr().String())
	at := await(a, func(rendezvous.Dialed) bool { return true }).Conn
	limit := time.After(10 * time.Second)
	select {
	case err := <-failed:
		if err == nil {
			t.Error("no reason")
		}
	case <-limit:
		t.Fatal("the loss of the port is not reported")
	}
	a.p.Send(at, rendezvous.Message{Text: "hi"})
	select {
	case e := <-got:
		if r, ok := e.(rendezvous.Received); !ok || r.Msg.Text != "hi" {
			t.Errorf("%+v", e)
		}
	case <-limit:
		t.Fatal("the open stream has ended")
	}
}
