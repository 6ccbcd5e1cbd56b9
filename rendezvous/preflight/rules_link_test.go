package preflight

import "github.com/gorun/gorun/rendezvous/preflight/netif"

func linkCases() map[string][]ruleCase {
	sockets := func(f *Fleet) { f.all(func(n *Facts) { n.set("NCCL_IB_DISABLE", "1") }) }
	return map[string][]ruleCase{
		"I05": {
			{name: "another MTU", severity: Warning, odd: []int{2}, change: func(f *Fleet) { sockets(f); f.Nodes[2].eth0().MTU = 1500 }, says: []string{"1500: eth0 10.0.0.3", "9000"}},
			{name: "another MTU with Gloo", base: cpus, severity: Warning, odd: []int{0}, change: func(f *Fleet) { f.Nodes[0].eth0().MTU = 1500 }},
			{name: "another MTU beside InfiniBand", change: func(f *Fleet) { f.Nodes[2].eth0().MTU = 1500 }},
			{name: "another MTU of an adapter", severity: Warning, odd: []int{1}, change: func(f *Fleet) { f.Nodes[1].RDMA.Devices[2].Ports[0].MTU = 2048 }, says: []string{"2048, 4096"}},
			{name: "another MTU without torch", base: cpus, change: func(f *Fleet) { f.all(func(n *Facts) { n.Libraries.Torch = "" }); f.Nodes[0].eth0().MTU = 1500 }},
			{name: "a write that stalls", nodes: 2, severity: Error, odd: []int{0}, change: func(f *Fleet) {
				ok := Probe{From: 0, To: 1, Use: UseBootstrap, Iface: "eth0", Source: "10.0.0.1", Target: "10.0.0.2:40000", Large: true, Result: Stalled}
				back := Probe{From: 1, To: 0, Use: UseBootstrap, Iface: "eth0", Source: "10.0.0.2", Target: "10.0.0.1:40000", Large: true, Result: OK}
				f.Probes = []Probe{ok, back}
			}},
		},
		"I06": {
			{name: "one address on two nodes", severity: Error, odd: []int{1, 3}, change: func(f *Fleet) { f.Nodes[3].address("eth0", "10.0.0.2", 16) }, says: []string{"10.0.0.2"}},
			{name: "with Gloo", base: cpus, severity: Error, odd: []int{1, 3}, change: func(f *Fleet) {
				f.Nodes[3].address("eth0", "10.0.0.2", 16)
				f.Nodes[3].Network.Hostname = []string{"10.0.0.2"}
			}},
			{name: "one hardware address", severity: Error, odd: []int{0, 1}, change: func(f *Fleet) { f.Nodes[1].eth0().MAC = f.Nodes[0].eth0().MAC }, says: []string{"02:00:00:00:00:00 in 10.0.0.0/16"}},
			{name: "one GUID", severity: Error, odd: []int{0, 2}, change: func(f *Fleet) { f.Nodes[2].RDMA.Devices[3].GUID = f.Nodes[0].RDMA.Devices[3].GUID }},
			{name: "containers of one machine share its adapters", change: func(f *Fleet) {
				f.Nodes[2].Host.BootID, f.Nodes[2].Host.NS.Net = f.Nodes[0].Host.BootID, "net:[7]"
				f.Nodes[2].Host.SHM, f.Nodes[2].Host.Hostname = f.Nodes[0].Host.SHM, f.Nodes[0].Host.Hostname
				f.Nodes[2].RDMA, f.Nodes[2].GPU.Devices = f.Nodes[0].RDMA, f.Nodes[0].GPU.Devices
			}},
			{name: "agents that share a network", change: func(f *Fleet) {
				f.Nodes[1].Host, f.Nodes[1].Network, f.Nodes[1].RDMA = f.Nodes[0].Host, f.Nodes[0].Network, f.Nodes[0].RDMA
			}},
		},
		"I11": {
			{name: "1 Gbit/s", severity: Warning, odd: []int{2}, change: func(f *Fleet) { sockets(f); f.Nodes[2].eth0().Speed = 1000 }, says: []string{"1 Gbit/s: eth0 10.0.0.3"}},
			{name: "most are slow", base: cpus, severity: Warning, odd: []int{1, 2, 3}, change: func(f *Fleet) {
				f.all(func(n *Facts) { n.eth0().Speed = 100 })
				f.Nodes[0].eth0().Speed = 25000
			}, says: []string{"100 Mbit/s"}},
			{name: "half as fast", base: cpus, change: func(f *Fleet) { f.Nodes[2].eth0().Speed = 12500 }},
			{name: "not known", base: cpus, change: func(f *Fleet) { f.Nodes[2].eth0().Speed = 0 }},
			{name: "beside InfiniBand", change: func(f *Fleet) { f.Nodes[2].eth0().Speed = 1000 }},
		},
		"I13": {
			{name: "two in one subnet", severity: Warning, odd: []int{1}, change: twin, says: []string{"eth0 and eth1 in 10.0.0.0/16, rp_filter 2, arp_ignore 0"}},
			{name: "and the kernel is set for it", change: func(f *Fleet) { twin(f); f.Nodes[1].Network.ARPIgnore = 1 }},
			{name: "but with strict filtering", severity: Warning, odd: []int{1}, change: func(f *Fleet) { twin(f); f.Nodes[1].Network.ARPIgnore, f.Nodes[1].Network.RPFilter = 1, 1 }},
			{name: "not known", change: func(f *Fleet) { twin(f); f.Nodes[1].Network.ARPIgnore = -1 }},
			{name: "the other is down", change: func(f *Fleet) {
				twin(f)
				f.Nodes[1].Network.Interfaces[3].Running = false
			}},
		},
	}
}

// twin gives node 1 a second interface in the subnet of the first.
func twin(f *Fleet) {
	f.Nodes[1].iface(netif.Interface{Index: 9, Name: "eth1", MTU: 9000, Up: true, Running: true, Device: true}, "10.0.9.9", 16)
}
