package meet

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/launch/handout"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/gossip"
	"github.com/gorun/gorun/rendezvous/secret"
)

// ErrOver is the cause that ends Run's context when the job is over. With any other
// cause only this node leaves.
var ErrOver = gossip.ErrOver

// retryPause is the pause between two attempts to reach a coordinator.
const retryPause = 50 * time.Millisecond

// Options holds what a node needs to meet the others.
type Options struct {
	Network     spec.Network
	Node        rendezvous.Node      // without addresses
	Identity    *rendezvous.Identity // proves Node.ID; nil: the node is alone
	Secret      secret.Secret        // secret of this run that the user gave
	Handout     *handout.Party       // gives the nodes a secret, or says that the user gave one; nil: no node asks
	Pool        *accept.Pool         // counts the connections to every port
	Grace       time.Duration        // from SIGTERM to SIGKILL
	OtherPrints bool                 // another agent of this machine reports other secrets
	Local       Local

	// Wait calls f and prints what it waits for ("looking up n1"). It returns early
	// when a signal ends the agent; f may still run then.
	Wait func(ctx context.Context, what string, f func(context.Context) error) error
	// Post receives the state machine's events. Post and the functions below never
	// block.
	Post func(rendezvous.Event)
	// OnFailure receives an error after which this node cannot stay in the job.
	OnFailure func(kind rendezvous.Kind, text string)
	// Note receives a line for the user. Lines of one kind may come often.
	Note func(kind, text string)
	// CommandWith returns the user's command with another value of a flag; nil:
	// there is none.
	CommandWith func(flag, value string) string
}

// Local is set for several agents of one machine. They find each other without an
// endpoint from the user.
type Local struct {
	Addr     string                                // 127.0.0.1, .2, ...; "": the agent is the only one
	Endpoint func(context.Context) (string, error) // waits for the first agent's endpoint; nil for the first agent
	Announce func(endpoint string)                 // passes the endpoint to the other agents; nil for the other agents
}

// Session is a node's connection to the other nodes.
type Session struct {
	Node    rendezvous.Node   // with its addresses
	Config  rendezvous.Config // the part of the state machine's configuration that the network decides
	Streams drive.Streams     // nil: the node is alone
	Fence   rendezvous.Fence  // nil: the backend has none
	Store   *Store
	Secret  Secret

	opts  Options
	parts []part
	peers []rendezvous.Peer // peers that the node knows before Run

	mu           sync.Mutex
	joined       bool            // the node has been in a world
	ended        bool            // reportOtherSecret has ended the job
	otherSecrets map[string]bool // reported hosts with another secret
}

// part is a part of the session that runs until ctx ends.
type part func(ctx context.Context) error

// backend is the part of a session that depends on how nodes find each other.
type backend struct {
	node          rendezvous.Node // with its addresses
	endpointCount int             // number of endpoints
	endpointNames string          // the endpoints, for messages
	takeover      bool            // another node may become coordinator
	peers         []rendezvous.Peer
	fence         rendezvous.Fence
	store         *Store
	control       net.Listener // listens for streams; nil: this node only dials
	parts         []part
}

// IsAlone reports whether a job of at most this number of nodes has only this node.
func IsAlone(n *spec.Network, most int) bool {
	return n.Backend == spec.Standalone || n.Backend == spec.Static && most == 1
}

// Open binds this node's ports. The caller must call Run next.
func Open(ctx context.Context, o Options) (*Session, error) {
	s := &Session{Secret: Secret{Secret: o.Secret}, opts: o, otherSecrets: map[string]bool{}}
	openBackend, alone := s.openGossip, IsAlone(&o.Network, o.Node.Max)
	switch {
	case alone:
		openBackend = s.openAlone
	case o.Network.Backend == spec.Static:
		openBackend = s.openStatic
	case o.Network.Backend == spec.EtcdV3:
		openBackend = s.openEtcd
	}
	b, err := openBackend(ctx)
	if err != nil {
		if o.Handout != nil {
			o.Handout.RemoveFile()
		}
		return nil, err
	}
	tls, err := s.Secret.TLS()
	if err != nil {
		return nil, err
	}
	b.node.Store = b.store.Offer()
	s.Node, s.Fence, s.Store, s.parts, s.peers = b.node, b.fence, b.store, b.parts, b.peers
	s.Config = s.machineConfig(&b)
	if !alone {
		s.Config.Hint = containerHint(ctx, b.node.Addr)
		s.serveControl(b.control, tls)
	}
	return s, nil
}

