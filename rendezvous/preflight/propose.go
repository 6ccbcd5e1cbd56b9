package preflight

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// proposed gives findings about a choice of interfaces their fix: what would
// work, where something would.
func (f *Fleet) proposed(found []Finding) []Finding { return advised(found, f.proposal) }

// proposal is what propose says, asked once.
func (f *Fleet) proposal() []Step {
	v := f.look()
	if v.proposal == nil {
		steps := f.propose()
		v.proposal = &steps
	}
	return slices.Clone(*v.proposal)
}

// propose is the fix of a choice of interfaces: what to paste when there is a
// choice by which all nodes would reach each other, as far as their facts tell,
// else what is in its way; nil: the rule's own.
func (f *Fleet) propose() []Step {
	p, ranks := f.suggest()
	if !p.Works() {
		return f.obstacle(p, ranks)
	}
	by := map[string][]int{}
	for i, n := range p.Nodes {
		by[n.Iface] = append(by[n.Iface], ranks[i])
	}
	family := f.family(p, ranks)
	steps := []Step{toGorun(p.Why+"; let gorun name each node's interface there", strings.TrimSpace("--iface "+cmp.Or(p.Network, "auto")+" "+family)).everywhere()}
	ifaces := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return by[a][0] - by[b][0] })
	if len(ifaces) > 4 || family != "" {
		return steps
	}
	for k, name := range ifaces {
		step := inShell("", "export "+quote("NCCL_SOCKET_IFNAME=="+name)+" "+quote("GLOO_SOCKET_IFNAME="+name)).on(by[name])
		if k == 0 {
			step = step.or()
			step.Text = "by hand"
		}
		steps = append(steps, step)
	}
	return steps
}

// suggest is a choice for the nodes whose facts are known, and their group ranks.
func (f *Fleet) suggest() (p netif.Proposal, ranks []int) {
	var nodes []netif.Facts
	var reached []string
	for i, n := range f.known() {
		nodes, reached, ranks = append(nodes, n.Network), append(reached, n.Node.Addr), append(ranks, i)
	}
	return netif.Suggest(nodes, reached), ranks
}

// family is the option that has NCCL take the proposed addresses, where an
// interface has others of another family before them; "" where it needs none.
func (f *Fleet) family(p netif.Proposal, ranks []int) string {
	if !f.look().nccl {
		return ""
	}
	takes := func(family string) bool {
		for k, want := range p.Nodes {
			n := &f.Nodes[ranks[k]]
			c := netif.NCCL(n.Network, func(name string) string {
				switch {
				case name == "NCCL_SOCKET_IFNAME":
					return "=" + want.Iface
				case name == "NCCL_SOCKET_FAMILY" && family != "":
					return family
				}
				return n.env(name)
			}, n.ncclCode())
			if len(c.Picked) == 0 || c.Picked[0].IP != want.IP {
				return false
			}
		}
		return true
	}
	if !takes("") {
		for _, family := range []string{"AF_INET", "AF_INET6"} {
			if takes(family) {
				return "-x NCCL_SOCKET_FAMILY=" + family
			}
		}
	}
	return ""
}

// obstacle says which nodes are not on the network that most nodes share.
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
	return []Step{byHand("there is no network that all nodes share (" + p.Why + "): " + strings.Join(lines, "; ") + ". Ask the administrator of the network to connect them to one, or to route between their networks and let all TCP ports through")}
}
