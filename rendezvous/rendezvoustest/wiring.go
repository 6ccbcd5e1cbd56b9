package rendezvoustest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/memory"
)

// End is one agent's end of the network. See control.Plane.
type End interface {
	drive.Streams
	Addr() string // host:port
	Serve(ctx context.Context)
	Kill() // as SIGKILL would: every stream breaks, and nothing listens
}

// simulated is a memory.Net. Each agent has a port of its own, as each process on
// a machine.
type simulated struct {
	*memory.Net
	port *int // of the last agent
}

type simulatedEnd struct {
	*memory.End
	addr string
}

func (e simulatedEnd) Addr() string { return e.addr }

func (s simulated) Attach(host string, post func(rendezvous.Event)) (End, error) {
	*s.port++
	addr := fmt.Sprintf("%s:%d", host, *s.port)
	return simulatedEnd{s.Net.Attach(addr, post), addr}, nil
}

func simulate(t Timing, delay func(from, to string, n int) time.Duration) Wiring {
	return simulated{port: new(int), Net: memory.NewNet(memory.NetOptions{Delay: delay, SilentAfter: t.SilentAfter, Silence: t.Silence, Dial: t.Dial})}
}

// loopback joins control planes with bridges, one for each direction of dialing
// between two agents, so that a case can break what it likes.
type loopback struct {
	timing Timing

	mu      sync.Mutex
	ends    map[string]bool       // that can be reached, by address
	bridges map[[2]string]*bridge // by dialing and dialed address
	names   map[string]string     // where a bridge leads, by its own address
	apart   map[[2]string]bool    // both ways
}

func newLoopback(t Timing) *loopback {
	return &loopback{timing: t, ends: map[string]bool{}, bridges: map[[2]string]*bridge{}, names: map[string]string{}, apart: map[[2]string]bool{}}
}

type planeEnd struct {
	*control.Plane
	w      *loopback
	l      net.Listener
	post   func(rendezvous.Event)
	killed bool
}

func (w *loopback) Attach(host string, post func(rendezvous.Event)) (End, error) {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return nil, err
	}
	e := &planeEnd{w: w, l: l, post: post}
	e.Plane = control.New(control.Options{
		Interval: w.timing.Interval, Silence: w.timing.Silence, SilentAfter: w.timing.SilentAfter, Dial: w.timing.Dial,
		Post:   func(ev rendezvous.Event) { post(w.named(ev)) },
		Failed: func(err error) { panic(fmt.Sprint("rendezvoustest: ", err)) },
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[e.Addr()] = true // it listens, and every dial from now on goes by a bridge
	return e, nil
}

// named replaces the bridge's address in an event with the address that was asked
// for.
func (w *loopback) named(e rendezvous.Event) rendezvous.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := e.(type) {
	case rendezvous.Dialed:
		e.Addr = cmp.Or(w.names[e.Addr], e.Addr)
		return e
	case rendezvous.DialFailed:
		e.Addr = cmp.Or(w.names[e.Addr], e.Addr)
		return e
	}
	return e
}

func (e *planeEnd) Addr() string { return e.l.Addr().String() }

func (e *planeEnd) Serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { e.w.refuse(e.Addr()) })
	defer stop()
	e.Plane.Serve(ctx, e.l)
}

func (e *planeEnd) Dial(ctx context.Context, addr string) {
	via, err := e.w.bridge(e, addr)
	if err != nil {
		e.post(rendezvous.DialFailed{Addr: addr, Text: err.Error()})
		return
	}
	e.Plane.Dial(ctx, via)
}

func (e *planeEnd) Kill() {
	e.w.refuse(e.Addr())
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.killed = true
	for k, b := range e.w.bridges {
		if k[0] == e.Addr() || k[1] == e.Addr() {
			b.refuse()
			b.reset()
		}
	}
	_ = e.l.Close()
}

// bridge returns the address of the bridge from one agent to another. An agent that
// has ended has no bridge, and its own address refuses.
func (w *loopback) bridge(by *planeEnd, to string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := by.Addr()
	k := [2]string{from, to}
	if by.killed {
		return "", net.ErrClosed
	}
	if !w.ends[to] {
		delete(w.names, to)
		return to, nil
	}
	if b := w.bridges[k]; b != nil {
		return b.addr(), nil
	}
	b, err := newBridge(to)
	if err != nil {
		return "", err
	}
	b.set(w.apart[pair(from, to)])
	w.bridges[k], w.names[b.addr()] = b, to
	return b.addr(), nil
}

// refuse makes every new connection to an agent fail.
func (w *loopback) refuse(addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ends, addr)
	for k, b := range w.bridges {
		if k[1] == addr {
			b.refuse()
		}
	}
}

func pair(a, b string) [2]string {
	if b < a {
		a, b = b, a
	}
	return [2]string{a, b}
}

func (w *loopback) Cut(a, b string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apart[pair(a, b)] = cut
	for k, br := range w.bridges {
		if pair(k[0], k[1]) == pair(a, b) {
			br.set(cut)
		}
	}
}

func (w *loopback) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bridges {
		b.refuse()
		b.set(false)
		b.reset()
		b.wg.Wait()
	}
}

// bridge forwards connections to one address. While it is cut, bytes wait, as on a
// path that a retransmission will cross later.
type bridge struct {
	to string
	l  net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	uncut *sync.Cond
	cut   bool
	conns map[net.Conn]bool
}

func newBridge(to string) (*bridge, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bridge{to: to, l: l, conns: map[net.Conn]bool{}}
	b.uncut = sync.NewCond(&b.mu)
	b.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() { b.forward(near) })
		}
	})
	return b, nil
}

func (b *bridge) addr() string { return b.l.Addr().String() }

func (b *bridge) set(cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = cut
	b.uncut.Broadcast()
}

// refuse lets no new connection in. Those that are open stay open.
func (b *bridge) refuse() { _ = b.l.Close() }

// reset breaks every connection at both ends.
func (b *bridge) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

func (b *bridge) waitUncut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.cut {
		b.uncut.Wait()
	}
}

func (b *bridge) track(c net.Conn, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if on {
		b.conns[c] = true
		return
	}
	delete(b.conns, c)
	_ = c.Close()
}

func (b *bridge) forward(near net.Conn) {
	b.track(near, true)
	defer b.track(near, false)
	b.waitUncut()
	far, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	b.track(far, true)
	defer b.track(far, false)
	var back sync.WaitGroup
	back.Go(func() { b.copy(near, far) })
	b.copy(far, near)
	back.Wait()
}

func (b *bridge) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		b.waitUncut()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
