package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// fix says where to look, by the first attempt of the gravest fault.
func (w *speaker) fix(f fault) string {
	p := w.attempts[f.attempts[0]].probe
	from, to := nameOf(p.From, w.names), nameOf(p.To, w.names)
	source, target := hostOf(p.Source), hostOf(p.Target)
	route := fmt.Sprintf("on %s:\n  ip route get %s from %s", from, target, source)
	switch p.Result {
	case Denied:
		return fmt.Sprintf("let %s open connections; on it:\n  nft list ruleset; iptables -S OUTPUT; getenforce", from)
	case NoAddress:
		return fmt.Sprintf("give %s its address %s again, or choose another interface (gorun --iface); on it:\n  ip -br addr", from, source)
	case NoRoute:
		return "choose interfaces of one network (gorun --iface), or route between the networks; " + route +
			fmt.Sprintf("\non %s:\n  ip -br link; ip -br addr", to)
	default:
		return fmt.Sprintf("open all TCP ports between the nodes, in both directions, or choose another network (gorun --iface); on %s:\n  ip -br addr; nft list ruleset; iptables -S\n%s", to, route)
	}
}

// elsewhere proposes a network that all nodes share, if that is another one than
// the failed attempts used, and says what is in its way if these were between
// different networks; else "".
func (f *Fleet) elsewhere(e *evidence) string {
	var nodes []netif.Facts
	var reached []string
	at := make([]int, len(f.Nodes)) // of a node among those of the proposal
	for i, n := range f.known() {
		at[i] = len(nodes)
		nodes, reached = append(nodes, n.Network), append(reached, n.Node.Addr)
	}
	p := netif.Suggest(nodes, reached)
	for _, a := range e.attempts {
		from, to := e.points[a.from], e.points[a.to]
		if !a.bad || f.Nodes[from.node].Format == 0 || f.Nodes[to.node].Format == 0 {
			continue
		}
		other := p.Nodes[at[from.node]].IP != from.addr || p.Nodes[at[to.node]].IP != to.addr
		if p.Works() && other || !p.Works() && a.fromNet != a.toNet {
			return f.proposal()
		}
	}
	return ""
}

// leaveOut is the fix for interfaces that carry data and reach nobody, while the
// bootstrap's do: to use only those. Otherwise what is given.
func (f *Fleet) leaveOut(e *evidence, given string) string {
	names := map[string]bool{}
	for p := range f.tries {
		if p.Use != UseBootstrap {
			continue
		}
		if failed(p.Result) {
			return given
		}
		names[p.Iface] = true
	}
	failing := map[string]bool{}
	ifaces := f.ifaces()
	for _, a := range e.attempts {
		if a.bad {
			failing[ifaces[e.points[a.from]]], failing[ifaces[e.points[a.to]]] = true, true
		}
	}
	delete(failing, "")
	var bad []string
	for name := range failing {
		if names[name] || len(names) != 1 {
			return given
		}
		bad = append(bad, name)
	}
	if len(bad) == 0 {
		return given
	}
	slices.Sort(bad)
	for name := range names {
		return fmt.Sprintf("connect %s of the nodes with each other, or leave it out and use %s alone:\n  export NCCL_SOCKET_IFNAME==%s", strings.Join(bad, ", "), name, name)
	}
	return given
}

// shrink is the fix of a path that large packets do not pass.
func (f *Fleet) shrink(e *evidence) string {
	i := slices.IndexFunc(e.attempts, func(a attempt) bool { return a.bad })
	if i < 0 {
		return ""
	}
	from, to := e.points[e.attempts[i].from], e.points[e.attempts[i].to]
	mtus := map[int]bool{}
	ifaces := f.ifaces()
	for _, p := range []point{from, to} {
		for _, link := range f.Nodes[p.node].Network.Interfaces {
			if link.Name == ifaces[p] && link.MTU > 0 {
				mtus[link.MTU] = true
			}
		}
	}
	size := 1500
	for m := range mtus {
		size = max(size, m)
	}
	return fmt.Sprintf("let the switches between pass packets of %d bytes, or set the MTU that the path passes on every node; on %s, to find it:\n  ping -M do -s %d -I %s %s\n  ip link set %s mtu 1500",
		size, nameOf(from.node, f.Names()), size-28, from.addr, to.addr, orInterface(ifaces[from]))
}

func orInterface(name string) string {
	if name == "" {
		return "eth0"
	}
	return name
}
