package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Endpoints says where the agents of a run meet.
type Endpoints struct {
	List   []string // ip:port, host:port, or the name of a service (SRV) record; in the order of preference
	Serves int      // index of the endpoint that this agent tries to serve from the start, -1: none
	// Lookup says what an endpoint stands for. It may be called often and by several
	// goroutines. nil: an endpoint stands for one node, whatever addresses it has.
	Lookup func(ctx context.Context, endpoint string) (Found, error)
	// Nodes is the number of agents that this agent waits for. Until it sees so many, and
	// for at most Growth, it looks up a name of several nodes every second.
	Nodes  int
	Growth time.Duration
}

// Found is what an endpoint stands for.
type Found struct {
	Addrs []netip.AddrPort // sorted, at least one
	// Several means that the addresses are nodes of their own, or that more addresses may
	// follow. Without it they are one node's.
	Several bool
}

// names is what an agent knows of the endpoints. Gossip.mu guards it.
type names struct {
	found  []lookup // by endpoint
	serves int      // index of the endpoint that this agent serves, -1: none
	own    *delegate
	until  time.Time // when a name of several nodes has had its time to grow
}

// lookup is the result of the last look-up that succeeded.
type lookup struct {
	Found
	done  bool          // a look-up has ended, or none is needed
	limit time.Duration // of the next look-up, 0: minLookup
}

func newNames(e Endpoints) names {
	n := names{found: make([]lookup, len(e.List)), serves: -1, until: time.Now().Add(e.Growth)}
	for i, endpoint := range e.List {
		at, err := netip.ParseAddrPort(endpoint)
		n.found[i].done = err == nil || e.Lookup == nil
		if err == nil {
			n.found[i].Addrs = []netip.AddrPort{at}
		}
	}
	return n
}

// candidates returns how many nodes the endpoints stand for, or 0 if each stands for one.
// A name that was not looked up yet may stand for several.
func (n *names) candidates() int {
	all, several := 0, false
	for i := range n.found {
		l := &n.found[i]
		several = several || l.Several || !l.done
		if l.Several {
			all += len(l.Addrs)
		} else {
			all++
		}
	}
	if !several {
		return 0
	}
	return all
}

// minLookup and maxLookup bound one look-up. A name server that does not answer costs a
// resolver 5 s, for each suffix of names, before it asks the next server. So each look-up
// that was not answered gives the next one twice the time.
const (
	minLookup = 2 * time.Second
	maxLookup = 30 * time.Second
)

// lookUp looks up an endpoint and keeps what it finds.
func (g *Gossip) lookUp(ctx context.Context, i int) (Found, error) {
	endpoint := g.cfg.Endpoints.List[i]
	find := g.cfg.Endpoints.Lookup
	if find == nil {
		find = lookUpHost
	}
	g.mu.Lock()
	limit := max(g.names.found[i].limit, minLookup)
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	found, err := find(ctx, endpoint)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v (%w)", limit, err)
		limit = min(2*limit, maxLookup)
	}
	if err == nil && len(found.Addrs) == 0 {
		err = errors.New("it has no address")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.names.found[i]
	before := g.names.candidates()
	l.limit = limit
	if l.done = true; err == nil {
		l.Found = found
	}
	if g.names.candidates() != before {
		g.wake()
	}
	if err != nil {
		return found, fmt.Errorf("cannot resolve the endpoint: %w", err)
	}
	return found, nil
}

// lookUpHost is the Lookup of an endpoint that stands for one node.
func lookUpHost(ctx context.Context, endpoint string) (Found, error) {
	host, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return Found{}, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return Found{}, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return Found{}, err
	}
	var f Found
	for _, ip := range ips {
		f.Addrs = append(f.Addrs, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
	}
	return f, nil
}

// maxServers bounds how many of a name's addresses are places to meet: the first ones. If
// all agents of a large job were, each would know all others.
const maxServers = 16

// places returns the addresses of an endpoint at which this agent may join others, and
// whether its own address is among them.
func (g *Gossip) places(f Found) (others []netip.AddrPort, own netip.AddrPort, here bool) {
	self, err := netip.ParseAddr(g.cfg.Advertise)
	addrs := f.Addrs
	if f.Several {
		addrs = addrs[:min(len(addrs), maxServers)]
	}
	for _, at := range addrs {
		if err == nil && at.Addr() == self.Unmap() {
			own, here = at, true
		} else {
			others = append(others, at)
		}
	}
	return others, own, here
}

// serve makes this agent serve an endpoint from now on, because its own address has become
// one of the endpoint's.
func (g *Gossip) serve(i int, at netip.AddrPort) error {
	if int(at.Port()) != g.Port() {
		if err := g.listen(at.Port()); err != nil {
			return err
		}
	}
	b, err := g.meta(i)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.names.serves = i
	own := g.names.own
	g.mu.Unlock()
	own.meta.Store(&b)
	_ = g.list.UpdateNode(minLookup) // the next exchange says it, too
	return nil
}

// growing reports whether more addresses of a name are awaited.
func (g *Gossip) growing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.seen.peers) < g.cfg.Endpoints.Nodes && time.Now().Before(g.names.until) &&
		slices.ContainsFunc(g.names.found, func(l lookup) bool { return l.Several || !l.done })
}

// servedHosts returns the addresses of the other agents that serve an endpoint, as this
// agent sees them.
func (g *Gossip) servedHosts() map[netip.Addr]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	hosts := map[netip.Addr]bool{}
	for _, p := range g.seen.peers {
		if at, err := netip.ParseAddrPort(p.Control); err == nil && p.Endpoint >= 0 && p.ID != g.cfg.ID {
			hosts[at.Addr().Unmap()] = true
		}
	}
	return hosts
}
