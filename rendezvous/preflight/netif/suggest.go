package netif

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Proposal is a choice of interfaces by which all nodes would reach each other,
// as far as facts show. Only probes know what a firewall lets through.
type Proposal struct {
	Network string     `json:"network,omitempty"` // network of all addresses, "" if they are in several
	Nodes   []Proposed `json:"nodes"`             // in the order of the nodes
	Why     string     `json:"why"`               // why this choice, or why there is none
}

// Proposed is one node's part. Without an interface, Why says what the node
// lacks.
type Proposed struct {
	Pick
	Why string `json:"why,omitempty"`
}

// Works reports whether every node has its part.
func (p Proposal) Works() bool {
	return len(p.Nodes) > 0 && !slices.ContainsFunc(p.Nodes, func(n Proposed) bool { return n.Iface == "" })
}

// maxNetworks is how many networks are tried: those that most nodes have.
const maxNetworks = 8

// Suggest finds what nodes should use if their automatic choices do not reach
// each other. Of the networks in which every node has an address it takes the
// fastest that is wired. If there is no such network, it takes the addresses by
// which agents reach each other already (reached, one for each node, ""
// unknown, or nil). It never proposes loopback, link-local addresses, bridges
// and veths of containers, or addresses that two nodes share.
func Suggest(nodes []Facts, reached []string) Proposal {
	all := make([][]reachable, len(nodes))
	count := map[netip.Prefix]int{}
	for n, f := range nodes {
		all[n] = slices.DeleteFunc(f.reachable(), func(r reachable) bool { return r.why != "" || r.class == inner })
		for _, p := range networks(all[n]) {
			count[p]++
		}
	}
	order := slices.SortedFunc(maps.Keys(count), func(a, b netip.Prefix) int {
		return cmp.Or(count[b]-count[a], a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
	})
	var best *trial
	for _, p := range order[:min(len(order), maxNetworks)] {
		t := tryNetwork(nodes, all, p)
		if best == nil || t.better(best, reached) {
			best = t
		}
	}
	if best != nil && best.missing == 0 {
		return best.Proposal
	}
	if p, ok := byReached(all, reached); ok {
		return p
	}
	if best != nil {
		return best.Proposal
	}
	p := Proposal{Nodes: make([]Proposed, len(nodes)), Why: "no node has an address that others could reach"}
	for n, f := range nodes {
		p.Nodes[n].Why = "has " + f.ListAddresses()
	}
	return p
}

// networks returns the networks of a node, each once.
func networks(list []reachable) []netip.Prefix {
	var out []netip.Prefix
	for _, r := range list {
		p, err := r.addr.Prefix(r.pick.Bits)
		if err == nil && p.Bits() < r.addr.BitLen() && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// trial is a proposal that is being compared with others.
type trial struct {
	Proposal
	missing int // nodes without a part
	worst   reachable
}

// tryNetwork gives each node its best address in a network.
func tryNetwork(nodes []Facts, all [][]reachable, network netip.Prefix) *trial {
	t := &trial{Proposal: Proposal{Network: network.String(), Nodes: make([]Proposed, len(nodes))}}
	owner := map[netip.Addr]reachable{}
	found := 0
	for n := range nodes {
		var pick *reachable
		for i := range all[n] {
			if r := &all[n][i]; network.Contains(r.addr) && (pick == nil || r.better(*pick)) {
				pick = r
			}
		}
		if pick == nil {
			t.missing++
			t.Nodes[n].Why = cmp.Or(nodes[n].whyUnusable(network), "has no address in "+t.Network+" but "+nodes[n].ListAddresses())
			continue
		}
		// Agents with the same hardware address share a machine.
		if other, taken := owner[pick.addr]; taken && (other.mac != pick.mac || pick.mac == "") {
			t.missing++
			t.Nodes[n].Why = pick.addr.String() + " is also another node's address"
			continue
		}
		owner[pick.addr] = *pick
		t.Nodes[n].Pick = pick.pick
		if found++; found == 1 || t.worst.better(*pick) {
			t.worst = *pick
		}
	}
	t.Why = fmt.Sprintf("%d of %d nodes have an address in %s", found, len(nodes), t.Network)
	if t.missing == 0 {
		t.Why = "all nodes have an address in " + t.Network
		if t.worst.speed > 0 {
			t.Why += fmt.Sprintf(", at %d Mbit/s or more", t.worst.speed)
		}
	}
	return t
}

// whyUnusable says why a node's address in a network cannot be used, "" if the
// node has no address there.
func (f Facts) whyUnusable(network netip.Prefix) string {
	for _, r := range f.reachable() {
		if network.Contains(r.addr) && r.why != "" {
			return "cannot use its address in " + network.String() + ": " + r.why
		}
	}
	return ""
}

func (t *trial) better(o *trial, reached []string) bool {
	if t.missing != o.missing {
		return t.missing < o.missing
	}
	if t.worst.better(o.worst) != o.worst.better(t.worst) {
		return t.worst.better(o.worst)
	}
	return t.countReached(reached) > o.countReached(reached)
}

// countReached returns the number of nodes that are reached by the proposed
// address already.
func (t *trial) countReached(reached []string) int {
	n := 0
	for i, p := range t.Nodes {
		if i < len(reached) && p.IP != "" && p.IP == reached[i] {
			n++
		}
	}
	return n
}

// byReached proposes the interfaces of the addresses that agents use.
func byReached(all [][]reachable, reached []string) (Proposal, bool) {
	if len(reached) != len(all) {
		return Proposal{}, false
	}
	p := Proposal{Nodes: make([]Proposed, len(all)), Why: "the nodes have no network in common, but these are the addresses by which the agents reach each other"}
	var v4 bool
	for n, list := range all {
		i := slices.IndexFunc(list, func(r reachable) bool { return r.pick.IP == reached[n] })
		if i < 0 || n > 0 && v4 != list[i].addr.Is4() {
			return Proposal{}, false
		}
		v4 = list[i].addr.Is4()
		p.Nodes[n].Pick = list[i].pick
	}
	return p, true
}
