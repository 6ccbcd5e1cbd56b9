package accept

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// Listener accepts the connections that its Pool has room for. Its Accept fails only
// when the listener cannot be used any more.
type Listener struct {
	net.Listener
	pool *Pool
	once sync.Once
	done chan struct{}
}

// Listen makes a Listener of l. A nil Pool counts nothing. Its Listener still survives a
// lack of descriptors.
func (p *Pool) Listen(l net.Listener) *Listener {
	return &Listener{Listener: l, pool: p, done: make(chan struct{})}
}

// Close closes the listener; connections that it has accepted stay open.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// maxPause bounds the wait after an accept that failed.
const maxPause = 100 * time.Millisecond

// Accept waits for the next connection that there is room for. After Close the
// error is net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	pause := time.Duration(0)
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil && (l.pool == nil || countedConn(c) != nil): // no Pool counts, or another Listener has counted it
			return c, nil
		case err == nil:
			if counted, ok := l.pool.admit(c); ok {
				return counted, nil
			}
			c.Close()
			continue
		case !isTemporary(err):
			return nil, err
		}
		if l.pool != nil {
			l.pool.freeDescriptor()
		}
		pause = min(max(2*pause, 2*time.Millisecond), maxPause)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-l.done:
			t.Stop()
			return nil, net.ErrClosed
		}
	}
}

// isTemporary reports whether an accept can be tried again (accept(2)), because there was no
// descriptor or no memory, or the client left.
func isTemporary(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
