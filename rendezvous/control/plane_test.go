package control

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"google.golang.org/grpc"
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
		noLeak(t)
		a, b := start(t, quick()), start(t, quick())
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
		noLeak(t)
		a, b := start(t, quick()), start(t, quick())
		at, in := pair(a, b, b.addr, "hi")
		b.sendAll(in)
		b.p.Close(in)
		if c := await(a, func(c rendezvous.Closed) bool { return c.Conn == at }); !c.Clean || c.Silent {
			t.Errorf("%+v", c)
		}
		a.wantAll(at, 0)
	})
	t.Run("by the dialer's end", func(t *testing.T) {
		noLeak(t)
		a, b := start(t, quick()), start(t, quick())
		at, in := pair(a, b, b.addr, "hi")
		a.sendAll(at)
		a.stop()
		await(b, func(c rendezvous.Closed) bool { return c.Conn == in && c.Clean })
		b.wantAll(in, 1)
	})
	t.Run("by the server's end", func(t *testing.T) {
		noLeak(t)
		a, b := start(t, quick()), start(t, quick())
		at, in := pair(a, b, b.addr, "hi")
		b.sendAll(in)
		b.stop()
		await(a, func(c rendezvous.Closed) bool { return c.Conn == at && c.Clean })
		a.wantAll(at, 0)
	})
}

// TestDialContextEndsOnlyTheAttempt: an agent that ends still delivers.
func TestDialContextEndsOnlyTheAttempt(t *testing.T) {
	a, b := start(t, quick()), start(t, quick())
	ctx, cancel := context.WithCancel(t.Context())
	a.p.Dial(ctx, b.addr)
	d := await[rendezvous.Dialed](a, nil)
	cancel()
	a.p.Send(d.Conn, rendezvous.Message{Type: rendezvous.MsgAck, Text: "last words"})
	await(b, func(r rendezvous.Received) bool { return r.Msg.Text == "last words" })
}

func TestBrokenConnection(t *testing.T) {
	noLeak(t)
	a, b := start(t, quick()), start(t, quick())
	x := newProxy(t, b.addr)
	at, in := pair(a, b, x.addr(), "hi")
	x.cut()
	for who, c := range map[*agent]rendezvous.Conn{a: at, b: in} {
		if c := await(who, func(e rendezvous.Closed) bool { return e.Conn == c }); c.Clean || c.Silent || c.Text == "" {
			t.Errorf("%+v", c)
		}
	}
	b.p.Send(in, rendezvous.Message{}) // into the void
	b.p.Close(in)
	a.stop()
	b.stop()
	a.check()
	b.check()
}

func TestSilence(t *testing.T) {
	noLeak(t)
	opts := quick()
	opts.Interval, opts.Silence = 50*time.Millisecond, 300*time.Millisecond
	a, b := start(t, opts), start(t, opts)
	x := newProxy(t, b.addr)
	at, in := pair(a, b, x.addr(), "hi")
	// Longer than Silence: signs of life keep the stream open.
	for end := time.Now().Add(2 * opts.Silence); time.Now().Before(end); <-time.After(opts.Interval) {
		if n := len(a.all()) + len(b.all()); n != 2 {
			t.Fatalf("%d events on a quiet stream: %v %v", n, a.all(), b.all())
		}
	}
	x.silence()
	began := time.Now()
	for who, c := range map[*agent]rendezvous.Conn{a: at, b: in} {
		if c := await(who, func(e rendezvous.Closed) bool { return e.Conn == c }); c.Clean || !c.Silent {
			t.Errorf("%+v", c)
		}
	}
	if d := time.Since(began); d > opts.Silence+2*time.Second {
		t.Errorf("noticed after %v", d)
	}
}

// TestStoppedAgent: an agent that did not run for a while does not take the
// others for dead.
func TestStoppedAgent(t *testing.T) {
	a, b := start(t, quick()), start(t, quick())
	at, _ := pair(a, b, b.addr, "hi")
	a.p.mu.Lock()
	a.p.away = time.Now() // what beat notes after a stop
	a.p.opts.Interval = time.Hour
	a.p.mu.Unlock()
	b.stop()
	if c := await(a, func(c rendezvous.Closed) bool { return c.Conn == at }); !c.Silent || c.Clean {
		t.Errorf("%+v", c)
	}
}

func TestBeatNotesItsOwnAbsence(t *testing.T) {
	now := time.Unix(1000, 0)
	p := New(Options{Interval: time.Second, Silence: 3 * time.Second})
	p.beaten = now
	p.beat(now.Add(time.Second))
	if p.wasAway(now.Add(2 * time.Second)) {
		t.Error("away although the heart beats")
	}
	if !p.wasAway(now.Add(5 * time.Second)) {
		t.Error("not away although the heart stood still")
	}
	p.beat(now.Add(5 * time.Second))
	if !p.wasAway(now.Add(5500 * time.Millisecond)) {
		t.Error("forgotten at once")
	}
	p.beat(now.Add(6 * time.Second))
	if p.wasAway(now.Add(6500 * time.Millisecond)) {
		t.Error("never forgotten")
	}
}

