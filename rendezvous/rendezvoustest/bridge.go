package rendezvoustest

import (
	"net"
	"sync"
)

// bridge forwards connections to one address. While it is cut bytes wait, as on
// a path that a retransmission will cross later.
type bridge struct {
	to string
	l  net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	whole *sync.Cond
	cut   bool
	conns map[net.Conn]bool
}

func newBridge(to string) (*bridge, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bridge{to: to, l: l, conns: map[net.Conn]bool{}}
	b.whole = sync.NewCond(&b.mu)
	b.wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() { b.carry(near) })
		}
	})
	return b, nil
}

func (b *bridge) addr() string { return b.l.Addr().String() }

func (b *bridge) set(cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = cut
	b.whole.Broadcast()
}

// refuse lets nobody in any more; who is in stays.
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

func (b *bridge) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.cut {
		b.whole.Wait()
	}
}

func (b *bridge) hold(c net.Conn, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if on {
		b.conns[c] = true
		return
	}
	delete(b.conns, c)
	_ = c.Close()
}

func (b *bridge) carry(near net.Conn) {
	b.hold(near, true)
	defer b.hold(near, false)
	b.pass()
	far, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	b.hold(far, true)
	defer b.hold(far, false)
	var back sync.WaitGroup
	back.Go(func() { b.pump(near, far) })
	b.pump(far, near)
	back.Wait()
}

func (b *bridge) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		b.pass()
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
