package netif

import (
	"net/netip"
	"strings"
)

// String returns "eth0 10.0.0.1".
func (p Pick) String() string { return p.Iface + " " + p.IP }

// Subnet returns the network that the address is in; "" for an address that
// stands for itself, as a pod's does.
func (p Pick) Subnet() string {
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

// LocalOnly says why other nodes cannot reach the address, "" if they may.
func (p Pick) LocalOnly() string {
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

// Interface returns the interface with this index, nil if there is none.
func (f *Facts) Interface(index int) *Interface {
	for i := range f.Interfaces {
		if f.Interfaces[i].Index == index {
			return &f.Interfaces[i]
		}
	}
	return nil
}

// Named returns the interface of a name or of an address's label, nil if there
// is none.
func (f *Facts) Named(name string) *Interface {
	base, _, _ := strings.Cut(name, ":") // a label is the interface's name and a suffix
	for i := range f.Interfaces {
		if f.Interfaces[i].Name == base {
			return &f.Interfaces[i]
		}
	}
	return nil
}
