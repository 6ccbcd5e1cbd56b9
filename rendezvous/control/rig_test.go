package control

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/leaktest"
	"github.com/gorun/gorun/rendezvous"
)

// agent is a plane with its listener and all that it reported.
type agent struct {
	t    *testing.T
	p    *Plane
	addr string
	stop func() // ends Serve and waits for it

	mu     sync.Mutex
	events []rendezvous.Event
	paused bool // it handles nothing
}

func shortTimes() Options {
	return Options{Interval: time.Second, Silence: 10 * time.Second, Dial: 2 * time.Second}
}

// start serves a plane on a loopback port until the test ends.
func start(t *testing.T, opts Options) *agent {
	t.Helper()
	a := &agent{t: t}
	opts.Post = func(e rendezvous.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.events = append(a.events, e)
		if r, ok := e.(rendezvous.Received); ok && !a.paused {
			a.p.Handled(r.Conn)
		}
	}
	a.p = New(opts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.p.Serve(ctx, l)
	}()
	a.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("Serve does not end")
		}
	})
	t.Cleanup(a.stop)
	return a
}

// pauseHandling makes the agent leave what comes in unhandled, or handle it again.
func (a *agent) pauseHandling(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = on
	for _, e := range a.events {
		if r, ok := e.(rendezvous.Received); ok && !on {
			a.p.Handled(r.Conn)
		}
	}
}

func (a *agent) all() []rendezvous.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// await waits for an event that f accepts.
func await[E rendezvous.Event](a *agent, f func(E) bool) E {
	a.t.Helper()
	var found E
	eventually(a.t, func() bool {
		for _, e := range a.all() {
			if x, ok := e.(E); ok && (f == nil || f(x)) {
				found = x
				return true
			}
		}
		return false
	}, func() string {
		return fmt.Sprintf("no such %T among %d events: %.2000s", found, len(a.all()), fmt.Sprint(a.all()))
	})
	return found
}

func eventually(t *testing.T, ok func() bool, why func() string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal(why())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// texts returns the Text fields of what came in on a stream.
func (a *agent) texts(c rendezvous.Conn) (out []string) {
	for _, e := range a.all() {
		if r, ok := e.(rendezvous.Received); ok && r.Conn == c {
			out = append(out, r.Msg.Text)
		}
	}
	return out
}

// pair opens a stream from one agent to another. The first message says to the server
// which stream it is.
func pair(from, to *agent, addr, name string) (at, in rendezvous.Conn) {
	from.t.Helper()
	before := len(from.all())
	from.p.Dial(from.t.Context(), addr)
	eventually(from.t, func() bool {
		for _, e := range from.all()[before:] {
			switch e := e.(type) {
			case rendezvous.Dialed:
				if e.Addr == addr {
					at = e.Conn
					return true
				}
			case rendezvous.DialFailed:
				from.t.Fatalf("cannot dial: %s", e.Text)
			}
		}
		return false
	}, func() string { return "not dialed" })
	from.p.Send(at, rendezvous.Message{Type: rendezvous.MsgHello, Text: name})
	r := await(to, func(r rendezvous.Received) bool { return r.Msg.Text == name })
	return at, r.Conn
}

// check verifies the order of every stream's events. Nothing comes after Closed.
func (a *agent) check() {
	a.t.Helper()
	closed := map[rendezvous.Conn]bool{}
	for _, e := range a.all() {
		switch e := e.(type) {
		case rendezvous.Received:
			if closed[e.Conn] {
				a.t.Errorf("stream %d: %v after Closed", e.Conn, e.Msg)
			}
		case rendezvous.Closed:
			if closed[e.Conn] {
				a.t.Errorf("stream %d: closed twice", e.Conn)
			}
			closed[e.Conn] = true
		}
	}
}

// checkLeaks fails if goroutines of this package or of gRPC outlive the test.
func checkLeaks(t *testing.T) {
	t.Helper()
	leaktest.Check(t, "rendezvous/control.(", "grpc")
}
