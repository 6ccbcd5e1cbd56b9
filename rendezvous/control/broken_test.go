package control

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func TestBrokenConnection(t *testing.T) {
	checkLeaks(t)
	a, b := start(t, shortTimes()), start(t, shortTimes())
	x := newProxy(t, b.addr)
	at, in := pair(a, b, x.addr(), "hi")
	x.cut()
	for side, c := range map[*agent]rendezvous.Conn{a: at, b: in} {
		if c := await(side, func(e rendezvous.Closed) bool { return e.Conn == c }); c.Clean || c.Silent || c.Text != rendezvous.ConnectionEnded && c.Text != "the connection was reset" {
			t.Errorf("%+v", c)
		}
	}
	b.p.Send(in, rendezvous.Message{}) // does not arrive
	b.p.Close(in)
	a.stop()
	b.stop()
	a.check()
	b.check()
}

func TestSilence(t *testing.T) {
	checkLeaks(t)
	opts := shortTimes()
	opts.Interval, opts.Silence = 50*time.Millisecond, 300*time.Millisecond
	a, b := start(t, opts), start(t, opts)
	x := newProxy(t, b.addr)
	at, in := pair(a, b, x.addr(), "hi")
	// The loop takes longer than Silence. Signs of life keep the stream open.
	for end := time.Now().Add(2 * opts.Silence); time.Now().Before(end); <-time.After(opts.Interval) {
		if n := len(a.all()) + len(b.all()); n != 2 {
			t.Fatalf("%d events on an idle stream: %v %v", n, a.all(), b.all())
		}
	}
	x.silence()
	began := time.Now()
	for side, c := range map[*agent]rendezvous.Conn{a: at, b: in} {
		if c := await(side, func(e rendezvous.Closed) bool { return e.Conn == c }); c.Clean || !c.Silent {
			t.Errorf("%+v", c)
		}
	}
	if d := time.Since(began); d > opts.Silence+20*time.Second {
		t.Errorf("noticed after %v", d)
	}
}

// TestGivenUp checks that an agent whose messages do not arrive learns that the other one
// gave it up, and does not take that one for killed.
func TestGivenUp(t *testing.T) {
	checkLeaks(t)
	mute, strict := shortTimes(), shortTimes()
	mute.Interval, mute.Silence = time.Hour, 2*time.Hour
	strict.Interval, strict.Silence = 50*time.Millisecond, 300*time.Millisecond
	a, b := start(t, mute), start(t, strict)
	at, _ := pair(a, b, b.addr, "hi")
	c := await(a, func(e rendezvous.Closed) bool { return e.Conn == at })
	if text, ok := strings.CutPrefix(c.Text, rendezvous.GaveUp); c.Clean || c.Silent || !ok || !strings.HasPrefix(text, "silent for ") {
		t.Errorf("%+v", c)
	}
}

// TestStoppedAgent checks that an agent that did not run for a while does not take
// the others for lost.
func TestStoppedAgent(t *testing.T) {
	a, b := start(t, shortTimes()), start(t, shortTimes())
	at, _ := pair(a, b, b.addr, "hi")
	a.p.mu.Lock()
	a.p.lastDelayedBeat = time.Now() // what beat notes after a stop
	a.p.opts.Interval = time.Hour
	a.p.mu.Unlock()
	b.stop()
	if c := await(a, func(c rendezvous.Closed) bool { return c.Conn == at }); !c.Silent || c.Clean {
		t.Errorf("%+v", c)
	}
}

func TestLateBeatIsNoted(t *testing.T) {
	now := time.Unix(1000, 0)
	p := New(Options{Interval: time.Second, Silence: 3 * time.Second})
	p.lastBeat = now
	p.beat(now.Add(time.Second))
	if p.wasStopped(now.Add(2 * time.Second)) {
		t.Error("away although the heart beats")
	}
	if !p.wasStopped(now.Add(5 * time.Second)) {
		t.Error("not away although the heart stood still")
	}
	p.beat(now.Add(5 * time.Second))
	if !p.wasStopped(now.Add(5500 * time.Millisecond)) {
		t.Error("forgotten at once")
	}
	p.beat(now.Add(6 * time.Second))
	if p.wasStopped(now.Add(6500 * time.Millisecond)) {
		t.Error("never forgotten")
	}
}
