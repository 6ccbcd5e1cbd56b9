package gossip

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// Config of one agent's gossip.
type Config struct {
	ID        rendezvous.NodeID
	Name      string // for messages
	RunID     string // agents of another run are not seen
	Control   string // host:port of the control plane
	Bind      string // IP address to bind
	Advertise string // IP address that others reach
	Endpoints Endpoints
	Ports     func() []int
	MaxAgents int // agents that memberlist may know, including those that left lately; 0: 4096

	// Listen, if not nil, is called with the listener of each gossip port that opens. It
	// returns the listener of memberlist's streams; closing it closes the port.
	Listen func(net.Listener) net.Listener

	// Key returns the key that encrypts all messages, 32 bytes, of an agent that is
	// about to serve an endpoint, or none (-1). Open calls it before it opens a port. If
	// Key is nil or returns nil, nothing is encrypted.
	Key func(serves int) ([]byte, error)
	// OtherKey, if not nil, is called when the agent on a host (a name or an IP address)
	// has another key than this agent, or when only one of the two has a key. It may be
	// called often.
	OtherKey func(host string)
	// Refused, if not nil, is called once for each agent that this agent refuses at the
	// endpoint that it serves.
	Refused func(rendezvous.Refused)
}

// variant is what tests change.
type variant struct {
	protocol int
	tune     func(*memberlist.Config) // may be nil
}

// Foreign is the error of an agent that finds another job or program at its endpoint.
type Foreign struct {
	Text     string
	OtherJob bool // another job or program has the endpoint, so this job may need another port
}

func (f *Foreign) Error() string { return f.Text }

// PortTaken is the error of an agent whose own endpoint's port another program uses.
type PortTaken struct{ Endpoint string }

func (t *PortTaken) Error() string {
	return "the port of this node's endpoint " + t.Endpoint + " is used by another program; give --rdzv-endpoint another port, or end that program"
}

// Gossip is one agent among the others.
type Gossip struct {
	cfg             Config
	protocol        int
	key             []byte // nil: nothing is encrypted
	list            *memberlist.Memberlist
	transport       *transport
	unboundEndpoint string          // the endpoint that this agent should serve and whose port it could not bind; "": none
	ended           context.Context // ends with Run, so that no dial outlives it
	end             context.CancelFunc

	mu       sync.Mutex
	seen     neighbours
	endpoint endpoint
	names    names
	changed  chan struct{} // has a token when Run has something to look at
}

// neighbours are the agents of the run that this agent has seen. Each map is
// bounded: by Config.MaxAgents, maxLost and maxRefused.
type neighbours struct {
	peers     map[rendezvous.NodeID]rendezvous.Peer
	lost      map[rendezvous.NodeID]string    // addresses of agents that were seen and left
	names     map[rendezvous.NodeID]time.Time // all that memberlist may know, and when each left; zero: it has not
	refused   map[string]bool                 // ids of the agents that Config.Refused was called for
	last      decoded                         // meta that was decoded last
	foundPeer bool                            // another agent of this run was seen; a foreign agent at its endpoint came later
}

func newNeighbours() neighbours {
	return neighbours{
		peers: map[rendezvous.NodeID]rendezvous.Peer{}, lost: map[rendezvous.NodeID]string{},
		names: map[rendezvous.NodeID]time.Time{}, refused: map[string]bool{},
	}
}

// endpoint is what is wrong with the endpoints.
type endpoint struct {
	foreign      *Foreign  // what Run returns: another job or program has an endpoint; nil: none has
	noGorunSince time.Time // when the port of Gossip.unboundEndpoint first answered unlike a gorun; zero: it does not
	trouble      string    // why the endpoints do not answer
}

// Open binds this agent's gossip port: the port of the endpoint that it serves, if
// that is free, else any free port. Run must follow.
func Open(cfg Config) (*Gossip, error) { return openAs(cfg, variant{protocol: rendezvous.Protocol}) }

func openAs(cfg Config, v variant) (*Gossip, error) {
	cfg.RunID, cfg.MaxAgents = shortRun(cfg.RunID), cmp.Or(cfg.MaxAgents, 4096)
	g := &Gossip{cfg: cfg, protocol: v.protocol, seen: newNeighbours(), names: newNames(cfg.Endpoints), changed: make(chan struct{}, 1)}
	g.ended, g.end = context.WithCancel(context.Background())
	ports, wanted := cfg.Ports(), cfg.Endpoints.Serves
	if wanted >= 0 {
		port, err := portOf(cfg.Endpoints.List[wanted])
		if err != nil {
			return nil, err
		}
		ports = append([]int{port}, ports...)
	}
	var err error
	for i, port := range ports {
		serves := -1
		if i == 0 {
			serves = wanted
		}
		if cfg.Key != nil && (i == 0 || g.names.serves != serves) {
			if g.key, err = cfg.Key(serves); err != nil {
				return nil, err
			}
		}
		g.names.serves = serves // other agents may connect as soon as the port is open
		if err = g.create(port, serves, v.tune); err == nil {
			return g, nil
		}
		if serves >= 0 {
			g.unboundEndpoint = cfg.Endpoints.List[serves]
		}
	}
	return nil, fmt.Errorf("cannot open a gossip port on %s: %w", cfg.Bind, err)
}

