package control

import (
	"net"
	"sync"
)

// acceptor remembers the connections that it accepted. A gRPC server that stops waits
// for each connection that has not greeted yet until its ConnectionTimeout, and
// offers no other way to end those.
type acceptor struct {
	net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newAcceptor(l net.Listener) *acceptor {
	return &acceptor{Listener: l, conns: map[net.Conn]bool{}}
}

func (a *acceptor) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[c] = true
	return &accepted{c, a}, nil
}

// closeAll closes what is still open.
func (a *acceptor) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		c.Close()
	}
	a.conns = map[net.Conn]bool{}
}

// accepted is a connection that the acceptor forgets when it is closed.
type accepted struct {
	net.Conn
	a *acceptor
}

// NetConn returns the connection below.
func (c *accepted) NetConn() net.Conn { return c.Conn }

func (c *accepted) Close() error {
	c.a.mu.Lock()
	delete(c.a.conns, c.Conn)
	c.a.mu.Unlock()
	return c.Conn.Close()
}
