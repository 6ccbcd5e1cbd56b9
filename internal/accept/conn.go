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
	expired := c.state == unproven && time.Since(c.since) >= c.pool.bounds.Proof
	if expired {
		c.pool.remove(c)
	}
	c.pool.mu.Unlock()
	if expired {
		c.Conn.Close()
	}
}

// MarkProven marks a connection as proven: it then has no deadline, and the Pool does not
// close it for a new one. MarkProven does nothing for a connection that no Pool counts.
// It finds the Conn below wrappers that have a method NetConn.
func MarkProven(c net.Conn) {
	if counted := countedConn(c); counted != nil {
		counted.markProven()
	}
}

// RemoveDeadline removes the deadline of an unproven connection, which may then be silent
// for any time. The Pool may still close it for a new one until it is proven.
func RemoveDeadline(c net.Conn) {
	if counted := countedConn(c); counted != nil {
		counted.pool.mu.Lock()
		defer counted.pool.mu.Unlock()
		if counted.state == unproven {
			counted.limit.Stop()
		}
	}
}

// MarkUnproven marks a connection as unproven again, because its purpose is over.
func MarkUnproven(c net.Conn) {
	if counted := countedConn(c); counted != nil {
		counted.markUnproven()
	}
}

// countedConn returns the Conn below a connection, nil if there is none.
func countedConn(c net.Conn) *Conn {
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

func (c *Conn) markProven() {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state != unproven {
		return
	}
	p.removeUnproven(c)
	c.state = proven
	s := p.sources[c.from]
	p.updateSource(s, func() { s.proven++ })
}

func (c *Conn) markUnproven() {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.state != proven {
		return
	}
	s := p.sources[c.from]
	p.updateSource(s, func() { s.proven-- })
	p.add(c, s)
}
