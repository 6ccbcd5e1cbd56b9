package reach

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// steps says what to do about a fault, by its first cell.
func (w *describer) steps(f fault) []preflight.Step {
	p := w.cells[f.cells[0]].probe
	from, to := preflight.NodeName(p.From, w.names), preflight.NodeName(p.To, w.names)
	source, target := hostOf(p.Source), hostOf(p.Target)
	// An address may have a zone, whose name comes from another node.
	quotedSource, quotedTarget := term.Command(source), term.Command(target)
	route := preflight.ToShow.Step("which route the packets take", fmt.Sprintf("ip route get %s from %s", quotedTarget, quotedSource)).On([]int{p.From})
	switch p.Result {
	case preflight.Denied:
		return []preflight.Step{
			preflight.ByHand.Step("ask the administrator of " + from + " to let it open connections: its firewall or SELinux forbids them"),
			preflight.ToShow.Step("what forbids it", "nft list ruleset; iptables -S OUTPUT; getenforce").On([]int{p.From}),
		}
	case preflight.NoAddress:
		return []preflight.Step{
			preflight.ByHand.Step("ask the administrator of " + from + " to give it its address " + source + " again, or choose another interface with --iface"),
			preflight.ToShow.Step("which addresses it has", "ip -br addr").On([]int{p.From}),
		}
	case preflight.NoRoute:
		return []preflight.Step{
			preflight.ByHand.Step("ask the administrator of the network to route between " + source + " of " + from + " and " + target + " of " + to + ", or choose interfaces of one network with --iface"), route,
			preflight.ToShow.Step("whether the interface is up", "ip -br link; ip -br addr").On([]int{p.To}),
		}
	default:
		return []preflight.Step{
			preflight.ByHand.Step("ask the administrator of the firewall to let all TCP ports through between " + source + " of " + from + " and " + target + " of " + to + ", and so between all nodes, in both directions; or choose another network with --iface"),
			preflight.ToShow.Step("the firewall of the node", "ip -br addr; nft list ruleset; iptables -S").On([]int{p.To}), route,
		}
	}
}

// otherNetwork proposes a network that all nodes share if the bad cells used
// another one. If the bad cells were between different networks, it says what
// prevents a proposal. Otherwise it returns nil.
func (e *evidence) otherNetwork() []preflight.Step {
	p, ranks := e.SuggestNetwork()
	at := make([]int, len(e.Nodes)) // of a node: its index among the proposal's nodes
	for k, i := range ranks {
		at[i] = k
	}
	for _, c := range e.cells {
		from, to := e.points[c.from], e.points[c.to]
		if !c.bad || e.Nodes[from.node].Format == 0 || e.Nodes[to.node].Format == 0 {
			continue
		}
		other := p.Nodes[at[from.node]].IP != from.addr || p.Nodes[at[to.node]].IP != to.addr
		if p.Works() && other || !p.Works() && from.net != to.net {
			return e.Proposal()
		}
	}
	return nil
}

// bootstrapOnly returns the steps that use only the bootstrap's interface, if
// it works and other interfaces that carry data do not. Otherwise it returns
// nil.
func (e *evidence) bootstrapOnly() []preflight.Step {
	name := "" // of the bootstrap's interface
	for p := range e.ValidProbes {
		if p.Use != preflight.UseBootstrap {
			continue
		}
		if p.Result.Failed() || name != "" && name != p.Iface {
			return nil
		}
		name = p.Iface
	}
	var failing []string
	for _, c := range e.cells {
		for _, id := range []int{c.from, c.to} {
			if iface := e.points[id].iface; c.bad && iface != "" && !slices.Contains(failing, iface) {
				failing = append(failing, iface)
			}
		}
	}
	if name == "" || len(failing) == 0 || slices.Contains(failing, name) {
		return nil
	}
	slices.Sort(failing)
	return []preflight.Step{
		preflight.EveryRank("use "+name+" alone", "NCCL_SOCKET_IFNAME", "="+name),
		preflight.ByHand.Step("ask the administrator of the network to connect " + strings.Join(failing, ", ") + " of the nodes with each other").Alternative(),
	}
}

// smallerMTU returns the steps for a path that large packets do not pass.
func (e *evidence) smallerMTU() []preflight.Step {
	bad := e.cells[slices.IndexFunc(e.cells, func(c cell) bool { return c.bad })]
	from, to := e.points[bad.from], e.points[bad.to]
	size := 0
	for _, p := range []point{from, to} {
		if link := e.Nodes[p.node].Network.Named(p.iface); link != nil {
			size = max(size, link.MTU)
		}
	}
	size = cmp.Or(size, 1500)
	pass := 1280 // the smallest MTU that IPv6 allows: every network passes it
	for _, usual := range []int{1500, 1400} {
		if size > usual {
			pass = usual
			break
		}
	}
	head := 28 // bytes of the headers of IPv4 and ICMP
	if ip, err := netip.ParseAddr(to.addr); err == nil && !ip.Is4() {
		head = 48
	}
	show := preflight.ToShow.Step("whether the path passes packets of this size", fmt.Sprintf("ping -c 3 -W 2 -M do -s %d -I %s %s", pass-head, term.Command(from.addr), term.Command(to.addr))).On([]int{from.node})
	steps := e.StepsFor(e.AllNodes(), preflight.AsRoot, "set an MTU that the path passes", func(i int, n *preflight.Facts) []string {
		var lines []string
		for _, l := range n.Listeners {
			line := fmt.Sprintf("ip link set dev %s mtu %d", term.Command(l.Iface), pass)
			if link := n.Network.Named(l.Iface); link != nil && link.MTU > pass && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
		return lines
	})
	if len(steps) > 0 {
		steps = append(steps, show)
	}
	return preflight.Either(steps, preflight.ByHand.Step(fmt.Sprintf("ask the administrator of the network to let the switches pass packets of %d bytes", size)))
}