// Run runs the session's parts until ctx ends. It posts the nodes that it finds.
func (s *Session) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, serve := range s.parts {
		wg.Go(func() {
			if err := serve(ctx); err != nil {
				s.reportFailure(err)
			}
		})
	}
	if s.peers != nil {
		s.opts.Post(rendezvous.Peers{All: s.peers})
	}
	<-ctx.Done()
	s.Store.close()
	wg.Wait()
}

// MarkJoined records that the node is in a world. From then on an agent with another
// secret cannot be the node that this node looks for.
func (s *Session) MarkJoined() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined = true
	if s.opts.Handout != nil { // the nodes of the world have the secret
		s.opts.Handout.MarkJoined()
	}
}

// machineConfig returns the network's part of the state machine's configuration.
func (s *Session) machineConfig(b *backend) rendezvous.Config {
	c := &s.opts.Network.Conf
	return rendezvous.Config{
		Self: b.node, Proofs: true, Endpoints: b.endpointCount, Where: b.endpointNames, Flags: sharedFlags(&s.opts.Network),
		Takeover: b.takeover, Fenced: b.fence != nil,
		Timeouts: rendezvous.Timeouts{Join: c.JoinTimeout, LastCall: c.LastCallTimeout, Rejoin: silenceLimit(c), Retry: retryPause},
	}
}

// sharedFlags returns the flags that the nodes of a static job must share, for
// messages. It leaves out the run id, whose default fits all nodes.
func sharedFlags(n *spec.Network) string {
	if n.Backend != spec.Static {
		return ""
	}
	return strings.Join(n.MasterFrom, " and ")
}

// silenceLimit returns the time after which a silent node is lost.
func silenceLimit(c *spec.Conf) time.Duration {
	return time.Duration(c.KeepAliveMaxAttempt) * c.KeepAliveInterval
}

// serveControl makes the control plane; without a listener it only dials. The
// survivors of a lost coordinator have the time of the silence to find each other.
// So a dial to a node that was cut off fails well before that.
func (s *Session) serveControl(l net.Listener, tls *tls.Config) {
	c := &s.opts.Network.Conf
	o := control.Options{
		Interval: c.KeepAliveInterval, Silence: silenceLimit(c), Dial: min(3*time.Second, silenceLimit(c)/3),
		Post: s.opts.Post, Failed: s.reportFailure,
		Identity: s.opts.Identity, TLS: tls, OtherSecret: s.reportOtherSecret, ForeignTLS: s.reportForeignTLS,
	}
	if s.Fence != nil {
		// The plane reports a node as silent after 30 % of the time after which the
		// node's membership ends. By then it has asked the node for a sign of life twice.
		ttl := s.opts.Network.Etcd.TTL
		o.SilentAfter, o.Interval = ttl*3/10, min(c.KeepAliveInterval, ttl/8)
	}
	plane := control.New(o)
	s.Streams = plane
	if l != nil {
		l = s.opts.Pool.Listen(l)
	}
	s.parts = append(s.parts, func(ctx context.Context) error {
		plane.Serve(ctx, l)
		return nil
	})
}

// waitFor calls f through Options.Wait.
func waitFor[T any](ctx context.Context, s *Session, what string, f func(context.Context) (T, error)) (value T, err error) {
	got := make(chan T, 1) // f may outlive the wait
	err = s.opts.Wait(ctx, what, func(ctx context.Context) error {
		v, err := f(ctx)
		got <- v
		return err
	})
	if err != nil {
		return value, err
	}
	return <-got, nil
}
