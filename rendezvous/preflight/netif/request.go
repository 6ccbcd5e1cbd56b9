package netif

import (
	"fmt"
	"net/netip"
	"strings"
)

// ByRequest finds this node's interface for what a user asked for: the
// interface's full name ("bond0"), or a network or an address ("10.37.8.0/24").
// It returns the interface's name on this node. NCCL (as "=name"), Gloo,
// TensorPipe and UCX all understand this name and find the wanted address under
// it.
func ByRequest(f Facts, request string) (iface string, err error) {
	request = strings.TrimSpace(request)
	prefix, ok := network(request)
	if !ok {
		return f.byName(request)
	}
	best, found := reachable{}, false
	var near string
	for _, r := range f.reachable() {
		if !prefix.Contains(r.addr) {
			continue
		}
		if r.why != "" {
			near = r.why
			continue
		}
		if !found || r.better(best) {
			best, found = r, true
		}
	}
	switch {
	case found:
		return best.pick.Iface, nil
	case near != "":
		return "", fmt.Errorf("this node's only address in %s cannot be used: %s", request, near)
	case isLoopback(prefix):
		return "", fmt.Errorf("only loopback is in %s, which no other node reaches; this node has %s", request, f.ListAddresses())
	default:
		return "", fmt.Errorf("this node has no address in %s; it has %s", request, f.ListAddresses())
	}
}

// network reads "10.37.8.0/24" or an address.
func network(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), true
	}
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(ip.WithZone(""), ip.BitLen()), true
}

// isLoopback reports whether a network is part of 127.0.0.0/8 or ::1.
func isLoopback(p netip.Prefix) bool {
	return p.Addr().IsLoopback() && (p.Addr().Is4() && p.Bits() >= 8 || p.Bits() == p.Addr().BitLen())
}

func (f Facts) byName(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "^=,/: ") {
		return "", fmt.Errorf("--iface %q is neither one interface's name nor a network such as 10.37.8.0/24", name)
	}
	if p, ok := f.firstAddress(name); ok {
		if i, known := byIndex(f)[p.Index]; known && !i.Running {
			return "", fmt.Errorf("interface %s of this node is down or has no carrier", name)
		}
		return name, nil
	}
	for _, i := range f.Interfaces {
		if i.Name == name {
			return "", fmt.Errorf("interface %s of this node has no address; it has %s", name, f.ListAddresses())
		}
	}
	return "", fmt.Errorf("this node has no interface %s; it has %s", name, f.ListAddresses())
}

// ListAddresses names the addresses that are not loopback, for messages.
func (f Facts) ListAddresses() string {
	var out []string
	for _, a := range f.Addresses {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		if len(out) == 8 {
			out = append(out, "...")
			break
		}
		out = append(out, fmt.Sprintf("%s (%s/%d)", a.Label, a.IP, a.Bits))
	}
	if len(out) == 0 {
		return "no address but its loopback's"
	}
	return strings.Join(out, ", ")
}
