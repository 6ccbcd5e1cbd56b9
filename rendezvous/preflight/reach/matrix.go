package reach

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// point is an address of a node: a row or a column of the matrix.
type point struct {
	node  int
	addr  string
	net   int    // index of matrix.nets
	iface string // "": unknown
}

// path is a cell of the matrix: all probes from one point to another.
type path struct {
	from, to  int // indices of matrix.points
	probes    []*preflight.Probe
	back      *path              // the other direction, nil if it was not probed
	passed    bool               // a probe reached the node
	broken    []*preflight.Probe // failed, though the path is neither slow nor lossy
	ambiguous bool               // several nodes have one of its addresses: I06 covers its probes
	quality
}

// selective reports whether one port of the path was open and another closed.
func (p *path) selective() bool { return p.passed && len(p.broken) > 0 && !p.ambiguous }

// first returns the first probe for which is holds, nil if there is none.
func (p *path) first(is func(*preflight.Probe) bool) *preflight.Probe {
	if i := slices.IndexFunc(p.probes, is); i >= 0 {
		return p.probes[i]
	}
	return nil
}

// matrix is the result of all probes of a fleet.
type matrix struct {
	*preflight.Fleet
	points []point
	nets   []string // subnets; index 0 stands for addresses without one
	paths  []*path
}

// matrixOf returns the matrix of the fleet's probes, nil if no probe is
// suspicious.
func matrixOf(f *preflight.Fleet, suspicious func(*preflight.Probe) bool) *matrix {
	type key struct{}
	for p := range f.ValidProbes {
		if suspicious(p) {
			return f.View().Once(key{}, func() any { return newMatrix(f) }).(*matrix)
		}
	}
	return nil
}

// newMatrix sorts the probes by path.
func newMatrix(f *preflight.Fleet) *matrix {
	m := &matrix{Fleet: f, nets: []string{""}}
	index := pointIndex{matrix: m, of: make([][]int, len(f.Nodes)), nets: map[string]int{"": 0}, ifaces: interfaces(f)}
	at := make(map[[2]int]*path, len(f.Probes)/4)
	for p := range f.ValidProbes {
		ends := [2]int{index.find(p.From, hostOf(p.Source)), index.find(p.To, hostOf(p.Target))}
		x := at[ends]
		if x == nil {
			x = &path{from: ends[0], to: ends[1]}
			at[ends] = x
			m.paths = append(m.paths, x)
		}
		x.probes = append(x.probes, p)
		x.passed = x.passed || p.Result.Passed()
	}
	holders, filtered := nodesByAddress(f), m.filtered()
	for _, x := range m.paths {
		from, to := m.points[x.from].addr, m.points[x.to].addr
		x.back = at[[2]int{x.to, x.from}]
		x.ambiguous = len(holders[from]) > 1 || len(holders[to]) > 1
		x.measure(filtered[x.from] || filtered[x.to])
	}
	for _, x := range m.paths {
		for _, p := range x.probes {
			if p.Result.Failed() && !x.isDueToPath(p) {
				x.broken = append(x.broken, p)
			}
		}
	}
	return m
}

// pointIndex numbers the addresses and networks that probes name.
type pointIndex struct {
	*matrix
	of     [][]int        // points of each node
	nets   map[string]int // number of each network
	ifaces map[point]string
}

func (x *pointIndex) find(node int, addr string) int {
	for _, i := range x.of[node] {
		if x.points[i].addr == addr {
			return i
		}
	}
	name := network(x.Fleet, node, addr)
	net, ok := x.nets[name]
	if !ok {
		net = len(x.matrix.nets)
		x.nets[name] = net
		x.matrix.nets = append(x.matrix.nets, name)
	}
	i := len(x.points)
	x.of[node] = append(x.of[node], i)
	x.points = append(x.points, point{node: node, addr: addr, net: net, iface: x.ifaces[point{node: node, addr: addr}]})
	return i
}

// interfaces returns the interface of each address that nodes listen at.
func interfaces(f *preflight.Fleet) map[point]string {
	out := map[point]string{}
	for i, n := range f.Known() {
		for _, l := range n.Listeners {
			out[point{node: i, addr: hostOf(l.Addr)}] = l.Iface
		}
	}
	return out
}

// nodesByAddress returns the nodes that publish each address, ascending. Of
// nodes that share a machine and its network, and so the addresses, it returns
// only one.
func nodesByAddress(f *preflight.Fleet) map[string][]int {
	nodes, place := map[string][]int{}, f.View().Place
	for i, n := range f.Known() {
		for _, l := range n.Listeners {
			a := hostOf(l.Addr)
			if !slices.ContainsFunc(nodes[a], func(k int) bool { return place[k] == place[i] }) {
				nodes[a] = append(nodes[a], i)
			}
		}
	}
	return nodes
}

// filtered returns the points with some open and some closed ports, and the
// points whose probes found that.
func (m *matrix) filtered() map[int]bool {
	open, filtered := map[string]bool{}, map[string]bool{}
	for _, x := range m.paths {
		if x.passed {
			open[m.points[x.to].addr] = true
		}
	}
	for _, x := range m.paths {
		closed := func(p *preflight.Probe) bool { return p.Result.Failed() && p.Result != preflight.Failed }
		if open[m.points[x.to].addr] && x.first(closed) != nil {
			filtered[m.points[x.from].addr], filtered[m.points[x.to].addr] = true, true
		}
	}
	points := map[int]bool{}
	for i, p := range m.points {
		if filtered[p.addr] {
			points[i] = true
		}
	}
	return points
}

// network returns the subnet of a node's address. An address without a subnet,
// such as a pod's, counts as part of its neighbours' subnet.
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

// hostOf returns the address in address:port or in an address alone. It removes
// the zone, because zones are the sender's.
func hostOf(s string) string {
	if strings.HasPrefix(s, "[") {
		s, _, _ = strings.Cut(s[1:], "]")
	} else if strings.Count(s, ":") == 1 {
		s, _, _ = strings.Cut(s, ":")
	}
	s, _, _ = strings.Cut(s, "%")
	return s
}
