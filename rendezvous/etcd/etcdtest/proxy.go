package etcdtest

import (
	"net"
	"sync"
	"testing"
)

// Proxy is a link to one address that can be cut. While it is cut, bytes do not
// arrive, as behind a broken switch. They arrive late when it is mended.
type Proxy struct {
	target string
	l      net.Listener

	mu    sync.Mutex
	whole *sync.Cond
	cut   bool
	over  bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// NewProxy opens a link to target (host:port) until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, l: l, conns: map[net.Conn]bool{}}
	p.whole = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr is the near end, host:port.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Cut stops all bytes, of new connections too.
func (p *Proxy) Cut() { p.set(true) }

// Mend lets them flow again.
func (p *Proxy) Mend() { p.set(false) }

func (p *Proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.whole.Broadcast()
}

// Reset breaks all connections off; new ones are possible.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Close ends the link: connections break and new ones are refused.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.over = true
	p.whole.Broadcast()
	p.mu.Unlock()
	_ = p.l.Close()
	p.Reset()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		near, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(near) })
	}
}

func (p *Proxy) serve(near net.Conn) {
	if !p.add(near) {
		return
	}
	defer p.remove(near)
	if !p.pass() {
		return
	}
	far, err := net.Dial("tcp", p.target)
	if err != nil || !p.add(far) {
		return
	}
	defer p.remove(far)
	var back sync.WaitGroup
	back.Go(func() { p.pump(near, far) })
	p.pump(far, near)
	back.Wait()
}

func (p *Proxy) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !p.pass() {
			return
		}
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

// pass waits while the link is cut. It returns false if the link is closed.
func (p *Proxy) pass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut && !p.over {
		p.whole.Wait()
	}
	return !p.over
}

func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}
