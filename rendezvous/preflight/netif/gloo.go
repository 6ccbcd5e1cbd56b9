package netif

import (
	"fmt"
	"net/netip"
	"strings"
)

// Gloo reproduces the addresses that torch's Gloo binds. These are the
// addresses of the exact names in GLOO_SOCKET_IFNAME, one device each; else the
// first address of the host name that can be bound here; else 127.0.0.1.
//
// Source: torch/csrc/distributed/c10d/init.cpp and ProcessGroupGloo.cpp;
// gloo/transport/tcp/device.cc.
func Gloo(f Facts, env func(string) string) Choice {
	if len(f.Addresses) == 0 {
		return Choice{Unknown: true, Why: "the node's interfaces are not known"}
	}
	if v := env("GLOO_SOCKET_IFNAME"); len(v) > 1 {
		return glooNames(f, v)
	}
	if !f.HostKnown {
		why := "GLOO_SOCKET_IFNAME is not set, and it is not known what the host name " + f.Host + " resolves to"
		if f.HostError != "" {
			why += ": " + f.HostError
		}
		return Choice{Unknown: true, Why: why}
	}
	for _, text := range f.Hostname {
		if p, ok := f.bindable(text); ok {
			return Choice{Picked: []Pick{p}, Why: fmt.Sprintf("GLOO_SOCKET_IFNAME is not set: Gloo takes what the host name %s resolves to, %s (%s)", f.Host, text, f.HostFrom)}
		}
	}
	why := "the host name " + f.Host + " resolves to nothing"
	if len(f.Hostname) > 0 {
		why = fmt.Sprintf("the host name %s resolves to %s (%s), which is not an address of this node", f.Host, strings.Join(f.Hostname, ", "), f.HostFrom)
	}
	c := Choice{Why: "GLOO_SOCKET_IFNAME is not set, and " + why + ": torch falls back to 127.0.0.1"}
	if p, ok := f.bindable("127.0.0.1"); ok {
		c.Picked = []Pick{p}
	}
	return c
}

func glooNames(f Facts, list string) Choice {
	c := Choice{Why: "GLOO_SOCKET_IFNAME=" + list}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		p, ok := f.firstAddress(name)
		if !ok {
			return Choice{Why: fmt.Sprintf("GLOO_SOCKET_IFNAME=%s: no interface with an address is called exactly %q; Gloo takes full names, no prefixes and no ^ or =; the node has %s",
				list, name, f.ListLabels())}
		}
		if c.Picked = append(c.Picked, p); len(c.Picked) == maxInterfaces {
			break
		}
	}
	return c
}

// firstAddress returns the first address of a name in getifaddrs' order, which
// a library takes for that name.
func (f Facts) firstAddress(name string) (Pick, bool) {
	for _, a := range f.Addresses {
		if a.Label == name {
			return a.pick(), true
		}
	}
	return Pick{}, false
}

// bindable returns the interface of an address that bind(2) accepts here: an
// address of the node, or any address in 127.0.0.0/8 if there is an IPv4
// loopback.
func (f Facts) bindable(text string) (Pick, bool) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return Pick{}, false
	}
	for _, a := range f.Addresses {
		ifaceIP, err := netip.ParseAddr(a.IP)
		if err != nil {
			continue
		}
		if ifaceIP == ip.WithZone("") || ifaceIP.Is4() && ifaceIP.IsLoopback() && ip.Is4() && ip.IsLoopback() {
			p := a.pick()
			p.IP = text
			return p, true
		}
	}
	return Pick{}, false
}
