package probe

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// Plans says for each node of a fleet, by group rank, what it connects to: the
// listeners of its partners (Schedule), each from this side's address of the
// same use. NCCL pairs its interfaces by index, so the k-th data address meets
// the k-th of the other side, and the shorter list is repeated.
//
// Nodes that share a machine and its network namespace are not probed: nothing
// lies between them. Nor are addresses that no connection could tell more about
// than the facts do: loopback, and two families.
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
		var rest []Target // after every partner's first address
		for _, j := range partners {
			if places[i] >= 0 && places[i] == places[j] {
				continue
			}
			ts := meet(&sides[i], &sides[j])
			for k := range ts {
				ts[k].To, ts[k].ID, ts[k].Large = j, f.Nodes[j].Node.ID, large(i, j, n)
			}
			if len(ts) > 0 {
				out[i].Targets = append(out[i].Targets, ts[0])
				rest = append(rest, ts[1:]...)
			}
		}
		out[i].Targets = append(out[i].Targets, rest...)
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
			if l.Use != use || err != nil || !single(addr) || l.Port < 1 || l.Port > 65535 || len(l.Iface) > maxName {
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

// meet pairs the ends of two nodes.
func meet(from, to *side) []Target {
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
