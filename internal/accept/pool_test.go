package accept

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// remote is a connection that comes from an address.
type remote struct {
	net.Conn
	from net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.from }

// queue is a listener of connections and errors that a test gives.
type queue struct {
	next chan any
	done chan struct{}
}

func newQueue() *queue { return &queue{make(chan any, 10_000), make(chan struct{})} }

func (q *queue) Accept() (net.Conn, error) {
	select {
	case v := <-q.next:
		if c, ok := v.(net.Conn); ok {
			return c, nil
		}
		return nil, v.(error)
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error   { close(q.done); return nil }
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// dial puts a connection from an address into the queue.
func (q *queue) dial(t *testing.T, ip string) (client net.Conn) {
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close(); server.Close() })
	q.next <- remote{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 1))}
	return client
}

// accepts serves a Pool's listener in a synctest bubble. taken has the accepted
// connections.
func accepts(t *testing.T, b Bounds) (q *queue, p *Pool, taken chan net.Conn) {
	q, p, taken = newQueue(), NewPool(b), make(chan net.Conn, 10_000)
	l := p.Listen(q)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(taken)
				return
			}
			taken <- c
		}
	}()
	t.Cleanup(func() {
		l.Close()
		for c := range taken {
			c.Close()
		}
		if p.open != 0 || p.unproven != 0 || len(p.sources) != 0 {
			t.Errorf("%d connections are counted, %d of them unproven, of %d sources", p.open, p.unproven, len(p.sources))
		}
	})
	return q, p, taken
}

// isOpen reports whether the other end of a pipe is open.
func isOpen(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF)
}

func count(cs []net.Conn) (n int) {
	for _, c := range cs {
		if isOpen(c) {
			n++
		}
	}
	return n
}

// TestIdleConnectionsMakeRoom checks that unproven connections are bounded for each
// address and in all, end at their deadline, and make room for the nodes of a job.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, taken := accepts(t, Bounds{Total: 100, Unproven: 40, PerSource: 10, Proof: 10 * time.Second, Grace: time.Second})
		var idle []net.Conn
		flood := func(ip string, n int) {
			for range n {
				idle = append(idle, q.dial(t, ip))
			}
			synctest.Wait()
		}
		flood("192.0.2.1", 100)
		if n := count(idle); n != 10 {
			t.Errorf("one address has %d idle connections, not 10", n)
		}
		for _, ip := range []string{"192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"} {
			flood(ip, 100)
		}
		if n := count(idle); n != 40 {
			t.Errorf("five addresses have %d idle connections, not 40", n)
		}
		node := q.dial(t, "192.0.2.99") // no idle one is older than the grace
		synctest.Wait()
		if !isOpen(node) {
			t.Error("an address with one connection was kept out")
		}
		time.Sleep(2 * time.Second)
		neighbour := q.dial(t, "192.0.2.1")
		synctest.Wait()
		if !isOpen(neighbour) {
			t.Error("idle connections keep out a node behind their address")
		}
		if n := count(append(idle, node, neighbour)); n != 40 {
			t.Errorf("%d connections are open, not 40", n)
		}
		for range len(taken) {
			if c := <-taken; c.RemoteAddr().String() == "192.0.2.99:1" {
				MarkProven(c)
				defer c.Close()
			}
		}
		time.Sleep(11 * time.Second)
		if n := count(append(idle, neighbour)); n != 0 || !isOpen(node) {
			t.Errorf("%d idle connections outlive their deadline; the proven one is open: %v", n, isOpen(node))
		}
	})
}

// TestBurstIsServedInOrder checks a burst of nodes from one address: the Pool accepts
// them as fast as they prove themselves, and does not close the first for the last.
func TestBurstIsServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, p, taken := accepts(t, Bounds{Total: 2000, Unproven: 40, PerSource: 10})
		var nodes []net.Conn
		for range 50 {
			nodes = append(nodes, q.dial(t, "192.0.2.1"))
		}
		synctest.Wait()
		if n := count(nodes[:10]); n != 10 || count(nodes) != 10 {
			t.Fatalf("%d of the first 10 are open, %d in all", n, count(nodes))
		}
		var served []net.Conn
		for range 10 {
			c := <-taken
			MarkProven(c)
			served = append(served, c)
		}
		// The address is known by now: its workers come all at once.
		for range 40 {
			nodes = append(nodes, q.dial(t, "192.0.2.1"))
		}
		synctest.Wait()
		if n := count(nodes); n != 50 {
			t.Errorf("%d are open, not 50", n)
		}
		for _, c := range served {
			c.Close()
		}
		if p.open != 40 {
			t.Errorf("%d are counted after some closed, not 40", p.open)
		}
	})
}

