package gossip

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorun/gorun/rendezvous"
	"github.com/hashicorp/memberlist"
)

// Config of one agent's gossip.
type Config struct {
	ID        rendezvous.NodeID
	Name      string   // for messages
	RunID     string   // agents of another run are not seen
	Control   string   // host:port of the control plane
	Bind      string   // IP address to bind
	Advertise string   // IP address that others reach
	Endpoints []string // ip:port or host:port, in the order of preference
	Serves    int      // index of the endpoint that this agent tries to serve, -1: none
	Ports     func() []int
}

// Foreign is the error of an agent whose endpoint is served for somebody else.
type Foreign struct{ Text string }

func (f *Foreign) Error() string { return f.Text }

// Gossip is one agent among the others.
type Gossip struct {
	cfg      Config
	protocol int
	list     *memberlist.Memberlist
	ended    context.Context // ends with Run: no dial outlives it
	end      context.CancelFunc

	mu      sync.Mutex
	peers   map[rendezvous.NodeID]rendezvous.Peer
	foreign string
	trouble string // why the endpoints do not answer
	changed chan struct{}
}

// Open binds this agent's gossip port: the endpoint's if it serves one and
// nobody does yet, else a free one. Run must follow.
func Open(cfg Config) (*Gossip, error) { return openAs(cfg, rendezvous.Protocol) }

func openAs(cfg Config, protocol int) (*Gossip, error) {
	cfg.RunID = shortRun(cfg.RunID)
	g := &Gossip{cfg: cfg, protocol: protocol, peers: map[rendezvous.NodeID]rendezvous.Peer{}, changed: make(chan struct{}, 1)}
	g.ended, g.end = context.WithCancel(context.Background())
	ports := cfg.Ports()
	if cfg.Serves >= 0 {
		port, err := portOf(cfg.Endpoints[cfg.Serves])
		if err != nil {
			return nil, err
		}
		ports = append([]int{port}, ports...)
	}
	var err error
	for i, port := range ports {
		serves := -1
		if cfg.Serves >= 0 && i == 0 {
			serves = cfg.Serves
		}
		if err = g.create(port, serves); err == nil {
			g.cfg.Serves = serves
			return g, nil
		}
	}
	return nil, fmt.Errorf("cannot open a gossip port on %s: %w", cfg.Bind, err)
}

// shortRun is a run id as it travels: one that would be too long in JSON, or
// would not come back the same, is cut and told apart by a hash.
func shortRun(id string) string {
	if b, err := json.Marshal(id); err == nil && len(b) <= maxRun && utf8.ValidString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return cut(strings.ToValidUTF8(id, ""), maxRun/8) + hex.EncodeToString(sum[:16])
}

func portOf(endpoint string) (int, error) {
	_, p, err := net.SplitHostPort(endpoint)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(p)
}

func (g *Gossip) create(port, serves int) error {
	m := meta{Protocol: g.protocol, Run: g.cfg.RunID, Name: g.cfg.Name, Control: g.cfg.Control, Endpoint: serves}
	b, err := m.encode()
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
	c.EnableCompression = false // little to gain on packets of 1,400 bytes
	c.Logger = log.New(io.Discard, "", 0)
	nt, err := bind(g.cfg.Bind, port, c.Logger)
	if err != nil {
		return err
	}
	if port == 0 {
		port = nt.GetAutoBindPort()
		c.BindPort, c.AdvertisePort = port, port
	}
	c.Transport = transport{nt, g.ended}
	c.Delegate, c.Events, c.Alive = delegate(b), events{g}, g
	list, err := memberlist.Create(c)
	if err != nil {
		_ = nt.Shutdown()
		return err
	}
	g.list = list
	return nil
}

// bind opens a TCP and a UDP port of the same number. The one that the kernel
// chooses for TCP (port 0) may be taken for UDP, so that is tried again.
func bind(addr string, port int, l *log.Logger) (*memberlist.NetTransport, error) {
	var nt *memberlist.NetTransport
	var err error
	for try := 0; try < 10 && (try == 0 || port == 0); try++ {
		if nt, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{addr}, BindPort: port, Logger: l}); err == nil {
			return nt, nil
		}
	}
	return nil, err
}

// Serves is the index of the endpoint that this agent serves, -1 if none.
func (g *Gossip) Serves() int { return g.cfg.Serves }

// Port is the bound gossip port.
func (g *Gossip) Port() int { return int(g.list.LocalNode().Port) }

// Run keeps this agent among the others until ctx ends, and calls update with
// everyone it sees, first now and then at every change. The error is a Foreign
// if the endpoint belongs to another run or protocol.
func (g *Gossip) Run(ctx context.Context, update func(rendezvous.Peers)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { g.join(ctx) })
	defer g.close()
	update(g.snapshot())
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.changed:
			if text := g.stranger(); text != "" {
				return &Foreign{text}
			}
			update(g.snapshot())
		}
	}
}

