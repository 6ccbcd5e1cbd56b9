package netif

import (
	"net/netip"
	"strings"
)

// reachable is an address by which other nodes might reach this node.
type reachable struct {
	addr  netip.Addr
	pick  Pick
	mac   string
	class class
	speed int    // Mbit/s, 0 unknown
	why   string // why libraries cannot be made to use it; "" if they can
}

// class ranks how well an interface probably reaches other nodes, the best
// last.
type class int

const (
	inner  class = iota // a bridge or similar: ends on this machine
	tunnel              // a VPN: reaches others, slowly
	plain               // neither: mostly a container's own end of a veth
	wired               // hardware, or an interface that stands for it
)

// better reports whether r is preferable to o.
func (r reachable) better(o reachable) bool {
	switch {
	case r.class != o.class:
		return r.class > o.class
	case r.speed != o.speed:
		return r.speed > o.speed
	default:
		return r.addr.Is4() && !o.addr.Is4()
	}
}

// reachable lists the addresses that are neither loopback nor link-local, in
// getifaddrs' order.
func (f Facts) reachable() []reachable {
	links := byIndex(f)
	type family struct {
		label string
		v4    bool
	}
	seen := map[family]string{}
	var out []reachable
	for _, a := range f.Addresses {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil {
			continue
		}
		first := seen[family{a.Label, ip.Is4()}]
		if first == "" {
			seen[family{a.Label, ip.Is4()}] = a.IP
		}
		if !ip.IsGlobalUnicast() {
			continue
		}
		i := links[a.Index]
		r := reachable{addr: ip, pick: a.pick(), mac: i.MAC, speed: i.Speed, class: f.class(i)}
		switch {
		case strings.Contains(a.Label, ":"):
			r.why = a.IP + " has the label " + a.Label + ", which NCCL_SOCKET_IFNAME cannot name"
		case first != "":
			r.why = a.IP + " is not the first address of " + a.Label + ", and libraries take the first, " + first
		case !i.Running:
			r.why = a.Label + " is down or has no carrier"
		}
		out = append(out, r)
	}
	return out
}

func (f Facts) class(i Interface) class {
	switch f.Virtual(i) {
	case "":
		if f.hardware(i) {
			return wired
		}
		return plain
	case "tun", "wireguard", "vxlan", "geneve", "gre", "ipip":
		return tunnel
	default:
		return inner
	}
}
