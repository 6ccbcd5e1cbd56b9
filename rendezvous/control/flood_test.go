package control

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// held waits until the agent has stopped reading a stream.
func (a *agent) held(c rendezvous.Conn) {
	a.t.Helper()
	l := a.p.find(c)
	eventually(a.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.in.held
	}, func() string { return fmt.Sprintf("the stream is still read after %d messages", len(a.texts(c))) })
}

// TestFlood checks that a peer that sends more than this agent handles is not read
// for a while. Nothing is lost, and the others do not notice.
func TestFlood(t *testing.T) {
	checkLeaks(t)
	opts := shortTimes()
	opts.Interval = 50 * time.Millisecond
	a, other := start(t, opts), start(t, opts)
	opts.Silence = time.Second
	b := start(t, opts)
	at, in := pair(a, b, b.addr, "hi")
	b.pauseHandling(true)
	a.sendAll(at)
	b.held(in)
	if n := len(b.texts(in)); n != 1+maxWaiting {
		t.Errorf("%d messages wait, not %d", n-1, maxWaiting)
	}
	pair(other, b, b.addr, "no message waits for the flood to end")
	for end := time.Now().Add(3 * opts.Silence / 2); time.Now().Before(end); <-time.After(opts.Interval) {
		b.check()
		for _, e := range b.all() {
			if c, ok := e.(rendezvous.Closed); ok {
				t.Fatalf("a peer that is not read counts as silent: %+v", c)
			}
		}
	}
	b.pauseHandling(false)
	await(b, func(r rendezvous.Received) bool { return r.Conn == in && r.Msg.Text == fmt.Sprint("n", burst-1) })
	b.wantAll(in, 1)
}

// TestFloodOfBytes checks that large messages count by their size.
func TestFloodOfBytes(t *testing.T) {
	a, b := start(t, shortTimes()), start(t, shortTimes())
	at, in := pair(a, b, b.addr, "hi")
	b.pauseHandling(true)
	big := rendezvous.Message{Type: rendezvous.MsgStatus, Text: strings.Repeat("x", maxWaitingBytes/4)}
	for range 100 {
		a.p.Send(at, big)
	}
	b.held(in)
	if n := len(b.texts(in)) - 1; n != 4 {
		t.Errorf("%d messages of a quarter of the limit wait", n)
	}
}

// TestEndsInAFlood checks that unread messages delay neither the end of their stream
// nor the end of the agents.
func TestEndsInAFlood(t *testing.T) {
	for _, end := range []string{"the reader closes", "the reader ends", "the sender ends", "the connection breaks"} {
		t.Run(end, func(t *testing.T) {
			checkLeaks(t)
			a, b := start(t, shortTimes()), start(t, shortTimes())
			x := newProxy(t, b.addr)
			at, in := pair(a, b, x.addr(), "hi")
			b.pauseHandling(true)
			a.sendAll(at)
			b.held(in)
			switch end {
			case "the reader closes":
				b.p.Close(in)
				await(a, func(c rendezvous.Closed) bool { return c.Conn == at && c.Clean })
			case "the reader ends":
				b.stop()
				await(a, func(c rendezvous.Closed) bool { return c.Conn == at })
			case "the sender ends":
				a.stop()
				await(b, func(c rendezvous.Closed) bool { return c.Conn == in })
			case "the connection breaks":
				x.cut()
				await(b, func(c rendezvous.Closed) bool { return c.Conn == in && !c.Clean })
			}
			a.stop()
			b.stop()
			b.check()
		})
	}
}

// TestMessageIsEncodedOnce checks that a message to many streams is encoded once.
func TestMessageIsEncodedOnce(t *testing.T) {
	p := New(shortTimes())
	outcome := &rendezvous.Outcome{Code: 7}
	msg := rendezvous.Message{Type: rendezvous.MsgFinish, Outcome: outcome}
	one, two := p.outgoing(msg), p.outgoing(msg)
	first, err := jsonCodec{}.Marshal(one)
	second, _ := jsonCodec{}.Marshal(two)
	if err != nil || len(first) == 0 || &first[0] != &second[0] {
		t.Errorf("%q and %q (%v) are two texts", first, second, err)
	}
	msg.Outcome = &rendezvous.Outcome{Code: 8}
	if other, _ := (jsonCodec{}).Marshal(p.outgoing(msg)); string(other) == string(first) {
		t.Errorf("another message is sent as %s", other)
	}
}
