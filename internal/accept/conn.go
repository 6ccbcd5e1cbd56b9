package accept

import (
	"net"
	"time"
)

type state int

const (
	unproven state = iota
	proven
	closed
)

// Conn is a connection that a Pool counts until it is closed.
type Conn struct {
	net.Conn
	pool *Pool
	from string

	// Guarded by the pool's mu.
	state state
	since time.Time   // when the connection became unproven
	limit *time.Timer // closes the connection if it is still unproven
}

// NetConn returns the wrapped connection, as that of a tls.Conn does.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and makes room for another one.
func (c *Conn) Close() error {
	c.pool.mu.Lock()
	c.pool.remove(c)
	c.pool.mu.Unlock()
	return c.Conn.Close()
}

// expire closes the connection if it is still unproven.
func (c *Conn) expire() {
	c.pool.mu.Lock()
	late := c.state == unproven && time.Since(c.since) >= c.pool.bounds.Proof
	if late {
		c.pool.remove(c)
	}
	c.pool.mu.Unlock()
	if late {
		c.Conn.Close()
	}
}

// Prove marks a connection as proven: it belongs to a client. It then has no deadline,
// and no newcomer takes its place. A connection that no Pool counts needs no proof.
// Prove finds the Conn below wrappers that have a method NetConn.
func Prove(c net.Conn) {
	if counted := find(c); counted != nil {
		counted.prove()
	}
}

// Tolerate removes the deadline of an unproven connection, which may then be silent for
// any time. Newcomers may still take its place until it is proven.
func Tolerate(c net.Conn) {
	if counted := find(c); counted != nil {
		counted.pool.mu.Lock()
		defer counted.pool.mu.Unlock()
		if counted.state == unproven {
			counted.limit.Stop()
		}
	}
}

// Doubt marks a connection as unproven again, because its purpose is over.
func Doubt(c net.Conn) {
	if counted := find(c); counted != nil {
		counted.doubt()
	}
}

// find returns the Conn below a connection, nil if there is none.
func find(c net.Conn) *Conn {
	for {
		if counted, ok := c.(*Conn); ok {
			return counted
		}
		wrapped, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = wrapped.NetConn()
	}
}

func (c *Conn) prove() {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state != unproven {
		return
	}
	p.unprove(c)
	c.state = proven
	s := p.sources[c.from]
	p.change(s, func() { s.proven++ })
}

func (c *Conn) doubt() {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state != proven {
		return
	}
	s := p.sources[c.from]
	p.change(s, func() { s.proven-- })
	p.add(c, s)
}
