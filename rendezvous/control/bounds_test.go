package control

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// TestSlowReader checks that a peer that takes nothing ends its own stream only.
func TestSlowReader(t *testing.T) {
	checkLeaks(t)
	opts := shortTimes()
	opts.Silence = time.Minute // so that the full queue ends the stream
	a, b := start(t, opts), start(t, opts)
	x := newProxy(t, b.addr)
	at, in := pair(a, b, x.addr(), "slow")
	at2, in2 := pair(a, b, b.addr, "other")
	x.silence()
	big := rendezvous.Message{Type: rendezvous.MsgStatus, Text: strings.Repeat("x", 4<<10)}
	began := time.Now()
	for range 2*maxQueued + 2000 {
		b.p.Send(in, big)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("sending took %v", d)
	}
	if c := await(b, func(c rendezvous.Closed) bool { return c.Conn == in }); !c.Silent {
		t.Errorf("%+v", c)
	}
	b.p.Send(in2, rendezvous.Message{Text: "still here"})
	await(a, func(r rendezvous.Received) bool { return r.Conn == at2 && r.Msg.Text == "still here" })
	_ = at
	x.cut()
}

// TestStuckReader checks that even a few messages that the peer does not read end a
// stream in time.
func TestStuckReader(t *testing.T) {
	opts := shortTimes()
	opts.Interval, opts.Silence = 50*time.Millisecond, 400*time.Millisecond
	a, b := start(t, shortTimes()), start(t, opts)
	at, in := pair(a, b, b.addr, "hi")
	b.p.find(in).setSending(time.Now().Add(-time.Second)) // as SendMsg would, blocked by flow control
	if c := await(b, func(c rendezvous.Closed) bool { return c.Conn == in }); !c.Silent || c.Text != "it does not read its messages" {
		t.Errorf("%+v", c)
	}
	await(a, func(c rendezvous.Closed) bool { return c.Conn == at && !c.Clean })
}

// TestTooLarge checks that a message over the limit ends its stream, with the reason.
func TestTooLarge(t *testing.T) {
	checkLeaks(t)
	a, b := start(t, shortTimes()), start(t, shortTimes())
	at, in := pair(a, b, b.addr, "hi")
	a.p.Send(at, rendezvous.Message{Type: rendezvous.MsgStatus, Text: strings.Repeat("x", maxMessage+1)})
	if c := await(a, func(c rendezvous.Closed) bool { return c.Conn == at }); c.Clean || !strings.Contains(c.Text, "large") {
		t.Errorf("%+v", c)
	}
	if c := await(b, func(c rendezvous.Closed) bool { return c.Conn == in }); c.Clean {
		t.Errorf("%+v", c)
	}
	_, _ = pair(a, b, b.addr, "again")
}
