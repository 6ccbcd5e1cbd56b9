package meet

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/accept"
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

// retry is the pause between two attempts to reach a coordinator.
const retry = 50 * time.Millisecond

// Options holds what a node needs to meet the others.
type Options struct {
	Network  spec.Network
	Node     rendezvous.Node      // without addresses
	Identity *rendezvous.Identity // proves Node.ID; nil: the node is alone
	Secret   secret.Secret        // secret of this run
	Pool     *accept.Pool         // counts the connections to every port
	Grace    time.Duration        // from SIGTERM to SIGKILL
	Quiet    bool                 // another agent of this machine reports strangers
	Local    Local

	// Wait calls f and prints what it waits for ("looking up n1"). It returns early
	// when a signal ends the agent; f may still run then.
	Wait func(ctx context.Context, what string, f func(context.Context) error) error
	// Post receives the machine's events. It never blocks, nor do the functions
	// below.
	Post func(rendezvous.Event)
	// Failed receives an error after which this node cannot stay in the job.
	Failed func(kind rendezvous.Kind, text string)
	// Note receives a line for the user. Lines of one kind may come often.
	Note func(kind, text string)
	// Elsewhere returns the user's own command with another value of a flag, as
	// text, or "" if there is none.
	Elsewhere func(flag, value string) string
}

// Local is this agent's place among several agents of one machine. They find each
// other without an endpoint from the user.
type Local struct {
	Addr     string                                // 127.0.0.1, .2, ...; "": the agent is the only one
	Endpoint func(context.Context) (string, error) // waits for the first agent's endpoint; nil for the first agent
	Announce func(endpoint string)                 // passes the endpoint to the other agents; nil for the other agents
}

// Session is a node's connection to the other nodes.
type Session struct {
	Node    rendezvous.Node   // with its addresses
	Config  rendezvous.Config // the part of a machine's configuration that the network decides
	Streams drive.Streams     // nil: the node is alone
	Fence   rendezvous.Fence  // nil: the backend has none
	Store   *Store

	opts  Options
	parts []part
	known []rendezvous.Peer // peers that are known from the start

	mu     sync.Mutex
	joined bool            // the node has been in a world
	parted bool            // another secret ended the job
	others map[string]bool // hosts with another secret that were reported
}

// part is a part of the session that runs until ctx ends.
type part func(ctx context.Context) error

// way is the result of a backend: how this node meets the others.
type way struct {
	node      rendezvous.Node // with its addresses
	endpoints int             // number of endpoints
	where     string          // the endpoints, for messages
	takeover  bool            // another node may become coordinator
	known     []rendezvous.Peer
	fence     rendezvous.Fence
	store     *Store
	control   net.Listener // listens for streams; nil: this node only dials
	parts     []part
}

// Alone reports whether a job of at most this number of nodes has only this node.
func Alone(n *spec.Network, most int) bool {
	return n.Backend == spec.Standalone || n.Backend == spec.Static && most == 1
}

// Open binds this node's ports. The caller must call Run next.
func Open(ctx context.Context, o Options) (*Session, error) {
	s := &Session{opts: o, others: map[string]bool{}}
	tls, err := o.Secret.TLS()
	if err != nil {
		return nil, err
	}
	find, alone := s.findGossip, Alone(&o.Network, o.Node.Max)
	switch {
	case alone:
		find = s.findNone
	case o.Network.Backend == spec.Static:
		find = s.findStatic
	case o.Network.Backend == spec.EtcdV3:
		find = s.findEtcd
	}
	w, err := find(ctx)
	if err != nil {
		return nil, err
	}
	w.node.Store = w.store.Offer()
	s.Node, s.Fence, s.Store, s.parts, s.known = w.node, w.fence, w.store, w.parts, w.known
	s.Config = s.machine(&w)
	if !alone {
		s.serveControl(w.control, tls)
	}
	return s, nil
}

// Run runs the session's parts until ctx ends. It posts the nodes that it finds.
func (s *Session) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, serve := range s.parts {
		wg.Go(func() {
			if err := serve(ctx); err != nil {
				s.fail(err)
			}
		})
	}
	if s.known != nil {
		s.opts.Post(rendezvous.Peers{All: s.known})
	}
	<-ctx.Done()
	s.Store.end()
	wg.Wait()
}

// Joined records that the node is in a world. From then on agents with another
// secret cannot be the nodes that this node looks for.
func (s *Session) Joined() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined = true
}

// machine returns the network's part of a machine's configuration.
func (s *Session) machine(w *way) rendezvous.Config {
	c := &s.opts.Network.Conf
	return rendezvous.Config{
		Self: w.node, Proofs: true, Endpoints: w.endpoints, Where: w.where, Flags: sharedFlags(&s.opts.Network),
		Takeover: w.takeover, Fenced: w.fence != nil,
		Timeouts: rendezvous.Timeouts{Join: c.JoinTimeout, LastCall: c.LastCallTimeout, Rejoin: silence(c), Retry: retry},
	}
}

// sharedFlags returns the flags that the nodes of a static job must share, for
// messages. It leaves out the run id, whose default fits all nodes.
func sharedFlags(n *spec.Network) string {
	if n.Backend != spec.Static {
		return ""
	}
	return strings.Join(n.MeetBy, " and ")
}

// silence returns the time after which a silent node counts as lost.
func silence(c *spec.Conf) time.Duration {
	return time.Duration(c.KeepAliveMaxAttempt) * c.KeepAliveInterval
}

// serveControl makes the control plane; without a listener it only dials. The
// survivors of a lost coordinator have the time of the silence to find each other.
// So a dial to a node that was cut off fails well before that.
func (s *Session) serveControl(l net.Listener, tls *tls.Config) {
	c := &s.opts.Network.Conf
	o := control.Options{
		Interval: c.KeepAliveInterval, Silence: silence(c), Dial: min(3*time.Second, silence(c)/3),
		Post: s.opts.Post, Failed: s.fail,
		Identity: s.opts.Identity, TLS: tls, Other: s.reportOther, Stranger: s.reportStranger,
	}
	if s.Fence != nil {
		// The plane reports a node as silent after 30 % of the time after which the
		// node's membership ends. By then it has asked the node for a sign of life twice.
		ttl := s.opts.Network.Etcd.TTL
		o.Hush, o.Interval = ttl*3/10, min(c.KeepAliveInterval, ttl/8)
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

// wait calls f through Options.Wait.
func wait[T any](ctx context.Context, s *Session, what string, f func(context.Context) (T, error)) (value T, err error) {
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
