package preflight

import (
	"net/netip"
	"strings"
)

// Locate numbers the machines of the nodes and their places: nodes of one place
// share a machine and its network namespace. Both are -1 for a node that sent no
// facts. A node that knows neither boot id nor namespace is a place of its own.
func (f *Fleet) Locate() (machines, places []int) {
	machines, places = make([]int, len(f.Nodes)), make([]int, len(f.Nodes))
	for i := range f.Nodes {
		machines[i], places[i] = -1, -1
	}
	type spot struct {
		machine, net string
		alone        int // of a node that shares nothing that is known: its group rank, from 1
	}
	number := map[spot]int{}
	count := func(s spot) int {
		if _, ok := number[s]; !ok {
			number[s] = len(number)
		}
		return number[s]
	}
	copied := f.copied()
	for i, n := range f.known() {
		machine, net := n.Host.BootID, n.Host.NS.Net
		switch {
		case machine == "":
			machines[i] = count(spot{alone: i + 1})
			places[i] = machines[i]
			continue
		case copied[machine]:
			machine += "\x00" + n.routable()
		}
		machines[i] = count(spot{machine: machine})
		s := spot{machine: machine, net: net}
		if net == "" {
			s.alone = i + 1
		}
		places[i] = count(s)
	}
	return machines, places
}

// copied are the boot ids that several machines have: copies of one that was
// running have its boot id until they start anew. Nodes with one boot id are on
// different machines if they have different GPUs at one PCI address, or if they
// are in one network namespace and each has an address that the other lacks.
func (f *Fleet) copied() map[string]bool {
	type slot struct{ boot, pci string }
	type space struct{ boot, net string }
	gpus, first, copied := map[slot]string{}, map[space]*Facts{}, map[string]bool{}
	for _, n := range f.known() {
		boot := n.Host.BootID
		if boot == "" {
			continue
		}
		for _, d := range n.GPU.Devices {
			s := slot{boot, d.PCI}
			if d.PCI == "" || d.UUID == "" {
				continue
			}
			if other, ok := gpus[s]; ok && other != d.UUID {
				copied[boot] = true
			}
			gpus[s] = d.UUID
		}
		s := space{boot, n.Host.NS.Net}
		if one := first[s]; one == nil {
			first[s] = n
		} else if n.Host.NS.Net != "" && n.has(n.Node.Addr) && one.has(one.Node.Addr) && !n.has(one.Node.Addr) && !one.has(n.Node.Addr) {
			copied[boot] = true
		}
	}
	return copied
}

// has reports whether one of the node's interfaces has the address.
func (n *Facts) has(addr string) bool {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return false
	}
	for _, a := range n.Network.Addresses {
		if own, err := netip.ParseAddr(a.IP); err == nil && own.WithZone("") == ip.WithZone("") {
			return true
		}
	}
	return false
}

// routable lists the node's addresses that have a meaning beyond a link.
func (n *Facts) routable() string {
	var b strings.Builder
	for _, a := range n.Network.Addresses {
		if ip, err := netip.ParseAddr(a.IP); err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			b.WriteString(ip.String() + " ")
		}
	}
	return b.String()
}
