package preflight

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// BootstrapAddress returns the address of a node's bootstrap: NCCL's, or
// Gloo's.
func (f *Fleet) BootstrapAddress(i int) (netif.Pick, bool) {
	v := f.View()
	n := &f.Nodes[i]
	if v.NCCL && n.Env("NCCL_COMM_ID") != "" {
		if c := netif.Bootstrap(n.Network, n.Env, n.NCCLCode()); len(c.Picked) > 0 {
			return c.Picked[0], true
		}
	}
	if len(v.Choice[i].Picked) == 0 {
		return netif.Pick{}, false
	}
	return v.Choice[i].Picked[0], true
}

// DataAddresses returns the addresses that carry data: all addresses if data
// goes over sockets, else the first, over which NCCL's ranks first connect.
func (f *Fleet) DataAddresses(i int) []netif.Pick {
	picks := f.View().Choice[i].Picked
	if len(picks) > 1 && !f.UsesSockets(i) {
		return picks[:1]
	}
	return picks
}

// AllLinkLocal reports whether every node's address is an IPv4 link-local one,
// as on machines that are connected by a cable or by a switch without DHCP.
// Probes show whether all nodes are on one link.
func (f *Fleet) AllLinkLocal(addr func(i int) string) bool {
	for i := range f.Known() {
		if ip, err := netip.ParseAddr(addr(i)); err != nil || !ip.Is4() || !ip.IsLinkLocalUnicast() {
			return false
		}
	}
	return true
}

// WithProposal sets Proposal as the steps of findings about a choice of
// interfaces.
func (f *Fleet) WithProposal(found []Finding) []Finding { return WithSteps(found, f.Proposal) }

// Proposal returns the fix of a choice of interfaces, computed once. It is what
// to paste if there is a choice by which all nodes would reach each other, else
// what prevents such a choice. nil means the rule's own steps.
func (f *Fleet) Proposal() []Step {
	type key struct{}
	return slices.Clone(f.View().Once(key{}, func() any { return f.propose() }).([]Step))
}

// propose computes Proposal from the nodes' facts.
func (f *Fleet) propose() []Step {
	p, ranks := f.SuggestNetwork()
	if !p.Works() {
		return f.obstacle(p, ranks)
	}
	by := map[string][]int{}
	for i, n := range p.Nodes {
		by[n.Iface] = append(by[n.Iface], ranks[i])
	}
	family := f.family(p, ranks)
	steps := []Step{ToGorun.Step(p.Why+"; let gorun name each node's interface there", strings.TrimSpace("--iface "+cmp.Or(p.Network, "auto")+" "+family)).Everywhere()}
	ifaces := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return by[a][0] - by[b][0] })
	if len(ifaces) > 4 || family != "" {
		return steps
	}
	for k, name := range ifaces {
		step := InShell.Step("", "export "+term.Command("NCCL_SOCKET_IFNAME=="+name)+" "+term.Command("GLOO_SOCKET_IFNAME="+name)).On(by[name])
		if k == 0 {
			step = step.Alternative()
			step.Text = "by hand"
		}
		steps = append(steps, step)
	}
	return steps
}

// SuggestNetwork proposes addresses for the nodes whose facts are known, and
// returns their group ranks.
func (f *Fleet) SuggestNetwork() (p netif.Proposal, ranks []int) {
	var nodes []netif.Facts
	var reached []string
	for i, n := range f.Known() {
		nodes, reached, ranks = append(nodes, n.Network), append(reached, n.Node.Addr), append(ranks, i)
	}
	return netif.Suggest(nodes, reached), ranks
}

// family returns the option that makes NCCL take the proposed addresses if an
// interface has addresses of another family before them; "" if no option is
// needed.
func (f *Fleet) family(p netif.Proposal, ranks []int) string {
	if !f.View().NCCL {
		return ""
	}
	picksAll := func(family string) bool {
		for k, want := range p.Nodes {
			n := &f.Nodes[ranks[k]]
			c := netif.NCCL(n.Network, func(name string) string {
				switch {
				case name == "NCCL_SOCKET_IFNAME":
					return "=" + want.Iface
				case name == "NCCL_SOCKET_FAMILY" && family != "":
					return family
				}
				return n.Env(name)
			}, n.NCCLCode())
			if len(c.Picked) == 0 || c.Picked[0].IP != want.IP {
				return false
			}
		}
		return true
	}
	if !picksAll("") {
		for _, family := range []string{"AF_INET", "AF_INET6"} {
			if picksAll(family) {
				return "-x NCCL_SOCKET_FAMILY=" + family
			}
		}
	}
	return ""
}

// obstacle returns the step that names the nodes outside the network that most
// nodes share.
func (f *Fleet) obstacle(p netif.Proposal, ranks []int) []Step {
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
		return nil
	}
	return []Step{ByHand.Step("there is no network that all nodes share (" + p.Why + "): " + strings.Join(lines, "; ") + ". Ask the administrator of the network to connect them to one, or to route between their networks and let all TCP ports through")}
}
