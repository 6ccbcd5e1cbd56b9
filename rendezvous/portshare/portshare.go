// Package portshare serves several protocols on one port: gRPC's HTTP/2, over TLS or
// not, one that the caller names, and whatever else connects. It distinguishes them by
// the first byte that a client sends. All protocols here have clients that send first.
package portshare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// firstByte bounds the wait for a client's first byte. A connection that never sends
// one is closed.
const firstByte = 30 * time.Second

// Share is one listening port seen as several listeners.
type Share struct {
	l     net.Listener
	grpc  *listener
	extra *listener // nil: there is no other protocol
	first byte      // begins each connection of extra

	mu     sync.Mutex
	others *listener
}

// New splits l. Nothing is accepted before Serve.
func New(l net.Listener) *Share {
	s := &Share{l: l}
	s.grpc, s.others = s.newListener(), s.newListener()
	return s
}

func (s *Share) newListener() *listener {
	return &listener{addr: s.l.Addr(), conns: make(chan net.Conn), done: make(chan struct{})}
}

// GRPC returns the listener of connections that open with HTTP/2's preface or as TLS.
func (s *Share) GRPC() net.Listener { return s.grpc }

// Beginning returns the listener of connections whose first byte is first. It must be
// called before Serve, and once.
func (s *Share) Beginning(first byte) net.Listener {
	s.extra, s.first = s.newListener(), first
	return s.extra
}

// Others returns a fresh listener for all other connections and closes the listener that
// it returned before. A connection that comes while it is closed is closed too.
func (s *Share) Others() net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others.Close()
	s.others = s.newListener()
	return s.others
}

func (s *Share) current() *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others
}

// Serve accepts and sorts connections until ctx ends or the port is closed.
func (s *Share) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.grpc.Close()
	defer func() { s.current().Close() }()
	if s.extra != nil {
		defer s.extra.Close()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		c, err := s.l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("cannot accept on %s: %w", s.l.Addr(), err)
		}
		wg.Go(func() { s.route(ctx, c) })
	}
}

func (s *Share) route(ctx context.Context, c net.Conn) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_ = c.SetReadDeadline(time.Now().Add(firstByte))
	r := bufio.NewReaderSize(c, 16)
	b, err := r.Peek(1)
	if err != nil {
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	to := s.current()
	switch {
	case b[0] == 'P' || b[0] == 0x16: // "PRI * HTTP/2.0"; a record of TLS's handshake
		to = s.grpc
	case s.extra != nil && b[0] == s.first:
		to = s.extra
	}
	if !stop() {
		return
	}
	to.deliver(ctx, &peeked{c, r})
}

// peeked is a connection whose first bytes were read in advance. Read returns them
// first.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

// NetConn returns the connection below.
func (p *peeked) NetConn() net.Conn { return p.Conn }

func (p *peeked) Read(b []byte) (int, error) {
	if p.r.Buffered() > 0 {
		return p.r.Read(b[:min(len(b), p.r.Buffered())])
	}
	return p.Conn.Read(b)
}

// listener is one of the listeners.
type listener struct {
	addr  net.Addr
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *listener) deliver(ctx context.Context, c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		c.Close()
	case <-ctx.Done():
		c.Close()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *listener) Addr() net.Addr { return l.addr }