// shortRun returns a run id as it travels. A run id that is too long in JSON, or that
// JSON would change, is cut and made distinct by a hash.
func shortRun(id string) string {
	if b, err := json.Marshal(id); err == nil && len(b) <= maxRun && utf8.ValidString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return term.Truncate(strings.ToValidUTF8(id, ""), maxRun/8) + hex.EncodeToString(sum[:16])
}

func portOf(endpoint string) (int, error) {
	_, p, err := net.SplitHostPort(endpoint)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(p)
}

func (g *Gossip) create(port, serves int, tune func(*memberlist.Config)) error {
	b, err := g.meta(serves)
	if err != nil {
		return err
	}
	c := memberlist.DefaultLANConfig()
	c.Name = string(g.cfg.ID)
	c.BindAddr, c.BindPort = g.cfg.Bind, port
	c.AdvertiseAddr, c.AdvertisePort = g.cfg.Advertise, port
	c.TCPTimeout = 3 * time.Second
	c.GossipNodes = 4
	c.PushPullInterval = 10 * time.Second
	c.EnableCompression = false // little to gain on packets of 1,400 bytes; the filter drops compressed messages
	c.Logger = log.New(&keyMismatchLog{g.cfg.OtherKey}, "", 0)
	if g.key != nil { // both ways: GossipVerifyIncoming and GossipVerifyOutgoing are on
		c.SecretKey = g.key
	}
	f := &filter{encrypts: g.key != nil, maxStates: 4 * g.cfg.MaxAgents}
	t, err := g.bind(port, f)
	if err != nil {
		return err
	}
	c.BindPort, c.AdvertisePort = t.port(), t.port()
	c.Transport = t
	own := &delegate{}
	own.meta.Store(&b)
	c.Delegate, c.Events, c.Alive = own, events{g}, g
	if tune != nil {
		tune(c)
	}
	list, err := memberlist.Create(c)
	if err != nil {
		_ = t.Shutdown()
		return err
	}
	g.list, g.transport, g.names.own = list, t, own
	return nil
}

// meta returns what this agent reports of itself if it serves an endpoint.
func (g *Gossip) meta(serves int) ([]byte, error) {
	m := meta{Protocol: g.protocol, Run: g.cfg.RunID, Name: g.cfg.Name, Control: g.cfg.Control, Endpoint: serves}
	return m.encode()
}

// Serves returns the index of the endpoint that this agent serves, -1 if none.
func (g *Gossip) Serves() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names.serves
}

// Port returns the bound gossip port.
func (g *Gossip) Port() int { return int(g.list.LocalNode().Port) }

// ErrOver is the cause with which Run's context ends when the job is over. All agents
// end then, so Run leaves without a message to the others.
var ErrOver = errors.New("the job is over")

// Run shows this agent to the others until ctx ends. It calls update with all agents
// that it sees: once at the start, and then after changes. Several changes at about
// the same time are one call. The error is a *Foreign if the endpoint belongs to
// another run, protocol or key, and a *PortTaken if another program has the port of the
// only endpoint, which this agent should serve.
func (g *Gossip) Run(ctx context.Context, update func(rendezvous.Peers)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { g.join(ctx) })
	wg.Go(func() { g.findLost(ctx) })
	defer func() { g.close(errors.Is(context.Cause(ctx), ErrOver)) }()
	update(g.snapshot())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.changed:
			if f := g.foreign(); f != nil {
				return f
			}
			if g.isPortTaken(time.Now()) {
				return &PortTaken{g.unboundEndpoint}
			}
			p := g.snapshot()
			update(p)
			pause(ctx, time.Duration(len(p.All))*time.Millisecond)
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (g *Gossip) close(over bool) {
	g.end()    // interrupts join
	if !over { // the message goes out with the next gossip
		_ = g.list.Leave(200 * time.Millisecond)
	}
	_ = g.list.Shutdown()
}

// rejoinInterval is the pause between two joins at the endpoints while this agent sees an
// agent that serves one of them.
const rejoinInterval = 5 * time.Second

// servedEndpoints returns the endpoints that another agent which this agent sees serves.
// few says that this agent sees at most minKnown agents. Where there are more, they do
// not join a served endpoint again, because each join makes its agent send all that it
// knows.
func (g *Gossip) servedEndpoints() (served map[int]bool, few bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	served = map[int]bool{}
	for _, p := range g.seen.peers {
		if p.Endpoint >= 0 && p.ID != g.cfg.ID {
			served[p.Endpoint] = true
		}
	}
	return served, len(g.seen.peers) <= minKnown
}

// isDialError reports whether a connection could not even be opened. memberlist keeps
// only the text of errors.
func isDialError(err error) bool { return strings.Contains(err.Error(), "dial tcp") }

func (g *Gossip) snapshot() rendezvous.Peers {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]rendezvous.Peer, 0, len(g.seen.peers))
	for _, p := range g.seen.peers {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b rendezvous.Peer) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return rendezvous.Peers{All: out, Candidates: g.names.candidates(), Trouble: g.endpoint.trouble}
}

func (g *Gossip) foreign() *Foreign {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.endpoint.foreign
}

func (g *Gossip) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

var (
	errForeign     = errors.New("an agent of another run")
	errKnowsEnough = errors.New("it knows enough others")
)
