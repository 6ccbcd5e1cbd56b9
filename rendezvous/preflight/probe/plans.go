package probe

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// Plans returns for each node of a fleet, by group rank, the addresses that it
// connects to: the listeners of its partners (Schedule), each from this side's
// address of the same use. NCCL pairs its interfaces by index, so the k-th data
// address connects to the k-th of the other side, and the shorter list is
// repeated. After that come further ports of the same addresses: of all
// partners in a small fleet and of the neighbours in a large one.
//
// Plans leaves out nodes that share a machine and its network namespace,
// because no network lies between them. It also leaves out addresses about
// which a connection would say no more than the facts do: loopback, and pairs
// of different families.
func Plans(f *preflight.Fleet) []Plan {
	n := len(f.Nodes)
	sides := make([]side, n)
	for i := range f.Nodes {
		sides[i] = newSide(&f.Nodes[i])
	}
	_, places := f.Locate()
	out := make([]Plan, n)
	for i, partners := range Schedule(n) {
		out[i] = Plan{Node: i}
		var rest, last []Target // after every partner's first address
		for _, j := range partners {
			if places[i] >= 0 && places[i] == places[j] {
				continue
			}
			ts := pairEnds(&sides[i], &sides[j])
			for k := range ts {
				ts[k].To, ts[k].ID, ts[k].Large = j, f.Nodes[j].Node.ID, isLarge(i, j, n)
			}
			if len(ts) > 0 {
				out[i].Targets = append(out[i].Targets, ts[0])
				rest = append(rest, ts[1:]...)
			}
			if n <= smallFleet || distance(i, j, n) == 1 {
				last = append(last, furtherPorts(ts, &f.Nodes[j])...)
			}
		}
		out[i].Targets = slices.Concat(out[i].Targets, rest, last)
	}
	return out
}

// end is a listener that can be probed.
type end struct {
	iface string
	addr  netip.Addr
	port  string
}

// side is a node's ends by use.
type side struct{ bootstrap, data, gloo []end }

func newSide(f *preflight.Facts) side {
	ends := func(use preflight.Use, limit int) (out []end) {
		for _, l := range f.Listeners {
			addr, err := netip.ParseAddr(l.Addr)
			addr = addr.Unmap()
			if l.Use != use || err != nil || !isOneHost(addr) || l.Port < 1 || l.Port > 65535 || len(l.Iface) > maxName {
				continue
			}
			if out = append(out, end{l.Iface, addr, strconv.Itoa(l.Port)}); len(out) == limit {
				break
			}
		}
		return out
	}
	if len(f.Node.ID) > maxID {
		return side{}
	}
	return side{
		ends(preflight.UseBootstrap, 1), ends(preflight.UseData, maxData), ends(preflight.UseGloo, maxGloo),
	}
}

// furtherPorts returns further ports of the addresses that a node is probed at,
// each address from one source only.
func furtherPorts(ts []Target, f *preflight.Facts) []Target {
	type path struct{ source, target string }
	tried := map[path][]string{}
	var paths []path
	first := map[path]Target{}
	for _, t := range ts {
		host, port, _ := net.SplitHostPort(t.Target)
		k := path{t.Source, host}
		if tried[k] == nil {
			paths = append(paths, k)
			first[k] = t
		}
		tried[k] = append(tried[k], port)
	}
	var out []Target
	for i, k := range paths {
		quota := (maxMore - len(out)) / (len(paths) - i)
		var ports []string
		for _, port := range openPorts(f, k.target) {
			if !slices.Contains(tried[k], port) {
				ports = append(ports, port)
			}
		}
		for n := range min(quota, len(ports)) {
			t := first[k]
			t.Use, t.Large = preflight.UsePorts, false
			t.Target = net.JoinHostPort(k.target, ports[n*len(ports)/min(quota, len(ports))])
			out = append(out, t)
		}
	}
	return out
}

// openPorts returns the ports of a node's address. The zone by which this side
// names the address does not matter.
func openPorts(f *preflight.Facts, host string) (ports []string) {
	want, _ := netip.ParseAddr(host)
	for _, l := range f.Listeners {
		addr, err := netip.ParseAddr(l.Addr)
		if err != nil || addr.Unmap().WithZone("") != want.WithZone("") {
			continue
		}
		for _, port := range l.Ports[:min(len(l.Ports), maxMore)] {
			if text := strconv.Itoa(port); port > 0 && port < 65536 && !slices.Contains(ports, text) {
				ports = append(ports, text)
			}
		}
	}
	return ports
}

// pairEnds pairs the ends of two nodes.
func pairEnds(from, to *side) []Target {
	var out []Target
	pair := func(use preflight.Use, a, b []end) {
		if len(a) == 0 || len(b) == 0 {
			return
		}
		for k := range max(len(a), len(b)) {
			a, b := a[k%len(a)], b[k%len(b)]
			if a.addr.Is4() != b.addr.Is4() {
				continue
			}
			t := Target{Use: use, Iface: a.iface, Source: a.addr.String()}
			// A link-local address is meant on the link of this side.
			t.Target = net.JoinHostPort(b.addr.WithZone(a.addr.Zone()).String(), b.port)
			if !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	pair(preflight.UseBootstrap, from.bootstrap, to.bootstrap)
	pair(preflight.UseData, from.data, to.data)
	pair(preflight.UseGloo, from.gloo, to.gloo)
	return out
}
