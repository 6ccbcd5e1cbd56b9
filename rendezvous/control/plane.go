package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Options of a Plane.
type Options struct {
	Interval time.Duration // between two signs of life on a stream
	Silence  time.Duration // without any sign of life the stream ends
	Dial     time.Duration // limit of one attempt to connect
	Post     func(rendezvous.Event)
}

// Plane is one agent's end of the control plane: it serves the streams of
// others and opens its own. Post receives what happens, one event at a time
// for each stream; it must not block.
type Plane struct {
	opts Options
	wg   sync.WaitGroup

	mu    sync.Mutex
	next  rendezvous.Conn
	links map[rendezvous.Conn]*link
	ended bool
}

// New makes a plane that does nothing until Serve.
func New(opts Options) *Plane {
	return &Plane{opts: opts, links: map[rendezvous.Conn]*link{}}
}

// Serve accepts streams from other agents until ctx ends, then ends every
// stream, after what was sent on it has left, and waits for all of them. Without
// a listener (nil) it only looks after the streams that this agent dialed.
func (p *Plane) Serve(ctx context.Context, l net.Listener) error {
	srv := grpc.NewServer(
		grpc.ForceServerCodec(jsonCodec{}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(4), grpc.MaxHeaderListSize(8<<10),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10),
	)
	srv.RegisterService(serviceDesc(), p)
	done := make(chan error, 1)
	in := newAcceptor(l)
	if l != nil {
		go func() { done <- srv.Serve(in) }()
	}
	heart := time.NewTicker(p.opts.Interval)
	defer heart.Stop()
	var err error
	for run := true; run; {
		select {
		case <-heart.C:
			p.beat(time.Now())
		case err = <-done:
			run = false
		case <-ctx.Done():
			run = false
		}
	}
	p.closeAll()
	ended := make(chan struct{})
	go func() {
		srv.GracefulStop()
		p.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(drainTimeout):
		p.breakAll()
		in.closeAll()
		srv.Stop()
		<-ended
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("cannot serve the control plane: %w", err)
	}
	return nil
}

// drainTimeout bounds how long an ending agent waits for its last messages to
// leave.
const drainTimeout = time.Second

// join serves one incoming stream. It implements joiner.
func (p *Plane) join(s grpc.ServerStream) error {
	l := p.open(s)
	if l == nil {
		return errors.New("this agent is ending")
	}
	return l.run(s.Context(), nil)
}

// Dial opens a stream to the agent at addr and reports Dialed or DialFailed.
func (p *Plane) Dial(ctx context.Context, addr string) {
	p.wg.Go(func() {
		tcp, err := (&net.Dialer{Timeout: p.opts.Dial}).DialContext(ctx, "tcp", addr)
		if err != nil {
			p.opts.Post(rendezvous.DialFailed{Addr: addr, Refused: errors.Is(err, syscall.ECONNREFUSED), Text: err.Error()})
			return
		}
		if err := p.dialed(ctx, addr, tcp); err != nil {
			p.opts.Post(rendezvous.DialFailed{Addr: addr, Text: err.Error()})
		}
	})
}

// dialed runs the stream on a connection to its end.
func (p *Plane) dialed(ctx context.Context, addr string, tcp net.Conn) error {
	given := make(chan net.Conn, 1)
	given <- tcp
	defer tcp.Close()
	cc, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-given:
				return c, nil
			default: // one connection a stream: a broken one is never replaced behind the state machine's back
				return nil, errors.New("the connection is gone")
			}
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(jsonCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("cannot set up the stream to %s: %w", addr, err)
	}
	defer cc.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	giveUp := time.AfterFunc(p.opts.Dial, cancel)
	s, err := cc.NewStream(ctx, &serviceDesc().Streams[0], joinMethod)
	giveUp.Stop()
	if err != nil {
		return fmt.Errorf("%s does not speak gorun's control protocol: %w", addr, err)
	}
	l := p.open(s)
	if l == nil {
		return errors.New("this agent is ending")
	}
	p.opts.Post(rendezvous.Dialed{Addr: addr, Conn: l.id})
	_ = l.run(ctx, s.CloseSend)
	return nil
}

func (p *Plane) open(s stream) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.links) >= maxStreams {
		return nil
	}
	p.next++
	l := newLink(p, p.next, s)
	p.links[l.id] = l
	return l
}

func (p *Plane) find(id rendezvous.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links[id]
}

func (p *Plane) forget(id rendezvous.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, id)
}

func (p *Plane) all() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*link, 0, len(p.links))
	for _, l := range p.links {
		out = append(out, l)
	}
	return out
}

// Send queues a message; it is dropped if the stream has ended.
func (p *Plane) Send(id rendezvous.Conn, msg rendezvous.Message) {
	if l := p.find(id); l != nil {
		l.send(&msg)
	}
}

// Close ends a stream after what was sent on it has left.
func (p *Plane) Close(id rendezvous.Conn) {
	if l := p.find(id); l != nil {
		l.close()
	}
}

func (p *Plane) closeAll() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	for _, l := range p.all() {
		l.close()
	}
}

func (p *Plane) breakAll() {
	for _, l := range p.all() {
		l.end(ending{text: "the agent ends"})
	}
}

// beat sends a sign of life on every stream and ends the silent ones.
func (p *Plane) beat(now time.Time) {
	for _, l := range p.all() {
		if quiet := now.Sub(l.heard()); quiet >= p.opts.Silence {
			l.end(ending{silent: true, text: fmt.Sprintf("silent for %v", quiet.Round(100*time.Millisecond))})
			continue
		}
		l.send(&rendezvous.Message{Type: msgPing})
	}
}
