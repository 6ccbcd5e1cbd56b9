package control

import (
	"net"
	"sync"
	"testing"
)

// proxy forwards TCP between a dialer and an agent until a test stops it.
type proxy struct {
	l    net.Listener
	to   string
	mu   sync.Mutex
	cond *sync.Cond
	mute bool
	end  bool
	open []net.Conn
	wg   sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x := &proxy{l: l, to: to}
	x.cond = sync.NewCond(&x.mu)
	x.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			x.mu.Lock()
			x.open = append(x.open, c, d)
			x.mu.Unlock()
			x.wg.Go(func() { x.copy(c, d) })
			x.wg.Go(func() { x.copy(d, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		x.cut()
		x.wg.Wait()
	})
	return x
}

func (x *proxy) addr() string { return x.l.Addr().String() }

func (x *proxy) copy(from, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		x.mu.Lock()
		for x.mute && !x.end {
			x.cond.Wait()
		}
		x.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// silence keeps the connections open and forwards nothing.
func (x *proxy) silence() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mute = true
}

// cut breaks all connections.
func (x *proxy) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.end = true
	x.cond.Broadcast()
	for _, c := range x.open {
		if tc, ok := c.(*net.TCPConn); ok {
			_ = tc.SetLinger(0) // a reset, as a killed process leaves
		}
		c.Close()
	}
	x.open = nil
}