// TestSlowReader: a peer that takes nothing ends its own stream only.
func TestSlowReader(t *testing.T) {
	noLeak(t)
	opts := quick()
	opts.Silence = time.Minute // it is the queue that is full
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
	if d := time.Since(began); d > 5*time.Second {
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

// TestStuckReader: even a few messages that nobody takes end a stream in time.
func TestStuckReader(t *testing.T) {
	opts := quick()
	opts.Interval, opts.Silence = 50*time.Millisecond, 400*time.Millisecond
	a, b := start(t, quick()), start(t, opts)
	at, in := pair(a, b, b.addr, "hi")
	b.p.find(in).sends(time.Now().Add(-time.Second)) // as SendMsg would, blocked by flow control
	if c := await(b, func(c rendezvous.Closed) bool { return c.Conn == in }); !c.Silent || !strings.Contains(c.Text, "take") {
		t.Errorf("%+v", c)
	}
	await(a, func(c rendezvous.Closed) bool { return c.Conn == at && !c.Clean })
}

func TestManyStreams(t *testing.T) {
	noLeak(t)
	const n = 64
	b := start(t, quick())
	var as []*agent
	for range n {
		as = append(as, start(t, quick()))
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

func TestDialFails(t *testing.T) {
	noLeak(t)
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	t.Cleanup(func() { web.Close() })
	serve := func(f func(net.Listener)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go f(l)
		return l.Addr().String()
	}
	each := func(f func(net.Conn)) func(net.Listener) {
		return func(l net.Listener) {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go f(c)
			}
		}
	}
	free := serve(func(l net.Listener) { l.Close() })
	other := grpc.NewServer()
	t.Cleanup(other.Stop)
	tests := []struct {
		name, addr, text string
		refused          bool
	}{
		{"nothing", free, "refused", true},
		{"web server", serve(func(l net.Listener) { _ = web.Serve(l) }), "another program", false},
		{"silent port", serve(each(func(c net.Conn) { t.Cleanup(func() { c.Close() }) })), "no gorun answered within", false},
		{"garbage", serve(each(func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("garbage\n"), 100)); c.Close() })), "another program", false},
		{"hangs up", serve(each(func(c net.Conn) { c.Close() })), "another program", false},
		{"another gRPC service", serve(func(l net.Listener) { _ = other.Serve(l) }), "another program", false},
		{"no address", "256.256.256.256:1", "lookup", false},
		{"no port", "127.0.0.1", "missing port", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := quick()
			opts.Dial = 500 * time.Millisecond
			a := start(t, opts)
			began := time.Now()
			a.p.Dial(t.Context(), tt.addr)
			e := await[rendezvous.DialFailed](a, nil)
			if e.Addr != tt.addr || e.Refused != tt.refused || !strings.Contains(e.Text, tt.text) {
				t.Errorf("%+v, want %q, refused %v", e, tt.text, tt.refused)
			}
			if d := time.Since(began); d > 4*opts.Dial {
				t.Errorf("took %v", d)
			}
			if n := len(a.all()); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// TestGarbageAtThePort: strangers disturb nobody.
func TestGarbageAtThePort(t *testing.T) {
	noLeak(t)
	a, b := start(t, quick()), start(t, quick())
	at, in := pair(a, b, b.addr, "hi")
	noise := make([]byte, 64<<10)
	_, _ = rand.Read(noise)
	for i, junk := range [][]byte{
		nil, noise, []byte("GET / HTTP/1.1\r\n\r\n"), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noise...), bytes.Repeat([]byte{0}, 1<<16),
	} {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // some stay open
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := c.Write(junk); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Logf("junk %d: %v", i, err)
		}
	}
	a.sendAll(at)
	await(b, func(r rendezvous.Received) bool { return r.Conn == in && r.Msg.Text == fmt.Sprint("n", burst-1) })
	b.wantAll(in, 1)
	if n := len(b.all()); n != burst+1 {
		t.Errorf("%d events", n)
	}
}

// TestTooLarge: a message over the limit ends its stream, with the reason.
func TestTooLarge(t *testing.T) {
	noLeak(t)
	a, b := start(t, quick()), start(t, quick())
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

func TestDialAfterTheEnd(t *testing.T) {
	a, b := start(t, quick()), start(t, quick())
	a.stop()
	a.p.Dial(t.Context(), b.addr)
	if e := await[rendezvous.DialFailed](a, nil); e.Refused {
		t.Errorf("%+v", e)
	}
}