func (g *Gossip) close() {
	g.end() // breaks off what join waits for
	_ = g.list.Leave(200 * time.Millisecond)
	_ = g.list.Shutdown()
}

// join asks the endpoints until one answers, and again now and then: gossip
// never heals a cut by itself, and an endpoint's agent may be started anew.
func (g *Gossip) join(ctx context.Context) {
	wait, idle := 5*time.Millisecond, time.Duration(0)
	for {
		if !g.served() || idle >= rejoin {
			idle = 0
			for i, e := range g.cfg.Endpoints {
				if i != g.cfg.Serves {
					g.report(g.ask(ctx, e))
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			idle += wait
			wait = min(2*wait, 500*time.Millisecond)
		}
	}
}

// rejoin is the pause between two questions to the endpoints while one of them
// is served by somebody who is seen.
const rejoin = 5 * time.Second

// served reports whether another endpoint's agent is among those seen.
func (g *Gossip) served() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.peers {
		if p.Endpoint >= 0 && p.ID != g.cfg.ID {
			return true
		}
	}
	return false
}

// ask joins at all addresses of an endpoint: its name may not be known yet, or
// have an address that does not answer.
func (g *Gossip) ask(ctx context.Context, endpoint string) error {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return fmt.Errorf("cannot resolve the endpoint: %w", err)
	}
	for i := range ips {
		ips[i] = net.JoinHostPort(ips[i], port)
	}
	n, err := g.list.Join(ips)
	if n > 0 || g.stranger() != "" {
		return nil
	}
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) && len(many.WrappedErrors()) > 0 {
		err = many.WrappedErrors()[0]
	}
	if err != nil && !isDial(err) { // it accepts connections and does not answer as memberlist does
		err = fmt.Errorf("%s is in use, but no gorun answers there; is it another program's port? (%w)", endpoint, err)
	}
	return err
}

// isDial reports whether a connection could not even be opened. memberlist
// keeps the words of errors, not the errors.
func isDial(err error) bool {
	return strings.Contains(err.Error(), "dial tcp")
}

// report keeps why an endpoint did not answer, for the one who waits.
func (g *Gossip) report(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trouble = ""
	if err != nil {
		g.trouble = strings.TrimSpace(err.Error())
		g.wake()
	}
}

func (g *Gossip) snapshot() rendezvous.Peers {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]rendezvous.Peer, 0, len(g.peers))
	for _, p := range g.peers {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b rendezvous.Peer) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return rendezvous.Peers{All: out, Trouble: g.trouble}
}

func (g *Gossip) stranger() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.foreign
}

func (g *Gossip) wake() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

var errForeign = errors.New("an agent of another run")

// NotifyAlive refuses agents of other runs and protocols. An agent that does
// not serve its endpoint and finds a stranger there has nobody to join.
func (g *Gossip) NotifyAlive(n *memberlist.Node) error {
	m, err := decodeMeta(n.Meta)
	if err == nil && m.Run == g.cfg.RunID && m.Protocol == g.protocol {
		return nil
	}
	if n.Name == string(g.cfg.ID) {
		return nil
	}
	g.mu.Lock()
	if g.cfg.Serves < 0 && m.Endpoint >= 0 && g.foreign == "" {
		at := net.JoinHostPort(n.Addr.String(), strconv.Itoa(int(n.Port)))
		switch {
		case err != nil:
			g.foreign = fmt.Sprintf("%s is used by a program that is not gorun (%v); choose another port for --rdzv-endpoint", at, err)
		case m.Protocol != g.protocol:
			g.foreign = fmt.Sprintf("%s is served by %s with protocol %d, this gorun speaks %d; start the same gorun on every node", at, m.Name, m.Protocol, g.protocol)
		default:
			g.foreign = fmt.Sprintf("%s is served by %s for run %q, not %q; give both the same --rdzv-id, or this job another port in --rdzv-endpoint", at, m.Name, m.Run, g.cfg.RunID)
		}
		g.wake()
	}
	g.mu.Unlock()
	return errForeign
}

// events copies what memberlist reports: its callbacks hold its locks.
type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node) {
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return
	}
	e.g.mu.Lock()
	e.g.peers[rendezvous.NodeID(n.Name)] = m.peer(n.Name)
	e.g.mu.Unlock()
	e.g.wake()
}

func (e events) NotifyUpdate(n *memberlist.Node) { e.NotifyJoin(n) }

func (e events) NotifyLeave(n *memberlist.Node) {
	e.g.mu.Lock()
	delete(e.g.peers, rendezvous.NodeID(n.Name))
	e.g.mu.Unlock()
	e.g.wake()
}

// delegate hands out this agent's meta and carries nothing else.
type delegate []byte

func (d delegate) NodeMeta(int) []byte           { return d }
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}
