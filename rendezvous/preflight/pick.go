package preflight

import (
	"net/netip"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// lead is the address of a node's bootstrap: NCCL's, or Gloo's.
func (f *Fleet) lead(i int) (netif.Pick, bool) {
	v := f.look()
	n := &f.Nodes[i]
	if v.nccl && n.env("NCCL_COMM_ID") != "" {
		if c := netif.Bootstrap(n.Network, n.env, n.ncclCode()); len(c.Picked) > 0 {
			return c.Picked[0], true
		}
	}
	if len(v.choice[i].Picked) == 0 {
		return netif.Pick{}, false
	}
	return v.choice[i].Picked[0], true
}

// carrying are the addresses that carry data: all of them when sockets do, else
// only the first, over which NCCL's ranks meet.
func (f *Fleet) carrying(i int) []netif.Pick {
	picks := f.look().choice[i].Picked
	if len(picks) > 1 && !f.sockets(i) {
		return picks[:1]
	}
	return picks
}

func show(p netif.Pick) string { return p.Iface + " " + p.IP }

// subnet is the network that an address is in; "" for an address that stands
// for itself, as a pod's does.
func subnet(p netif.Pick) string {
	ip, err := netip.ParseAddr(p.IP)
	if err != nil || p.Bits <= 0 || p.Bits >= ip.BitLen() {
		return ""
	}
	net, err := ip.WithZone("").Prefix(p.Bits)
	if err != nil {
		return ""
	}
	return net.String()
}

// local says why other nodes cannot reach an address, "" if they may.
func local(p netif.Pick) string {
	ip, err := netip.ParseAddr(p.IP)
	switch {
	case err != nil:
		return ""
	case ip.IsLoopback():
		return "loopback"
	case ip.IsLinkLocalUnicast():
		return "link-local"
	default:
		return ""
	}
}

// linked reports whether every node's address is an IPv4 link-local one: of
// machines that are joined by a cable or a switch without DHCP. Probes tell
// whether it is one link.
func (f *Fleet) linked(addr func(i int) string) bool {
	for i := range f.known() {
		if ip, err := netip.ParseAddr(addr(i)); err != nil || !ip.Is4() || !ip.IsLinkLocalUnicast() {
			return false
		}
	}
	return true
}

// link is the interface of an address.
func (n *Facts) link(p netif.Pick) *netif.Interface {
	for i := range n.Network.Interfaces {
		if n.Network.Interfaces[i].Index == p.Index {
			return &n.Network.Interfaces[i]
		}
	}
	return nil
}

func (n *Facts) named(name string) *netif.Interface {
	base, _, _ := strings.Cut(name, ":") // a label is the interface's name and a suffix
	for i := range n.Network.Interfaces {
		if n.Network.Interfaces[i].Name == base {
			return &n.Network.Interfaces[i]
		}
	}
	return nil
}

// deadSlave names a slave of a bond that has no carrier.
func (n *Facts) deadSlave(p netif.Pick) string {
	link := n.link(p)
	if link == nil || link.Kind != "bond" && link.Kind != "team" {
		return ""
	}
	for _, name := range link.Slaves {
		if slave := n.named(name); slave != nil && !slave.Running {
			return name
		}
	}
	return ""
}
