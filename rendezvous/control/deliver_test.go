package control

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

const burst = 500

func numbers() (out []string) {
	for i := range burst {
		out = append(out, fmt.Sprint("n", i))
	}
	return out
}

func (a *agent) sendAll(c rendezvous.Conn) {
	for _, n := range numbers() {
		a.p.Send(c, rendezvous.Message{Type: rendezvous.MsgStatus, Text: n})
	}
}

// wantAll checks that everything that was sent came, in order, before Closed.
func (a *agent) wantAll(c rendezvous.Conn, skip int) {
	a.t.Helper()
	got := a.texts(c)
	if len(got) < skip || strings.Join(got[skip:], ",") != strings.Join(numbers(), ",") {
		a.t.Errorf("of %d messages %d came (%.200q)", burst, len(got)-skip, got)
	}
	a.check()
}

func TestCloseDeliversWhatWasSent(t *testing.T) {
	t.Run("by the dialer", func(t *testing.T) {
		checkLeaks(t)
		a, b := start(t, shortTimes()), start(t, shortTimes())
		at, in := pair(a, b, b.addr, "hi")
		a.sendAll(at)
		a.p.Close(at)
		if c := await(b, func(c rendezvous.Closed) bool { return c.Conn == in }); !c.Clean || c.Silent {
			t.Errorf("%+v", c)
		}
		b.wantAll(in, 1)
		a.stop()
		for _, e := range a.all() {
			if c, ok := e.(rendezvous.Closed); ok {
				t.Errorf("the side that closed hears %+v", c)
			}
		}
	})
	t.Run("by the server", func(t *testing.T) {
		checkLeaks(t)
		a, b := start(t, shortTimes()), start(t, shortTimes())
		at, in := pair(a, b, b.addr, "hi")
		b.sendAll(in)
		b.p.Close(in)
		if c := await(a, func(c rendezvous.Closed) bool { return c.Conn == at }); !c.Clean || c.Silent {
			t.Errorf("%+v", c)
		}
		a.wantAll(at, 0)
	})
	t.Run("by the dialer's end", func(t *testing.T) {
		checkLeaks(t)
		a, b := start(t, shortTimes()), start(t, shortTimes())
		at, in := pair(a, b, b.addr, "hi")
		a.sendAll(at)
		a.stop()
		await(b, func(c rendezvous.Closed) bool { return c.Conn == in && c.Clean })
		b.wantAll(in, 1)
	})
	t.Run("by the server's end", func(t *testing.T) {
		checkLeaks(t)
		a, b := start(t, shortTimes()), start(t, shortTimes())
		at, in := pair(a, b, b.addr, "hi")
		b.sendAll(in)
		b.stop()
		await(a, func(c rendezvous.Closed) bool { return c.Conn == at && c.Clean })
		a.wantAll(at, 0)
	})
}

// TestDialContextEndsOnlyTheAttempt checks that an agent that ends still delivers.
func TestDialContextEndsOnlyTheAttempt(t *testing.T) {
	a, b := start(t, shortTimes()), start(t, shortTimes())
	ctx, cancel := context.WithCancel(t.Context())
	a.p.Dial(ctx, b.addr)
	d := await[rendezvous.Dialed](a, nil)
	cancel()
	a.p.Send(d.Conn, rendezvous.Message{Type: rendezvous.MsgAck, Text: "last words"})
	await(b, func(r rendezvous.Received) bool { return r.Msg.Text == "last words" })
}

func TestManyStreams(t *testing.T) {
	checkLeaks(t)
	const n = 64
	b := start(t, shortTimes())
	var as []*agent
	for range n {
		as = append(as, start(t, shortTimes()))
		as[len(as)-1].p.Dial(t.Context(), b.addr)
	}
	for i, a := range as {
		d := await[rendezvous.Dialed](a, nil)
		a.p.Send(d.Conn, rendezvous.Message{Type: rendezvous.MsgHello, Text: fmt.Sprint("agent ", i)})
	}
	for i := range as {
		r := await(b, func(r rendezvous.Received) bool { return r.Msg.Text == fmt.Sprint("agent ", i) })
		b.p.Send(r.Conn, rendezvous.Message{Text: fmt.Sprint("welcome ", i)})
	}
	for i, a := range as {
		await(a, func(r rendezvous.Received) bool { return r.Msg.Text == fmt.Sprint("welcome ", i) })
	}
	b.stop()
	for _, a := range as {
		if c := await[rendezvous.Closed](a, nil); !c.Clean {
			t.Errorf("%+v", c)
		}
		a.stop()
		a.check()
	}
}
