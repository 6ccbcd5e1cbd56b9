package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// proposed gives findings about a choice of interfaces their fix: what would
// work, where something would.
func (f *Fleet) proposed(found []Finding) []Finding {
	for i := range found {
		found[i].Fix = f.proposal()
	}
	return found
}

// proposal is what propose says, asked once.
func (f *Fleet) proposal() string {
	v := f.look()
	if v.proposal == nil {
		text := f.propose()
		v.proposal = &text
	}
	return *v.proposal
}

// propose is the fix of a choice of interfaces: commands when there is a choice
// by which all nodes would reach each other, as far as their facts tell, else
// what is in its way. "" means: the rule's own.
func (f *Fleet) propose() string {
	var nodes []netif.Facts
	var reached []string
	var ranks []int // group ranks of the proposal's nodes
	for i, n := range f.known() {
		nodes, reached, ranks = append(nodes, n.Network), append(reached, n.Node.Addr), append(ranks, i)
	}
	p := netif.Suggest(nodes, reached)
	if !p.Works() {
		return f.obstacle(p, ranks)
	}
	names := f.Names()
	by := map[string][]int{}
	for i, n := range p.Nodes {
		by[n.Iface] = append(by[n.Iface], ranks[i])
	}
	var b strings.Builder
	arg := "auto"
	if p.Network != "" {
		arg = p.Network
	}
	fmt.Fprintf(&b, "%s; let gorun name each node's interface there:\n  gorun --iface %s ...\n", p.Why, arg)
	ifaces := make([]string, 0, len(by))
	for name := range by {
		ifaces = append(ifaces, name)
	}
	slices.SortFunc(ifaces, func(a, b string) int { return by[a][0] - by[b][0] })
	if len(ifaces) > 4 {
		return strings.TrimRight(b.String(), "\n")
	}
	for _, name := range ifaces {
		fmt.Fprintf(&b, "or by hand, on %s:\n  export NCCL_SOCKET_IFNAME==%s GLOO_SOCKET_IFNAME=%s\n", nameList(by[name], names, len(names), len(ifaces) > 1), name, name)
	}
	return strings.TrimRight(b.String(), "\n")
}

// obstacle says which nodes are not on the network that most nodes share.
func (f *Fleet) obstacle(p netif.Proposal, ranks []int) string {
	names := f.Names()
	var lines []string
	for i, n := range p.Nodes {
		if n.Iface != "" || n.Why == "" {
			continue
		}
		if len(lines) == 4 {
			lines = append(lines, "...")
			break
		}
		lines = append(lines, names[ranks[i]]+" "+n.Why)
	}
	if len(lines) == 0 {
		return ""
	}
	return "there is no network that all nodes share (" + p.Why + "): " + strings.Join(lines, "; ") + ". Connect them to one, or route between their networks and open the firewalls"
}
