package tcpstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/accept"
)

// Options bounds what clients may cost. A zero field means its default.
type Options struct {
	// MaxBytes bounds the sum of keys, values, pending waits and requests being
	// read, in bytes. Default 1 GiB.
	MaxBytes int64
	// MaxClients bounds the connections served at a time. Further connections
	// are closed at once. torch before 2.1 opens two for each process, NCCL's
	// watchdog another. Default 65536.
	MaxClients int
	// FrameTimeout is how long the rest of a request may take once the request
	// has begun and paused. Default 30 s.
	FrameTimeout time.Duration
	// WriteTimeout is how long a client may take to accept each MiB of a reply.
	// Default 30 s.
	WriteTimeout time.Duration
	// Allow reports whether clients at an address are served; nil: all are.
	// Refused, if not nil, is called for each connection that Allow refuses.
	Allow   func(netip.Addr) bool
	Refused func(netip.Addr)
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxClients <= 0 {
		o.MaxClients = 64 << 10
	}
	if o.FrameTimeout <= 0 {
		o.FrameTimeout = 30 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 30 * time.Second
	}
	return o
}

// Server is the store of one round. Make one with New; it is safe for
// concurrent use.
type Server struct {
	options Options
	store   *store

	// The store's lock guards the fields below.
	conns         map[*conn]struct{}
	accepted      int64
	rejected      int64
	lastRejection error
}

// New returns an empty store. It starts nothing.
func New(o Options) *Server {
	o = o.withDefaults()
	return &Server{options: o, store: newStore(o.MaxBytes), conns: make(map[*conn]struct{})}
}

// Serve accepts and serves connections from l until ctx ends or l is closed,
// and then returns nil. A connection proves itself to an accept.Pool by its
// first request, which has no deadline, because torch before 2.1 opens a
// connection that sends nothing. Serve returns an error if l cannot be used any
// more. In every case l and all its connections are closed and their goroutines
// have ended before it returns.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { l.Close(); close(closed) })
	defer func() {
		if stop() {
			l.Close()
		} else {
			<-closed
		}
	}()

	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			if !s.allow(nc) {
				nc.Close()
				continue
			}
			accept.RemoveDeadline(nc)
			// Stats shows the error of a connection.
			conns.Go(func() { _ = s.ServeConn(ctx, nc) })
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		default:
			return fmt.Errorf("cannot accept store clients on %s: %w", l.Addr(), err)
		}
	}
}

// allow reports whether a connection may be served.
func (s *Server) allow(nc net.Conn) bool {
	from := remoteOf(nc)
	if s.options.Allow == nil || s.options.Allow(from.Addr()) {
		return true
	}
	s.store.mu.Lock()
	_ = s.reject(&conn{remote: from}, errors.New("has an address that no node of this job has"))
	s.store.mu.Unlock()
	if s.options.Refused != nil {
		s.options.Refused(from.Addr())
	}
	return false
}

// ServeConn serves one connection until it or ctx ends, and closes it. If the
// caller has read bytes from the connection, nc.Read must return them first.
// The error says what the client did wrong. It is nil if the client disconnected.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) error {
	defer nc.Close()
	c, err := s.admit(nc)
	if err != nil {
		return err
	}
	var closing sync.WaitGroup
	closing.Add(1)
	stop := context.AfterFunc(ctx, func() { nc.Close(); closing.Done() })
	err = c.serve()
	if !stop() {
		closing.Wait()
	}
	if ctx.Err() != nil || isDisconnect(err) {
		err = nil
	}
	return s.dismiss(c, err)
}

// isDisconnect reports whether a connection ended because the peer or the network was
// lost, perhaps in the middle of a request, as after a crash.
func isDisconnect(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *Server) admit(nc net.Conn) (*conn, error) {
	c := newConn(nc, s.store, s.options)
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	if len(s.conns) >= s.options.MaxClients {
		return nil, s.reject(c, fmt.Errorf("exceeds the limit of %d clients", s.options.MaxClients))
	}
	s.accepted++
	s.conns[c] = struct{}{}
	return c, nil
}

// dismiss removes a connection that ended with err and returns err with the
// client's address.
func (s *Server) dismiss(c *conn, err error) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	delete(s.conns, c)
	s.store.leave(&c.session)
	if err == nil {
		return nil
	}
	return s.reject(c, err)
}

// reject counts a client that was refused. The store's lock is held.
func (s *Server) reject(c *conn, err error) error {
	err = fmt.Errorf("store client %s: %w", c.remote, err)
	s.rejected++
	s.lastRejection = err
	return err
}

// Set stores a value for the workers, as one of them would with torch's client.
func (s *Server) Set(key string, value []byte) error {
	_, err := s.store.apply(&session{}, func() error { return s.store.set(clientPrefix+key, value) })
	return err
}

// clientPrefix begins the keys that torch's client sends.
const clientPrefix = "/"
