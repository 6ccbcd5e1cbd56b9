package preflight

import (
	"net/netip"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// View is what several rules need to know of a fleet. Compare computes it once.
type View struct {
	NCCL      bool           // a node has a GPU driver: the rules of NCCL apply to the fleet
	Gloo      bool           // no node has a GPU driver, and torch is there: the rules of Gloo apply
	Places    int            // distinct places of nodes whose facts are known
	Place     []int          // of each node, as Locate numbers it
	Machine   []int          // of each node
	Shared    []bool         // of each node: another node of the fleet is on the same machine
	Ranks     int            // workers of the nodes whose facts are known
	FirstRank []int          // first rank of each node and, last, the number of ranks; nil when a node is unknown
	Choice    []netif.Choice // of addresses, by NCCL or Gloo
	Transport []Transport    // NCCL's, of each node with a GPU driver
	Ports     [][]rdma.HCA   // of such a node: the ports that NCCL would use
	cached    map[any]any    // by Once
}

// Transport is the network over which NCCL moves data.
type Transport struct {
	Kind string // "IB", "Socket" or a plugin's file name; "": unknown, or NCCL fails
	Why  string // the rule that decided
	Err  string // the error of NCCL
}

// View returns the view that Compare computed, or a new one.
func (f *Fleet) View() *View {
	if f.view != nil {
		return f.view
	}
	return newView(f)
}

// newView computes the view of a fleet.
func newView(f *Fleet) *View {
	v := &View{}
	v.findLibraries(f)
	v.locate(f)
	v.countRanks(f)
	v.chooseAddresses(f)
	v.chooseTransports(f)
	return v
}

// findLibraries finds out whether the workers use NCCL or Gloo.
func (v *View) findLibraries(f *Fleet) {
	torch := false
	for _, n := range f.Known() {
		v.NCCL = v.NCCL || n.GPU.Driver
		torch = torch || n.Libraries.Torch != ""
	}
	v.Gloo = torch && !v.NCCL
}

// locate finds the nodes that share a machine or a place.
func (v *View) locate(f *Fleet) {
	v.Machine, v.Place = f.Locate()
	nodes, distinct := map[int]int{}, map[int]bool{}
	for i := range f.Known() {
		nodes[v.Machine[i]]++
		distinct[v.Place[i]] = true
	}
	v.Shared = make([]bool, len(f.Nodes))
	for i := range f.Known() {
		v.Shared[i] = nodes[v.Machine[i]] > 1
	}
	v.Places = len(distinct)
}

// countRanks numbers the ranks of the nodes.
func (v *View) countRanks(f *Fleet) {
	first := make([]int, len(f.Nodes)+1)
	for _, n := range f.Known() {
		v.Ranks += n.Node.Workers
	}
	for i := range f.Nodes {
		if f.Nodes[i].Format == 0 {
			return
		}
		first[i+1] = first[i] + f.Nodes[i].Node.Workers
	}
	v.FirstRank = first
}

// chooseAddresses finds the addresses that the workers' library takes on each
// node.
func (v *View) chooseAddresses(f *Fleet) {
	v.Choice = make([]netif.Choice, len(f.Nodes))
	if v.Ranks < 2 || !v.NCCL && (v.Places < 2 || !v.Gloo) {
		return
	}
	for i, n := range f.Known() {
		if v.NCCL {
			v.Choice[i] = netif.NCCL(n.Network, n.Env, n.NCCLCode())
			continue
		}
		v.Choice[i] = netif.Gloo(n.Network, n.Env)
	}
}

// chooseTransports finds the network of NCCL on each node.
func (v *View) chooseTransports(f *Fleet) {
	v.Transport, v.Ports = make([]Transport, len(f.Nodes)), make([][]rdma.HCA, len(f.Nodes))
	if !v.NCCL {
		return
	}
	for i, n := range f.Known() {
		if n.GPU.Driver && n.Knows("rdma") {
			c := &v.Transport[i]
			c.Kind, c.Why, c.Err = rdma.Transport(n.RDMA, n.Env, n.NCCLCode())
			v.Ports[i] = rdma.HCAs(n.RDMA, n.Env)
		}
	}
}

// Once returns the value that compute returned when Once was first called with
// this key. With it the rules of one package share results. A key has a type of
// that package.
func (v *View) Once(key any, compute func() any) any {
	x, ok := v.cached[key]
	if !ok {
		x = compute()
		if v.cached == nil {
			v.cached = map[any]any{}
		}
		v.cached[key] = x
	}
	return x
}

// Between reports whether the nodes are in several places and use NCCL or Gloo.
func (v *View) Between() bool { return v.Places > 1 && (v.NCCL || v.Gloo) }

// Locate numbers the machines of the nodes and their places. Nodes of one place
// share a machine and its network namespace. Both numbers are -1 for a node
// that sent no facts. A node that knows neither boot id nor namespace has a
// place of its own.
func (f *Fleet) Locate() (machines, places []int) {
	machines, places = make([]int, len(f.Nodes)), make([]int, len(f.Nodes))
	for i := range f.Nodes {
		machines[i], places[i] = -1, -1
	}
	type spot struct {
		machine, net string
		alone        int // for a node that shares nothing known: its group rank, from 1
	}
	number := map[spot]int{}
	count := func(s spot) int {
		if _, ok := number[s]; !ok {
			number[s] = len(number)
		}
		return number[s]
	}
	copies := f.copiedBootIDs()
	for i, n := range f.Known() {
		machine, net := n.Host.BootID, n.Host.NS.Net
		switch {
		case machine == "":
			machines[i] = count(spot{alone: i + 1})
			places[i] = machines[i]
			continue
		case copies[machine]:
			machine += "\x00" + n.routableAddresses()
		}
		machines[i] = count(spot{machine: machine})
		s := spot{machine: machine, net: net}
		if net == "" {
			s.alone = i + 1
		}
		places[i] = count(s)
	}
	return machines, places
}

// copiedBootIDs returns the boot ids that several machines have. A copy of a
// running machine keeps its boot id until it is restarted. Nodes with one boot
// id are on different machines if they have different GPUs at one PCI address,
// or if they are in one network namespace and each has an address that the
// other lacks.
func (f *Fleet) copiedBootIDs() map[string]bool {
	type slot struct{ boot, pci string }
	type space struct{ boot, net string }
	gpus, first, copied := map[slot]string{}, map[space]*Facts{}, map[string]bool{}
	for _, n := range f.Known() {
		boot := n.Host.BootID
		if boot == "" {
			continue
		}
		for _, d := range n.GPU.Devices {
			s := slot{boot, d.PCI}
			if d.PCI == "" || d.UUID == "" {
				continue
			}
			if other, ok := gpus[s]; ok && other != d.UUID {
				copied[boot] = true
			}
			gpus[s] = d.UUID
		}
		s := space{boot, n.Host.NS.Net}
		if other := first[s]; other == nil {
			first[s] = n
		} else if n.Host.NS.Net != "" && n.hasAddress(n.Node.Addr) && other.hasAddress(other.Node.Addr) && !n.hasAddress(other.Node.Addr) && !other.hasAddress(n.Node.Addr) {
			copied[boot] = true
		}
	}
	return copied
}

// hasAddress reports whether one of the node's interfaces has the address.
func (n *Facts) hasAddress(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return false
	}
	for _, a := range n.Network.Addresses {
		if addr, err := netip.ParseAddr(a.IP); err == nil && addr.WithZone("") == ip.WithZone("") {
			return true
		}
	}
	return false
}

// routableAddresses lists the node's addresses that have a meaning beyond a
// link.
func (n *Facts) routableAddresses() string {
	var b strings.Builder
	for _, a := range n.Network.Addresses {
		if ip, err := netip.ParseAddr(a.IP); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			b.WriteString(ip.String() + " ")
		}
	}
	return b.String()
}

// UsesSockets reports whether NCCL on this node moves data over sockets.
func (f *Fleet) UsesSockets(i int) bool { return f.View().Transport[i].Kind == "Socket" }
