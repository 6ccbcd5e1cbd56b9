package netif

import "strings"

// Virtual says what keeps other nodes from reaching an interface by itself:
// "bridge", "veth", "tun", ...; "" for hardware and interfaces that stand for
// it (bond, VLAN, macvlan, a container's own end of a veth pair). A bridge's
// slaves decide: a bridge with a hardware slave is the node's way out. Rule I10
// warns of virtual interfaces.
func (f Facts) Virtual(i Interface) string {
	if i.Loopback {
		return "loopback"
	}
	if i.Device {
		return ""
	}
	switch i.Kind {
	case "bridge", "openvswitch":
		for _, slave := range i.Slaves {
			for _, s := range f.Interfaces {
				if s.Name == slave && f.hardware(s) {
					return ""
				}
			}
		}
		return "bridge"
	case "tun", "wireguard", "ipip", "sit", "gre", "gretap", "ip6tnl", "ip6gre", "vxlan", "geneve", "vti", "vti6", "dummy", "ifb":
		return i.Kind
	case "bond", "team", "vlan", "macvlan", "ipvlan", "macsec", "ipoib":
		return ""
	}
	for _, p := range []struct{ prefix, what string }{
		{"docker", "bridge"},
		{"br-", "bridge"},
		{"virbr", "bridge"},
		{"cni", "bridge"},
		{"lxcbr", "bridge"},
		{"podman", "bridge"},
		{"veth", "veth"},
		{"cali", "veth"},
		{"lxc", "veth"},
		{"vnet", "tun"},
		{"flannel", "vxlan"},
		{"cilium_", "veth"},
		{"weave", "bridge"},
		{"tun", "tun"},
		{"tap", "tun"},
		{"wg", "wireguard"},
		{"tailscale", "tun"},
		{"zt", "tun"},
	} {
		if strings.HasPrefix(i.Name, p.prefix) {
			return p.what
		}
	}
	return ""
}

// hardware reports whether a link is a device, or stands for one.
func (f Facts) hardware(i Interface) bool {
	switch i.Kind {
	case "bond", "team", "vlan":
		return true
	}
	return i.Device
}
