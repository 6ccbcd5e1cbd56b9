package control

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/rendezvous"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Options of a Plane.
type Options struct {
	Interval    time.Duration // between two signs of life on a stream
	Silence     time.Duration // without any sign of life the stream ends
	SilentAfter time.Duration // without any sign of life it is reported with Silence; 0: never
	Dial        time.Duration // limit of one attempt to connect
	Post        func(rendezvous.Event)
	Failed      func(error) // no agent can connect any more; the streams that are open go on

	Identity *rendezvous.Identity // of the id in this agent's hello; nil: it proves none

	TLS *tls.Config // of both sides (secret.Secret.TLS); nil: streams are not protected
	// OtherSecret, if not nil, is called when the agent at an IP address has
	// another secret than this agent, or when only one of the two agents has a secret.
	// dialed means that this agent dialed the other agent, and that DialFailed follows.
	OtherSecret func(ip string, dialed bool)
	// ForeignTLS, if not nil, is called when something at an IP address that is not an
	// agent speaks TLS to this agent, which has no secret.
	ForeignTLS func(ip string)
}

// Plane is one agent's end of the control plane. It serves the streams of others and
// opens its own. Post receives what happens, one event at a time for each stream. It
// must not block. The receiver of a Received calls Handled when it has handled the
// message.
type Plane struct {
	opts Options
	wg   sync.WaitGroup

	mu              sync.Mutex
	next            rendezvous.Conn
	links           map[rendezvous.Conn]*link
	latest          *outgoing // that was sent
	roster          *roster   // of the latest world that was sent
	lastBeat        time.Time // the last heartbeat
	lastDelayedBeat time.Time // the last heartbeat that was much too late
	ended           bool
}

// New makes a plane that does nothing until Serve.
func New(opts Options) *Plane {
	return &Plane{opts: opts, links: map[rendezvous.Conn]*link{}}
}

// Serve accepts streams from other agents until ctx ends, then ends every
// stream, after what was sent on it has left, and waits for all of them. A
// connection proves itself to an accept.Pool by the first message of its stream.
// Without a listener (nil) Serve only looks after the streams that this agent
// dialed.
func (p *Plane) Serve(ctx context.Context, l net.Listener) {
	srv := grpc.NewServer(
		grpc.ForceServerCodec(jsonCodec{}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(1), grpc.MaxHeaderListSize(8<<10),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.Creds(newGuard(p.opts.TLS, func(a net.Addr) { p.otherSecret(a, false) }, p.foreignTLS)),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: time.Minute}), // a connection without a stream
		grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(32<<10),
	)
	srv.RegisterService(serviceDesc(), p)
	accepting := make(chan error, 1)
	in := newTrackingListener(l)
	if l != nil {
		go func() { accepting <- srv.Serve(in) }()
	}
	heart := time.NewTicker(p.opts.Interval)
	defer heart.Stop()
	p.mu.Lock()
	p.lastBeat = time.Now()
	p.mu.Unlock()
	for ctx.Err() == nil {
		select {
		case <-heart.C:
			p.beat(time.Now())
		case err := <-accepting:
			if err != nil && !errors.Is(err, net.ErrClosed) {
				p.opts.Failed(fmt.Errorf("cannot serve the control plane: %w", err))
			}
		case <-ctx.Done():
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
}

// drainTimeout bounds how long an ending agent waits for its last messages to
// leave.
const drainTimeout = time.Second

// greeting is the header with which a gorun answers a dial.
const greeting = "gorun-answers"

// challenge is the header with the nonce that the hello's Proof must answer.
const challenge = "gorun-nonce"

var errEnding = errors.New("this agent is ending")

// join serves one incoming stream. It implements joiner.
func (p *Plane) join(s grpc.ServerStream) error {
	nonce, from := rand.Text(), ""
	if pr, ok := peer.FromContext(s.Context()); ok {
		from, _, _ = net.SplitHostPort(pr.Addr.String())
	}
	l := p.open(s, func(msg *rendezvous.Message) {
		if msg.Node != nil {
			msg.Node.Proven = msg.Proof.Shows(msg.Node.ID, nonce)
			msg.Node.SourceIP = from
		}
	})
	if l == nil {
		return errEnding
	}
	if err := s.SendHeader(metadata.Pairs(greeting, serviceName, challenge, nonce)); err != nil {
		p.forget(l.id)
		return err
	}
	if c := connOf(s.Context()); c != nil {
		l.onReceived = func() { accept.MarkProven(c) }
		defer accept.MarkUnproven(c) // because the stream has ended
	}
	return l.run(s.Context(), nil)
}

// otherSecret reports an agent that has another secret.
func (p *Plane) otherSecret(a net.Addr, dialed bool) {
	ip, _, err := net.SplitHostPort(a.String())
	if err == nil && p.opts.OtherSecret != nil {
		p.opts.OtherSecret(ip, dialed)
	}
}

// foreignTLS reports something that is not an agent.
func (p *Plane) foreignTLS(a net.Addr) {
	if ip, _, err := net.SplitHostPort(a.String()); err == nil && p.opts.ForeignTLS != nil {
		p.opts.ForeignTLS(ip)
	}
}

// open makes a link. annotate gets each message that comes in first. It may be nil.
func (p *Plane) open(s stream, annotate func(*rendezvous.Message)) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.links) >= maxStreams {
		return nil
	}
	p.next++
	l := newLink(p, p.next, s)
	l.annotate = annotate
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

// Send queues a message. The message is dropped if the stream has ended. What the
// message points to must not change any more.
func (p *Plane) Send(id rendezvous.Conn, msg rendezvous.Message) {
	if l := p.find(id); l != nil {
		if msg.Type == rendezvous.MsgHello && p.opts.Identity != nil {
			msg.Proof = p.opts.Identity.Prove(l.nonce)
		}
		l.send(p.outgoing(msg))
	}
}

// Handled says that the oldest Received of a stream that was not handled yet has been
// handled. A stream of which too many wait is not read.
func (p *Plane) Handled(id rendezvous.Conn) {
	if l := p.find(id); l != nil {
		l.handled()
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
	p.mu.Lock()
	if now.Sub(p.lastBeat) >= 2*p.opts.Interval {
		p.lastDelayedBeat = now
	}
	p.lastBeat = now
	p.mu.Unlock()
	ping := newOutgoing(rendezvous.Message{Type: msgPing}, nil)
	for _, l := range p.all() {
		last, stuckSince := l.state(now)
		if p.opts.SilentAfter > 0 && now.Sub(last) >= p.opts.SilentAfter {
			l.reportSilence(true)
		}
		if silentFor := now.Sub(last); silentFor >= p.opts.Silence {
			l.end(ending{silent: true, text: fmt.Sprintf("silent for %v", silentFor.Round(100*time.Millisecond))})
			continue
		}
		if !stuckSince.IsZero() && now.Sub(stuckSince) >= p.opts.Silence {
			l.end(ending{silent: true, text: "it does not read its messages"})
			continue
		}
		l.send(ping)
	}
}

// wasStopped reports whether this agent itself did not run lately, because its process
// was stopped or its machine suspended. The others have given it up meanwhile. What
// it finds broken or refused now does not prove that they are lost.
func (p *Plane) wasStopped(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	beatIsLate := !p.lastBeat.IsZero() && now.Sub(p.lastBeat) >= 2*p.opts.Interval
	return !p.ended && (beatIsLate || !p.lastDelayedBeat.IsZero() && now.Sub(p.lastDelayedBeat) < p.opts.Interval)
}
