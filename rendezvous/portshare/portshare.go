// Package portshare serves two protocols on one port: gRPC's HTTP/2, over TLS or not,
// and whatever else connects. It distinguishes them by the first byte that a client
// sends. All protocols here have clients that send first.
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

// Share is one listening port seen as two listeners.
type Share struct {
	l    net.Listener
	grpc *half

	mu     sync.Mutex
	others *half
}

// New splits l. Nothing is accepted before Serve.
func New(l net.Listener) *Share {
	s := &Share{l: l}
	s.grpc, s.others = s.half(), s.half()
	return s
}

func (s *Share) half() *half {
	return &half{addr: s.l.Addr(), conns: make(chan net.Conn), done: make(chan struct{})}
}

// GRPC returns the listener of connections that open with HTTP/2's preface or as TLS.
func (s *Share) GRPC() net.Listener { return s.grpc }

// Others returns a fresh listener for all other connections and closes the one that
// it returned before. A connection that comes while it is closed is closed too.
func (s *Share) Others() net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others.Close()
	s.others = s.half()
	return s.others
}

func (s *Share) current() *half {
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
		wg.Go(func() { s.sort(ctx, c) })
	}
}

func (s *Share) sort(ctx context.Context, c net.Conn) {
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
	if b[0] == 'P' || b[0] == 0x16 { // "PRI * HTTP/2.0"; a record of TLS's handshake
		to = s.grpc
	}
	if !stop() {
		return
	}
	to.give(ctx, &peeked{c, r})
}

// peeked gives back what was read to look at.
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

// half is one of the two listeners.
type half struct {
	addr  net.Addr
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (h *half) give(ctx context.Context, c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		c.Close()
	case <-ctx.Done():
		c.Close()
	}
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *half) Close() error   { h.once.Do(func() { close(h.done) }); return nil }
func (h *half) Addr() net.Addr { return h.addr }
