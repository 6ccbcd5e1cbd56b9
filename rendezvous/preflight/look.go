package preflight

import (
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// view is what several rules need to know of a fleet, looked up once.
type view struct {
	ras      bool           // a node asks NCCL's RAS
	nccl     bool           // a node has a GPU driver: the rules of NCCL concern the fleet
	gloo     bool           // no node has one, and torch is there: the rules of Gloo do
	places   int            // distinct places of nodes whose facts are known
	place    []int          // of each node, as Locate gives them
	machine  []int          // of each node
	shared   []bool         // of each node: another node of the fleet is on the same machine
	ranks    int            // workers of the nodes whose facts are known
	first    []int          // first rank of each node and, last, the number of ranks; nil when a node is unknown
	choice   []netif.Choice // of addresses, by NCCL or Gloo
	carrier  []carrier      // NCCL's, of each node with a GPU driver
	ports    [][]rdma.HCA   // of such a node: those that NCCL would use
	proposal *[]Step        // what propose says; nil until somebody asked
}

// carrier is the network over which NCCL moves data.
type carrier struct {
	kind string // "IB", "Socket" or a plugin's file name; "" unknown, or it fails
	why  string // the rule that decided
	err  string // what NCCL fails with
}

// look gives the view that Compare prepared, or looks anew.
func (f *Fleet) look() *view {
	if f.seen != nil {
		return f.seen
	}
	return look(f)
}

func look(f *Fleet) *view {
	v := &view{}
	v.concerns(f)
	v.locate(f)
	v.rank(f)
	v.choose(f)
	v.carry(f)
	return v
}

func (v *view) concerns(f *Fleet) {
	torch := false
	for _, n := range f.known() {
		v.nccl = v.nccl || n.GPU.Driver
		v.ras = v.ras || asksRAS(n)
		torch = torch || n.Libraries.Torch != ""
	}
	v.gloo = torch && !v.nccl
}

func (v *view) locate(f *Fleet) {
	v.machine, v.place = f.Locate()
	nodes, distinct := map[int]int{}, map[int]bool{}
	for i := range f.known() {
		nodes[v.machine[i]]++
		distinct[v.place[i]] = true
	}
	v.shared = make([]bool, len(f.Nodes))
	for i := range f.known() {
		v.shared[i] = nodes[v.machine[i]] > 1
	}
	v.places = len(distinct)
}

func (v *view) rank(f *Fleet) {
	first := make([]int, len(f.Nodes)+1)
	for _, n := range f.known() {
		v.ranks += n.Node.Workers
	}
	for i := range f.Nodes {
		if f.Nodes[i].Format == 0 {
			return
		}
		first[i+1] = first[i] + f.Nodes[i].Node.Workers
	}
	v.first = first
}

// choose finds the addresses that the workers' library takes on each node.
func (v *view) choose(f *Fleet) {
	v.choice = make([]netif.Choice, len(f.Nodes))
	if v.ranks < 2 || !v.nccl && (v.places < 2 || !v.gloo) {
		return
	}
	for i, n := range f.known() {
		if v.nccl {
			v.choice[i] = netif.NCCL(n.Network, n.env, n.ncclCode())
			continue
		}
		v.choice[i] = netif.Gloo(n.Network, n.env)
	}
}

// carry finds the network of NCCL on each node.
func (v *view) carry(f *Fleet) {
	v.carrier, v.ports = make([]carrier, len(f.Nodes)), make([][]rdma.HCA, len(f.Nodes))
	if !v.nccl {
		return
	}
	for i, n := range f.known() {
		if n.GPU.Driver && n.knows("rdma") {
			c := &v.carrier[i]
			c.kind, c.why, c.err = rdma.Transport(n.RDMA, n.env, n.ncclCode())
			v.ports[i] = rdma.HCAs(n.RDMA, n.env)
		}
	}
}

// between reports whether the nodes talk over a network, and with a library
// that gorun knows.
func (v *view) between() bool { return v.places > 1 && (v.nccl || v.gloo) }
