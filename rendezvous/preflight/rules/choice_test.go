package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

// address gives a node's interface another address.
func address(n *preflight.Facts, label, ip string, bits int) {
	for i := range n.Network.Addresses {
		if a := &n.Network.Addresses[i]; a.Label == label {
			a.IP, a.Bits = ip, bits
			return
		}
	}
}

// dropAddresses removes an interface's addresses.
func dropAddresses(n *preflight.Facts, labels ...string) {
	var left []netif.Address
	for _, a := range n.Network.Addresses {
		keep := true
		for _, l := range labels {
			keep = keep && a.Label != l
		}
		if keep {
			left = append(left, a)
		}
	}
	n.Network.Addresses = left
}

// iface adds an interface in front of the interfaces that NCCL avoids.
func iface(n *preflight.Facts, i netif.Interface, ip string, bits int) {
	n.Network.Interfaces = append(n.Network.Interfaces, i)
	a := netif.Address{Index: i.Index, Label: i.Name, IP: ip, Bits: bits, Scope: "global"}
	n.Network.Addresses = append([]netif.Address{n.Network.Addresses[0], n.Network.Addresses[1], a}, n.Network.Addresses[2:]...)
}

func eth0(n *preflight.Facts) *netif.Interface { return &n.Network.Interfaces[1] }

