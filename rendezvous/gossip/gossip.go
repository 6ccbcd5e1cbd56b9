package gossip

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	cfg  Config
	list *memberlist.Memberlist

	mu      sync.Mutex
	peers   map[rendezvous.NodeID]rendezvous.Peer
	foreign string
	trouble string // why the endpoints do not answer
	changed chan struct{}
}

// Open binds this agent's gossip port: the endpoint's if it serves one and
// nobody does yet, else a free one. Run must follow.
func Open(cfg Config) (*Gossip, error) {
	cfg.RunID = shortRun(cfg.RunID)
	g := &Gossip{cfg: cfg, peers: map[rendezvous.NodeID]rendezvous.Peer{}, changed: make(chan struct{}, 1)}
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

func shortRun(id string) string {
	if len(id) <= maxRun {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return id[:maxRun/2] + hex.EncodeToString(sum[:16])
}

func portOf(endpoint string) (int, error) {
	_, p, err := net.SplitHostPort(endpoint)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(p)
}

func (g *Gossip) create(port, serves int) error {
	m := meta{Protocol: rendezvous.Protocol, Run: g.cfg.RunID, Name: g.cfg.Name, Control: g.cfg.Control, Endpoint: serves}
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
	c.Delegate, c.Events, c.Alive = delegate(b), events{g}, g
	list, err := memberlist.Create(c)
	if err != nil {
		return err
	}
	g.list = list
	return nil
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
	_ = g.list.Leave(200 * time.Millisecond)
	_ = g.list.Shutdown()
}

// join asks the endpoints until one answers, and again now and then: gossip
// never heals a cut by itself, and an endpoint's agent may be started anew.
func (g *Gossip) join(ctx context.Context) {
	wait := 5 * time.Millisecond
	for {
		found := 0
		for i, e := range g.cfg.Endpoints {
			if i == g.cfg.Serves {
				continue
			}
			n, err := g.ask(ctx, e)
			found += n
			g.report(err)
		}
		if found > 0 || len(g.cfg.Endpoints) == 1 && g.cfg.Serves == 0 {
			wait = 5 * time.Second
		} else {
			wait = min(2*wait, 500*time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// ask joins at all addresses of an endpoint: its name may not be known yet, or
// have an address that does not answer.
func (g *Gossip) ask(ctx context.Context, endpoint string) (int, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return 0, fmt.Errorf("cannot resolve the endpoint: %w", err)
	}
	for i := range ips {
		ips[i] = net.JoinHostPort(ips[i], port)
	}
	n, err := g.list.Join(ips)
	if n > 0 {
		return n, nil
	}
	var many interface{ WrappedErrors() []error }
	if errors.As(err, &many) && len(many.WrappedErrors()) > 0 {
		err = many.WrappedErrors()[0]
	}
	return n, err
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
	if err == nil && m.Run == g.cfg.RunID && m.Protocol == rendezvous.Protocol {
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
		case m.Protocol != rendezvous.Protocol:
			g.foreign = fmt.Sprintf("%s is served by %s with protocol %d, this gorun speaks %d; start the same gorun on every node", at, m.Name, m.Protocol, rendezvous.Protocol)
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
