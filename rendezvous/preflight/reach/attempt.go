package reach

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// point is one end of a probe: an address of a node.
type point struct {
	node int
	addr string
}

// attempt is what the probes from one point to another say to a rule. Several
// probes between the same points are one attempt, bad if one of them is.
type attempt struct {
	from, to       int // indices of evidence.points
	fromNet, toNet int // of evidence.nets
	bad            bool
	probe          *preflight.Probe // a bad one if there is one
}

// evidence is all that the probes say to a rule.
type evidence struct {
	attempts []attempt
	points   []point
	nets     []string // 0 is that of addresses without one
}

// nodes are those between which the attempt was made.
func (e *evidence) nodes(a attempt) (from, to int) {
	return e.points[a.from].node, e.points[a.to].node
}

// verdict is what a rule makes of a probe.
type verdict int

const (
	ignored verdict = iota // says nothing about what is judged
	good
	bad
)

// weigh judges the probes. There are no attempts when none is bad: a healthy
// fleet costs one look at each.
func weigh(f *preflight.Fleet, judge func(*preflight.Probe) verdict) *evidence {
	sick := false
	for p := range f.ValidProbes {
		if judge(p) == bad {
			sick = true
			break
		}
	}
	if !sick {
		return &evidence{}
	}
	c := collector{
		Fleet: f, evidence: evidence{nets: []string{""}},
		of: make([][]place, len(f.Nodes)), nets: map[string]int{"": 0},
		first: make(map[[2]int]int, len(f.Probes)),
	}
	for p := range f.ValidProbes {
		if v := judge(p); v != ignored {
			c.add(p, v == bad)
		}
	}
	return &c.evidence
}

// collector numbers what probes name.
type collector struct {
	*preflight.Fleet
	evidence
	of    [][]place      // of each node
	nets  map[string]int // number of each network
	first map[[2]int]int // attempt between two nodes that was the first
	next  []int          // of each attempt: the next between the same nodes, 0 none
}

// place is a point by its address, with its numbers.
type place struct {
	addr       string
	point, net int
}

func (c *collector) add(p *preflight.Probe, isBad bool) {
	from, to := c.locate(p.From, hostOf(p.Source)), c.locate(p.To, hostOf(p.Target))
	i, known := c.first[[2]int{p.From, p.To}]
	last := i
	for known && (c.attempts[i].from != from.point || c.attempts[i].to != to.point) {
		last, i = i, c.next[i]
		known = i > 0
	}
	if known {
		if isBad && !c.attempts[i].bad {
			c.attempts[i].bad, c.attempts[i].probe = true, p
		}
		return
	}
	i = len(c.attempts)
	if _, ok := c.first[[2]int{p.From, p.To}]; ok {
		c.next[last] = i
	} else {
		c.first[[2]int{p.From, p.To}] = i
	}
	c.attempts = append(c.attempts, attempt{from.point, to.point, from.net, to.net, isBad, p})
	c.next = append(c.next, 0)
}

func (c *collector) locate(node int, addr string) place {
	for _, p := range c.of[node] {
		if p.addr == addr {
			return p
		}
	}
	p := place{addr: addr, point: len(c.points)}
	c.points = append(c.points, point{node, addr})
	net := network(c.Fleet, node, addr)
	n, ok := c.nets[net]
	if !ok {
		n = len(c.evidence.nets)
		c.nets[net] = n
		c.evidence.nets = append(c.evidence.nets, net)
	}
	p.net = n
	c.of[node] = append(c.of[node], p)
	return p
}

// network is the subnet that a node's address is in. An address that stands for
// itself, as a pod's does, is counted to its neighbours.
func network(f *preflight.Fleet, node int, addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return ""
	}
	bits := 0
	known := f.Nodes[node].Network.Addresses
	if i := slices.IndexFunc(known, func(a netif.Address) bool { return a.IP == addr }); i >= 0 {
		bits = known[i].Bits
	}
	if bits <= 0 || bits >= ip.BitLen() {
		bits = 24
		if ip.Is6() {
			bits = 64
		}
	}
	return netif.Pick{IP: addr, Bits: bits}.Subnet()
}

// hostOf is the address of address:port or of an address alone, without a zone:
// zones are the sender's.
func hostOf(s string) string {
	if open := strings.IndexByte(s, '['); open == 0 {
		s = strings.SplitN(s[1:], "]", 2)[0]
	} else if strings.Count(s, ":") == 1 {
		s = s[:strings.IndexByte(s, ':')]
	}
	if i := strings.IndexByte(s, '%'); i >= 0 {
		s = s[:i]
	}
	return s
}