func choiceCases() map[string][]ruleCase {
	everywhere := func(name, value string) func(*preflight.Fleet) {
		return func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, name, value) }) }
	}
	second := netif.Interface{Index: 9, Name: "eth1", MTU: 9000, Up: true, Running: true, Device: true, Speed: 25000}
	return map[string][]ruleCase{
		"I01": {
			{
				name: "lo, because of an exclude list", severity: preflight.Error, odd: []int{0, 1, 2, 3}, change: everywhere("NCCL_SOCKET_IFNAME", "^docker0"),
				says: []string{"lo 127.0.0.1 (loopback): NCCL_SOCKET_IFNAME=^docker0 excludes only", "export NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0", "gorun --iface 10.0.0.0/16"},
			},
			{name: "a name that one node lacks", severity: preflight.Error, odd: []int{2}, says: []string{"nothing: NCCL_SOCKET_IFNAME=bond0", "export NCCL_SOCKET_IFNAME==bond0", "export NCCL_SOCKET_IFNAME==eth0"}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					preflighttest.Set(n, "NCCL_SOCKET_IFNAME", "bond0")
					rename(n, "eth0", "bond0")
				})
				rename(&f.Nodes[2], "bond0", "eth0")
			}},
			{
				name: "lo, because of a conf file", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
					preflighttest.SetFrom(&f.Nodes[1], "NCCL_SOCKET_IFNAME", "lo", "/etc/nccl.conf")
				},
				says: []string{"lo 127.0.0.1 (loopback): NCCL_SOCKET_IFNAME=lo (from /etc/nccl.conf)"},
			},
			{name: "another subnet, because of a conf file", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) {
				iface(&f.Nodes[3], second, "10.1.0.4", 16)
				preflighttest.SetFrom(&f.Nodes[3], "NCCL_SOCKET_IFNAME", "eth1", "/etc/nccl.conf")
			}, says: []string{"eth1 10.1.0.4; NCCL_SOCKET_IFNAME=eth1 (from /etc/nccl.conf)"}},
			{name: "link-local", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { address(&f.Nodes[1], "eth0", "169.254.3.4", 16) }, says: []string{"eth0 169.254.3.4 (link-local)"}},
			{name: "machines joined by a cable", change: func(f *preflight.Fleet) {
				for i := range f.Nodes {
					address(&f.Nodes[i], "eth0", fmt.Sprintf("169.254.3.%d", i+1), 16)
				}
			}},
			{name: "IPv6 on one node", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				n := &f.Nodes[1]
				dropAddresses(n, "eth0", "docker0")
				n.Network.Addresses = append(n.Network.Addresses, netif.Address{Index: 2, Label: "eth0", IP: "2001:db8::2", Bits: 64})
				preflighttest.Set(n, "NCCL_SOCKET_IFNAME", "eth")
			}, says: []string{"IPv6: eth0 2001:db8::2", "IPv4"}},
			{name: "a node with IPv6 alone, which the others have, too", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				for i := range f.Nodes {
					ip := fmt.Sprintf("2001:db8::%x", i+1)
					f.Nodes[i].Network.Addresses = slices.Insert(f.Nodes[i].Network.Addresses, 3, netif.Address{Index: 2, Label: "eth0", IP: ip, Bits: 64, Scope: "global"})
				}
				f.Nodes[1].Network.Addresses = slices.DeleteFunc(f.Nodes[1].Network.Addresses, func(a netif.Address) bool {
					return a.Label == "eth0" && !strings.Contains(a.IP, "2001:")
				})
			}, says: []string{"IPv6: eth0 2001:db8::2", "gorun --iface 2001:db8::/64 -x NCCL_SOCKET_FAMILY=AF_INET6 ..."}},
			{name: "another subnet", nodes: 2, severity: preflight.Warning, odd: nil, change: func(f *preflight.Fleet) {
				address(&f.Nodes[0], "eth0", "10.37.8.72", 24)
				address(&f.Nodes[1], "eth0", "10.37.12.78", 24)
			}, says: []string{"10.37.8.0/24: eth0 10.37.8.72", "10.37.12.0/24: eth0 10.37.12.78", "there is no network that all nodes share"}},
			{name: "another subnet, and there is a common one", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) {
				address(&f.Nodes[3], "eth0", "192.168.7.3", 24)
				iface(&f.Nodes[3], second, "10.0.0.4", 16)
			}, says: []string{"192.168.7.0/24", "on node4: export NCCL_SOCKET_IFNAME==eth1"}},
			{name: "another subnet that the probes reached", change: func(f *preflight.Fleet) {
				address(&f.Nodes[3], "eth0", "192.168.7.3", 24)
				f.Probes = []preflight.Probe{{From: 0, To: 3, Use: preflight.UseBootstrap, Result: preflight.OK}}
			}},
			{name: "another subnet that a probe did not reach", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) {
				address(&f.Nodes[3], "eth0", "192.168.7.3", 24)
				f.Probes = []preflight.Probe{{From: 0, To: 1, Use: preflight.UseBootstrap, Result: preflight.OK}, {From: 0, To: 3, Use: preflight.UseBootstrap, Result: preflight.TimedOut}}
			}},
			{name: "pods with addresses of their own", change: func(f *preflight.Fleet) {
				for i := range f.Nodes {
					address(&f.Nodes[i], "eth0", fmt.Sprintf("10.244.%d.7", i), 32)
				}
			}},
			{name: "more interfaces for data on one node", severity: preflight.Warning, odd: []int{0}, says: []string{"2 interfaces: eth0 10.0.0.1, eth1 10.1.0.1", "gorun --iface 10.0.0.0/16"}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_IB_DISABLE", "1") })
				iface(&f.Nodes[0], second, "10.1.0.1", 16)
			}},
			{name: "more interfaces for data, and eth0 is not the one", severity: preflight.Warning, odd: []int{0}, says: []string{"export NCCL_SOCKET_IFNAME==ens1 GLOO_SOCKET_IFNAME=ens1"}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_IB_DISABLE", "1"); rename(n, "eth0", "ens1") })
				iface(&f.Nodes[0], second, "10.1.0.1", 16)
			}},
			{name: "more interfaces beside InfiniBand", change: func(f *preflight.Fleet) { iface(&f.Nodes[0], second, "10.1.0.1", 16) }},
			{name: "lo on this machine", change: func(f *preflight.Fleet) {
				preflighttest.OnOneMachine(f)
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_SOCKET_IFNAME", "lo") })
			}},
			{name: "no such interface on a single node", nodes: 1, severity: preflight.Error, odd: []int{0}, change: everywhere("NCCL_SOCKET_IFNAME", "bond7"), says: []string{"nothing: NCCL_SOCKET_IFNAME=bond7"}},
			{name: "lo on a single node", nodes: 1, change: everywhere("NCCL_SOCKET_IFNAME", "lo")},
			{name: "lo without GPUs", base: preflighttest.CPUs, change: everywhere("NCCL_SOCKET_IFNAME", "lo")},
			{name: "two containers on one machine", nodes: 2, severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Host.BootID = f.Nodes[0].Host.BootID
				f.Nodes[1].Host.NS.Net = "net:[7]"
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_SOCKET_IFNAME", "lo") })
			}},
			{name: "interfaces not known", change: func(f *preflight.Fleet) { f.Nodes[1].Network = netif.Facts{} }},
		},
		"I09": {
			{name: "IPv6 is forced on IPv4 nodes", severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					preflighttest.Set(n, "NCCL_SOCKET_FAMILY", "AF_INET6")
					preflighttest.Set(n, "NCCL_SOCKET_IFNAME", "=eth0")
				})
				for i := range 2 {
					ip := f.Nodes[i].Node.Addr
					dropAddresses(&f.Nodes[i], "eth0")
					f.Nodes[i].Network.Addresses = append(f.Nodes[i].Network.Addresses, netif.Address{Index: 2, Label: "eth0", IP: ip, Bits: 16})
				}
			}, says: []string{"NCCL_SOCKET_FAMILY=AF_INET6 leaves only IPv6"}},
			{name: "IPv4 is forced, and there", change: everywhere("NCCL_SOCKET_FAMILY", "AF_INET")},
		},
		"I10": {
			{name: "a bridge", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				preflighttest.Set(&f.Nodes[1], "NCCL_SOCKET_IFNAME", "docker0")
				f.Nodes[1].Network.Interfaces[2].Running = true
			}, says: []string{"docker0 (bridge)"}},
			{name: "a bridge beside eth0 that carries data", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_IB_DISABLE", "1") })
				iface(&f.Nodes[2], netif.Interface{Index: 9, Name: "br-4711", Kind: "bridge", Up: true, Running: true}, "172.21.0.1", 16)
			}, says: []string{"br-4711 (bridge)"}},
			{name: "a bridge beside eth0 with InfiniBand", change: func(f *preflight.Fleet) {
				iface(&f.Nodes[2], netif.Interface{Index: 9, Name: "br-4711", Kind: "bridge", Up: true, Running: true}, "172.21.0.1", 16)
			}},
			{name: "a container's own veth", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { eth0(n).Kind, eth0(n).Device = "veth", false })
			}},
			{name: "a tunnel with Gloo", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { eth0(n).Kind, eth0(n).Device = "wireguard", false })
			}},
		},
		"I12": {
			{name: "the named interface has no carrier", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_SOCKET_IFNAME", "eth") })
				down := second
				down.Running = false
				iface(&f.Nodes[3], down, "10.1.0.4", 16)
			}, says: []string{"eth1 has no carrier"}},
			{name: "a slave is down", severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) {
				n := &f.Nodes[0]
				eth0(n).Kind, eth0(n).Slaves = "bond", []string{"ens1", "ens2"}
				n.Network.Interfaces = append(n.Network.Interfaces, netif.Interface{Index: 10, Name: "ens1", Running: true}, netif.Interface{Index: 11, Name: "ens2"})
			}, says: []string{"eth0: its slave ens2 has no carrier"}},
			{name: "docker0 has no containers", change: func(*preflight.Fleet) {}},
			{name: "a bridge without containers", change: func(f *preflight.Fleet) {
				iface(&f.Nodes[2], netif.Interface{Index: 9, Name: "br-4711", Kind: "bridge", Up: true}, "172.21.0.1", 16)
			}},
		},
		"I07": {
			{
				name: "127.0.1.1 in /etc/hosts", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].Network.Hostname = []string{"127.0.1.1"} },
				says: []string{"127.0.1.1 (loopback)", "GLOO_SOCKET_IFNAME=eth0"},
			},
			{name: "no address", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Network.Hostname = nil }, says: []string{"falls back to 127.0.0.1"}},
			{name: "not known", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[2].Network.Hostname, f.Nodes[2].Network.HostKnown = nil, false }},
			{name: "no name server answers", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				n := &f.Nodes[2].Network
				n.Hostname, n.HostKnown, n.HostSilent, n.HostError = nil, false, true, "asking for 500ms for node3: i/o timeout"
			}, says: []string{"host name node3: asking for 500ms"}},
			{name: "an interface is named", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.Network.Hostname = []string{"127.0.1.1"}
					preflighttest.Set(n, "GLOO_SOCKET_IFNAME", "eth0")
				})
			}},
			{name: "with GPUs", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Network.Hostname = []string{"127.0.1.1"} })
			}},
			{name: "without torch", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Network.Hostname = []string{"127.0.1.1"}; n.Libraries.Torch = "" })
			}},
			{name: "on this machine", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				preflighttest.OnOneMachine(f)
				everyNode(f, func(n *preflight.Facts) { n.Network.Hostname = []string{"127.0.1.1"} })
			}},
		},
		"I08": {
			{name: "a prefix", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{0, 1, 2, 3}, change: everywhere("GLOO_SOCKET_IFNAME", "eth"), says: []string{"GLOO_SOCKET_IFNAME=eth: there are lo, eth0, docker0"}},
			{name: "a name that one node lacks", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "TP_SOCKET_IFNAME", "eth0") })
				dropAddresses(&f.Nodes[1], "eth0")
			}},
			{name: "other numbers of names", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "GLOO_SOCKET_IFNAME", "eth0") })
				f.Nodes[3].Settings = nil
				preflighttest.Set(&f.Nodes[3], "GLOO_SOCKET_IFNAME", "eth0,docker0")
			}, says: []string{"2 interfaces"}},
			{name: "the full name", base: preflighttest.CPUs, change: everywhere("GLOO_SOCKET_IFNAME", "eth0")},
			{name: "on one node", base: preflighttest.CPUs, nodes: 1, change: everywhere("GLOO_SOCKET_IFNAME", "eth")},
		},
	}
}

// rename gives an interface another name.
func rename(n *preflight.Facts, from, to string) {
	for i := range n.Network.Interfaces {
		if n.Network.Interfaces[i].Name == from {
			n.Network.Interfaces[i].Name = to
		}
	}
	for i := range n.Network.Addresses {
		if n.Network.Addresses[i].Label == from {
			n.Network.Addresses[i].Label = to
		}
	}
}