// TestProvenConnectionsLeaveDescriptors checks that proven connections are bounded, too,
// and that a connection that is unproven again has a deadline again.
func TestProvenConnectionsLeaveDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, taken := accepts(t, Bounds{Total: 20, Unproven: 10, PerSource: 10})
		var nodes, served []net.Conn
		for range 30 {
			nodes = append(nodes, q.dial(t, "2001:db8::1"))
			synctest.Wait()
			if len(taken) > 0 {
				c := <-taken
				MarkProven(struct{ wrapped }{wrapped{c}})
				served = append(served, c)
			}
		}
		if n := count(nodes); n != 20 {
			t.Errorf("%d connections are open, not 20", n)
		}
		MarkUnproven(served[0])
		MarkUnproven(served[1])
		RemoveDeadline(served[1])
		time.Sleep(time.Minute)
		if n := count(nodes); n != 19 || isOpen(nodes[0]) {
			t.Errorf("%d connections are open, not 19", n)
		}
		for _, c := range served {
			c.Close()
			c.Close() // counts once
		}
	})
}

type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// TestListenerSurvivesLackOfDescriptors checks that a listener goes on, with a Pool or
// without, closes an idle connection, and can be closed while it waits.
func TestListenerSurvivesLackOfDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, taken := accepts(t, Bounds{Total: 20})
		idle := q.dial(t, "192.0.2.1")
		synctest.Wait()
		q.next <- &net.OpError{Op: "accept", Err: syscall.EMFILE}
		node := q.dial(t, "192.0.2.2")
		time.Sleep(time.Second)
		if isOpen(idle) || !isOpen(node) {
			t.Errorf("the idle connection is open: %v, the node's: %v", isOpen(idle), isOpen(node))
		}
		for range len(taken) {
			(<-taken).Close()
		}
	})
	synctest.Test(t, func(t *testing.T) {
		bad := newQueue()
		l := (*Pool)(nil).Listen(bad)
		for range 1000 {
			bad.next <- syscall.EMFILE
		}
		ended := make(chan error)
		go func() { _, err := l.Accept(); ended <- err }()
		time.Sleep(time.Second)
		l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	q := newQueue()
	q.next <- errors.New("no socket")
	if _, err := NewPool(Bounds{}).Listen(q).Accept(); err == nil {
		t.Error("Accept hides that the listener has failed")
	}
}

func TestSourceOf(t *testing.T) {
	at := func(s string) net.Conn { return remote{nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s))} }
	for addr, want := range map[string]string{
		"192.0.2.1:9": "192.0.2.1", "[::ffff:192.0.2.1]:9": "192.0.2.1",
		"[2001:db8:1:2:3::4]:9": "2001:db8:1:2::/64", "[fe80::1%eth0]:9": "fe80::/64",
	} {
		if got := sourceOf(at(addr)); got != want {
			t.Errorf("%s comes from %s, not %s", addr, got, want)
		}
	}
}

func TestDefaultBoundsFitTheProcess(t *testing.T) {
	b := Bounds{}.withDefaults()
	if b.Total <= 0 || b.Total > openFiles()-min(openFiles()/4, 1024) || b.Unproven > b.Total || b.PerSource > b.Unproven {
		t.Errorf("%+v of %d open files", b, openFiles())
	}
	if slices.Contains([]int{b.Unproven, b.PerSource}, 0) {
		t.Errorf("%+v", b)
	}
}

// TestSilentConnectionBesideEachProvenOne checks that an address keeps one silent
// connection for each proven one, above the bound of unproven ones, and no more.
func TestSilentConnectionBesideEachProvenOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, taken := accepts(t, Bounds{Total: 100, Unproven: 4, PerSource: 2, Proof: 10 * time.Second, Grace: time.Second})
		var silent []net.Conn
		for range 20 {
			q.dial(t, "192.0.2.1")
			speaking := <-taken
			MarkProven(speaking)
			defer speaking.Close()
			silent = append(silent, q.dial(t, "192.0.2.1"))
			mute := <-taken
			RemoveDeadline(mute)
			defer mute.Close()
			time.Sleep(2 * time.Second)
		}
		if n := count(silent); n != 20 {
			t.Errorf("%d of 20 silent connections are open", n)
		}
		for range 20 {
			silent = append(silent, q.dial(t, "192.0.2.1"))
			synctest.Wait()
			time.Sleep(2 * time.Second)
		}
		if n := count(silent); n > 24 {
			t.Errorf("%d silent connections are open beside 20 that speak", n)
		}
		other := q.dial(t, "192.0.2.2")
		synctest.Wait()
		if !isOpen(other) {
			t.Error("silent connections keep out another address")
		}
	})
}
