package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/secret"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Dial opens a stream to the agent at addr and reports Dialed or DialFailed. The end
// of ctx ends the attempt. An open stream ends with Serve.
func (p *Plane) Dial(ctx context.Context, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		p.opts.Post(rendezvous.DialFailed{Addr: addr, Text: errEnding.Error()})
		return
	}
	p.wg.Go(func() {
		tcp, err := p.connect(ctx, addr)
		answered := err == nil || errors.Is(err, syscall.ECONNRESET)
		if err == nil {
			err = p.dialed(ctx, addr, tcp)
		}
		if err == nil {
			return
		}
		if _, other := errors.AsType[*secret.Mismatch](err); answered && !other {
			err = cmp.Or(p.waitForRefusal(ctx, addr), err)
		}
		p.opts.Post(rendezvous.DialFailed{Addr: addr, Refused: errors.Is(err, syscall.ECONNREFUSED), Text: err.Error()})
	})
}

// lookupTime bounds how long the host of an address is looked up. A name server that does
// not answer costs a resolver 5 s, for each suffix of names, before it asks the next one.
const lookupTime = 30 * time.Second

// connect connects to addr, whose host may be a name, in the time Dial after the look-up.
func (p *Plane) connect(ctx context.Context, addr string) (net.Conn, error) {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	var found sync.Once
	var expired, connecting atomic.Bool
	limit := time.AfterFunc(lookupTime, func() { expired.Store(true); cancel() })
	defer limit.Stop()
	d := net.Dialer{Control: func(network, address string, c syscall.RawConn) error {
		found.Do(func() { connecting.Store(true); limit.Reset(p.opts.Dial) })
		return limitSegments(network, address, c)
	}}
	c, err := d.DialContext(life, "tcp", addr)
	switch {
	case err == nil || !expired.Load() || ctx.Err() != nil:
		return c, err
	case connecting.Load():
		return nil, fmt.Errorf("dial tcp %s: %w", addr, os.ErrDeadlineExceeded)
	}
	return nil, fmt.Errorf("no name server said within %v what %s is", lookupTime, addr)
}

// segment is the largest payload of a TCP segment of a stream, in bytes. It fits into
// every path that IPv6 allows (1280, RFC 8200). On a path that drops larger packets
// silently, the finding about just that must arrive.
const segment = 1220

// limitSegments limits both directions: what this side sends and, through the
// connection's first packet, what the other side sends.
func limitSegments(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, segment)
	})
}

// waitForRefusal waits a moment for the refusal of an address that has just answered, and
// returns it, nil if none comes. A process that is killed loses its sockets one after
// the other. An agent that saw its stream break may find its listener still there.
func (p *Plane) waitForRefusal(ctx context.Context, addr string) error {
	for range 10 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		tcp, err := (&net.Dialer{Timeout: p.opts.Dial}).DialContext(ctx, "tcp", addr)
		switch {
		case err == nil:
			tcp.Close()
		case errors.Is(err, syscall.ECONNREFUSED):
			return err
		case !errors.Is(err, syscall.ECONNRESET):
			return nil
		}
	}
	return nil
}

// dialed runs the stream on a connection to its end.
func (p *Plane) dialed(ctx context.Context, addr string, tcp net.Conn) error {
	conns := make(chan net.Conn, 1)
	conns <- tcp
	defer tcp.Close()
	var other atomic.Bool
	creds := newGuard(p.opts.TLS, func(net.Addr) { other.Store(true) }, nil)
	cc, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(creds), grpc.WithNoProxy(),
		grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-conns:
				return c, nil
			default: // one connection a stream: gRPC must not replace a broken one without the state machine
				return nil, errors.New("the connection has ended")
			}
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(jsonCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("cannot set up the stream to %s: %w", addr, err)
	}
	defer cc.Close()
	// The stream outlives ctx. Serve ends it after what was sent on it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	giveUp := time.AfterFunc(p.opts.Dial, cancel)
	attempt := context.AfterFunc(ctx, cancel)
	defer attempt()
	s, err := cc.NewStream(life, &serviceDesc().Streams[0], joinMethod)
	var head metadata.MD
	if err == nil {
		if head, err = s.Header(); err == nil && len(head.Get(greeting)) == 0 {
			err = cmp.Or(s.RecvMsg(new(rendezvous.Message)), errors.New("it sent no gorun header")) // says why
		}
		if err == nil && (!giveUp.Stop() || !attempt()) {
			err = context.DeadlineExceeded
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case other.Load():
		p.otherSecret(tcp.RemoteAddr(), true)
		return &secret.Mismatch{At: addr}
	case life.Err() != nil:
		return fmt.Errorf("%s accepts connections, but no gorun answered within %v; is the port used by another program?", addr, p.opts.Dial)
	case err != nil:
		return fmt.Errorf("%s does not speak gorun's control protocol (%s); is the port used by another program?", addr, brief(err))
	}
	l := p.open(s, nil)
	if l == nil {
		return errEnding
	}
	if nonce := head.Get(challenge); len(nonce) > 0 {
		l.nonce = nonce[0]
	}
	l.post(rendezvous.Dialed{Addr: addr, Conn: l.id}, false)
	_ = l.run(life, s.CloseSend)
	return nil
}
