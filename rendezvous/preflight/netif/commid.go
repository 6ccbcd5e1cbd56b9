package netif

import (
	"net/netip"
	"strings"
)

// commID is the effect of NCCL_COMM_ID on the choice of interfaces.
type commID struct {
	Choice
	fatal bool // NCCL stops here, or only a name server knows the address
}

// subnet returns the first address whose network contains NCCL_COMM_ID's
// address. The family filter, RUNNING and the list of names do not matter here.
//
// Source: ncclSocketGetAddrFromString, ncclFindInterfaceMatchSubnet.
func (s search) subnet(id string) commID {
	ip, known, ok := commAddr(id)
	switch {
	case !ok:
		return commID{Choice{Why: "NCCL_COMM_ID=" + id + " is not <IPv4 or host name>:<port> or [<IPv6>]:<port>"}, true}
	case !known:
		return commID{Choice{Unknown: true, Why: "NCCL_COMM_ID=" + id + " names a host, and its subnet decides"}, true}
	}
	for _, a := range s.facts.Addresses {
		ifaceIP, err := netip.ParseAddr(a.IP)
		if err != nil || ifaceIP.Is4() != ip.Is4() {
			continue
		}
		if n, err := ifaceIP.Prefix(a.Bits); err == nil && n.Contains(ip.WithZone("")) {
			return commID{Choice: Choice{
				Picked: []Pick{a.pick()},
				Why:    "NCCL_COMM_ID=" + id + " is in the subnet of " + a.Label + ", which decides instead of NCCL_SOCKET_IFNAME",
			}}
		}
	}
	return commID{Choice: Choice{Why: "NCCL_COMM_ID=" + id + " is in no subnet of this node's"}}
}

// commAddr reads NCCL_COMM_ID; known is false for a host name.
func commAddr(id string) (ip netip.Addr, known, ok bool) {
	if len(id) < 2 {
		return ip, false, false
	}
	if rest, v6 := strings.CutPrefix(id, "["); v6 {
		text, _, closed := strings.Cut(rest, "]")
		ip, err := netip.ParseAddr(text)
		return ip, err == nil, closed && err == nil && !ip.Is4()
	}
	l := ParseList(id, 1)
	if len(l.Entries) == 0 {
		return ip, false, false
	}
	ip, err := netip.ParseAddr(l.Entries[0].Name)
	return ip, err == nil, true
}
