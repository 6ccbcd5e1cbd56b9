// Package netif reads a node's network interfaces. From them and the
// environment that workers will have, it reproduces the choice of interfaces
// that NCCL and Gloo make.
//
// Invariants: NCCL, Bootstrap, Gloo, Suggest and ByRequest are pure. Gather
// reads netlink, /sys, /proc and /etc/hosts, and opens no socket but netlink's
// unless its Options ask for the name server.
package netif

// Facts is what is known of the node's network.
type Facts struct {
	Interfaces []Interface `json:"interfaces,omitempty"`  // by index
	Addresses  []Address   `json:"addresses,omitempty"`   // in getifaddrs' order: IPv4 by interface index, then IPv6
	Host       string      `json:"host,omitempty"`        // gethostname
	Hostname   []string    `json:"hostname,omitempty"`    // addresses that the host name resolves to, in the resolver's order
	HostFrom   string      `json:"host_from,omitempty"`   // the source that resolved it: "/etc/hosts", "myhostname", "name server"
	HostSilent bool        `json:"host_silent,omitempty"` // the name server that may know it gives no answer
	HostKnown  bool        `json:"host_known,omitempty"`  // the resolver's answer is known, even if the answer is that there is no address
	HostError  string      `json:"hostname_error,omitempty"`
	Namespace  string      `json:"namespace,omitempty"` // readlink /proc/self/ns/net
	RPFilter   int         `json:"rp_filter"`           // net.ipv4.conf.all.rp_filter, -1 unknown
	ARPIgnore  int         `json:"arp_ignore"`          // net.ipv4.conf.all.arp_ignore, -1 unknown
	PortFirst  int         `json:"port_first"`          // net.ipv4.ip_local_port_range; 0 unknown
	PortLast   int         `json:"port_last"`
	Reserved   [][2]int    `json:"ports_reserved,omitempty"` // net.ipv4.ip_local_reserved_ports: ports that no program is given, first and last of each part
}

// Interface is one link.
type Interface struct {
	Index    int      `json:"index"`
	Name     string   `json:"name"`
	MTU      int      `json:"mtu"`
	MAC      string   `json:"mac,omitempty"`
	Up       bool     `json:"up"`              // IFF_UP
	Running  bool     `json:"running"`         // IFF_RUNNING: has a carrier
	Loopback bool     `json:"loopback"`        // IFF_LOOPBACK
	Kind     string   `json:"kind,omitempty"`  // IFLA_INFO_KIND: "bridge", "veth", "bond", "tun", "vlan", ...; "" for hardware
	Speed    int      `json:"speed,omitempty"` // Mbit/s, 0 unknown
	Slaves   []string `json:"slaves,omitempty"`
	Device   bool     `json:"device"` // /sys/class/net/X/device exists: hardware or virtio
}

// Address is one address of an interface.
type Address struct {
	Index int    `json:"index"` // of the interface
	Label string `json:"label"` // IFA_LABEL of IPv4 ("eth0:1"), else the interface's name: the name that NCCL compares
	IP    string `json:"ip"`
	Bits  int    `json:"bits"`  // length of the prefix
	Scope string `json:"scope"` // "global", "link", "host", "site"
}

// Choice is the choice of addresses that a library would make.
type Choice struct {
	Picked  []Pick   `json:"picked"`            // in order; empty: the library fails
	Why     string   `json:"why"`               // the rule that decided, for messages: "NCCL_SOCKET_IFNAME=^docker0 excludes only names that begin with docker0"
	Down    []string `json:"down,omitempty"`    // names that the rule accepts but that are not RUNNING: NCCL >= 2.28.3 leaves them out, an older one picks them
	Unknown bool     `json:"unknown,omitempty"` // the facts do not decide it; Why says what is missing, Picked is empty
}

// Pick is one chosen address.
type Pick struct {
	Iface string `json:"iface"` // label or name, as the library prints it
	Index int    `json:"index"`
	IP    string `json:"ip"`
	Bits  int    `json:"bits"`
}
