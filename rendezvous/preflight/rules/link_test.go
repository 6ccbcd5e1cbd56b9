package rules

import (
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func linkCases() map[string][]ruleCase {
	sockets := func(f *preflight.Fleet) {
		everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_IB_DISABLE", "1") })
	}
	return map[string][]ruleCase{
		"I05": {
			{name: "another MTU", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) { sockets(f); eth0(&f.Nodes[2]).MTU = 1500 }, says: []string{"1500: eth0 10.0.0.3", "9000"}},
			{name: "another MTU with Gloo", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { eth0(&f.Nodes[0]).MTU = 1500 }},
			{name: "another MTU beside InfiniBand", change: func(f *preflight.Fleet) { eth0(&f.Nodes[2]).MTU = 1500 }},
			{name: "another MTU of an adapter", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].RDMA.Devices[2].Ports[0].MTU = 2048 }, says: []string{"2048, 4096"}},
			{name: "another MTU without torch", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Libraries.Torch = "" })
				eth0(&f.Nodes[0]).MTU = 1500
			}},
			{name: "a write that stalls", nodes: 2, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				ok := preflight.Probe{From: 0, To: 1, Use: preflight.UseBootstrap, Iface: "eth0", Source: "10.0.0.1", Target: "10.0.0.2:40000", Large: true, Result: preflight.Stalled}
				back := preflight.Probe{From: 1, To: 0, Use: preflight.UseBootstrap, Iface: "eth0", Source: "10.0.0.2", Target: "10.0.0.1:40000", Large: true, Result: preflight.OK}
				f.Probes = []preflight.Probe{ok, back}
			}},
		},
		"I06": {
			{name: "one address on two nodes", severity: preflight.Error, odd: []int{1, 3}, change: func(f *preflight.Fleet) { address(&f.Nodes[3], "eth0", "10.0.0.2", 16) }, says: []string{"10.0.0.2"}},
			{name: "with Gloo", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1, 3}, change: func(f *preflight.Fleet) {
				address(&f.Nodes[3], "eth0", "10.0.0.2", 16)
				f.Nodes[3].Network.Hostname = []string{"10.0.0.2"}
			}},
			{name: "one hardware address", severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) { eth0(&f.Nodes[1]).MAC = eth0(&f.Nodes[0]).MAC }, says: []string{"02:00:00:00:00:00 in 10.0.0.0/16"}},
			{name: "one GUID", severity: preflight.Error, odd: []int{0, 2}, change: func(f *preflight.Fleet) { f.Nodes[2].RDMA.Devices[3].GUID = f.Nodes[0].RDMA.Devices[3].GUID }},
			{name: "containers of one machine share its adapters", change: func(f *preflight.Fleet) {
				f.Nodes[2].Host.BootID, f.Nodes[2].Host.NS.Net = f.Nodes[0].Host.BootID, "net:[7]"
				f.Nodes[2].Host.SHM, f.Nodes[2].Host.Hostname = f.Nodes[0].Host.SHM, f.Nodes[0].Host.Hostname
				f.Nodes[2].RDMA, f.Nodes[2].GPU.Devices = f.Nodes[0].RDMA, f.Nodes[0].GPU.Devices
			}},
			{name: "agents that share a network", change: func(f *preflight.Fleet) {
				f.Nodes[1].Host, f.Nodes[1].Network, f.Nodes[1].RDMA = f.Nodes[0].Host, f.Nodes[0].Network, f.Nodes[0].RDMA
			}},
		},
		"I11": {
			{name: "1 Gbit/s", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) { sockets(f); eth0(&f.Nodes[2]).Speed = 1000 }, says: []string{"1 Gbit/s: eth0 10.0.0.3"}},
			{name: "most are slow", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { eth0(n).Speed = 100 })
				eth0(&f.Nodes[0]).Speed = 25000
			}, says: []string{"100 Mbit/s"}},
			{name: "half as fast", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { eth0(&f.Nodes[2]).Speed = 12500 }},
			{name: "not known", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { eth0(&f.Nodes[2]).Speed = 0 }},
			{name: "beside InfiniBand", change: func(f *preflight.Fleet) { eth0(&f.Nodes[2]).Speed = 1000 }},
		},
		"I13": {
			{name: "two in one subnet", severity: preflight.Warning, odd: []int{1}, change: addSecondInterface, says: []string{"eth0 and eth1 in 10.0.0.0/16, rp_filter 2, arp_ignore 0"}},
			{name: "and the kernel is set for it", change: func(f *preflight.Fleet) { addSecondInterface(f); f.Nodes[1].Network.ARPIgnore = 1 }},
			{name: "but with strict filtering", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				addSecondInterface(f)
				f.Nodes[1].Network.ARPIgnore, f.Nodes[1].Network.RPFilter = 1, 1
			}},
			{name: "not known", change: func(f *preflight.Fleet) { addSecondInterface(f); f.Nodes[1].Network.ARPIgnore = -1 }},
			{name: "the other is down", change: func(f *preflight.Fleet) {
				addSecondInterface(f)
				f.Nodes[1].Network.Interfaces[3].Running = false
			}},
		},
	}
}

// addSecondInterface gives node 1 a second interface in the subnet of the
// first.
func addSecondInterface(f *preflight.Fleet) {
	iface(&f.Nodes[1], netif.Interface{Index: 9, Name: "eth1", MTU: 9000, Up: true, Running: true, Device: true}, "10.0.9.9", 16)
}
