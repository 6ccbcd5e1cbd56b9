package e2e_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
)

// TestManyMessagesOnOneStream checks that an agent goes on reading a peer's messages,
// however many the peer has sent.
func TestManyMessagesOnOneStream(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	first := j.node(1, "3", sh("exit 0")...)
	first.waitForStderr("have 1 of 3 nodes")
	events, ended := make(chan rendezvous.Event, 1024), make(chan struct{})
	var plane *control.Plane
	identity := rendezvous.NewIdentity()
	plane = control.New(control.Options{
		Identity: identity,
		Interval: 100 * time.Millisecond, Silence: 10 * time.Second, Dial: time.Second,
		Post: func(e rendezvous.Event) {
			if r, ok := e.(rendezvous.Received); ok {
				plane.Handled(r.Conn)
			}
			events <- e
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		plane.Serve(ctx, nil)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for _, at := range portsOf(t, first.pid()).tcp { // one of them speaks gorun's protocol
		plane.Dial(ctx, at.String())
	}
	for end, left := time.After(longWait), false; !left; {
		select {
		case event := <-events:
			switch e := event.(type) {
			case rendezvous.Dialed:
				plane.Send(e.Conn, rendezvous.Message{Type: rendezvous.MsgHello, Node: &rendezvous.Node{
					ID: identity.ID(), RunID: j.id, Protocol: rendezvous.Protocol, Version: "9.9", Host: "other", Workers: 1,
					NodeRank: -1, Endpoint: -1, Min: 3, Max: 3,
				}})
				for i := range 1000 {
					plane.Send(e.Conn, rendezvous.Message{Type: rendezvous.MsgStatus, Text: fmt.Sprint(i)})
				}
				plane.Send(e.Conn, rendezvous.Message{Type: rendezvous.MsgAck}) // it leaves
			case rendezvous.Closed:
				left = true
				if !e.Clean {
					t.Errorf("%+v", e)
				}
			}
		case <-end:
			t.Fatal("the agent did not handle the last message")
		}
	}
	first.signal(syscall.SIGINT)
	j.wantExit(longWait, 130, first)
}
