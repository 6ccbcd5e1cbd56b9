package control

import (
	"net"
	"sync"
)

// trackingListener remembers the connections that it accepted. A gRPC server that stops
// waits for each connection without a preface until its ConnectionTimeout,
// and offers no other way to end those.
type trackingListener struct {
	net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newTrackingListener(l net.Listener) *trackingListener {
	return &trackingListener{Listener: l, conns: map[net.Conn]bool{}}
}

func (a *trackingListener) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[c] = true
	return &trackedConn{c, a}, nil
}

// closeAll closes what is still open.
func (a *trackingListener) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		c.Close()
	}
	a.conns = map[net.Conn]bool{}
}

// trackedConn is a connection that the trackingListener forgets when it is closed.
type trackedConn struct {
	net.Conn
	a *trackingListener
}

// NetConn returns the connection below.
func (c *trackedConn) NetConn() net.Conn { return c.Conn }

func (c *trackedConn) Close() error {
	c.a.mu.Lock()
	delete(c.a.conns, c.Conn)
	c.a.mu.Unlock()
	return c.Conn.Close()
}
