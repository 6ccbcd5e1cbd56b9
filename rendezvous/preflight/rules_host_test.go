package preflight

import (
	"time"

	"github.com/gorun/gorun/rendezvous/preflight/host"
)

func hostCases() map[string][]ruleCase {
	// beside puts node 1 into a container on the machine of node 0.
	beside := func(f *Fleet) {
		f.Nodes[1].Host.BootID = f.Nodes[0].Host.BootID
		f.Nodes[1].Host.NS.Net = "net:[7]"
		f.Nodes[1].RDMA = f.Nodes[0].RDMA
		f.Nodes[1].GPU.Devices = f.Nodes[0].GPU.Devices
	}
	// copied makes node 1 a copy of the running node 0, with GPUs and addresses of its own.
	copied := func(f *Fleet) {
		f.Nodes[1].Host.BootID, f.Nodes[1].Host.Hostname = f.Nodes[0].Host.BootID, f.Nodes[0].Host.Hostname
	}
	return map[string][]ruleCase{
		"H01": {
			{name: "one id on two machines", severity: Error, odd: []int{1, 3}, change: func(f *Fleet) { f.Nodes[1].set("NCCL_HOSTID", "a"); f.Nodes[3].set("NCCL_HOSTID", "a") }, says: []string{"NCCL_HOSTID=a", "unset NCCL_HOSTID"}},
			{name: "one name, two /dev/shm", severity: Warning, odd: []int{0, 1}, change: func(f *Fleet) {
				beside(f)
				f.Nodes[1].Host.Hostname, f.Nodes[1].Host.SHM.Dev = f.Nodes[0].Host.Hostname, 99
			}, says: []string{"host node1, /dev/shm on device 24", "host node1, /dev/shm on device 99"}},
			{name: "two names on one machine", severity: Warning, odd: []int{0, 1}, change: beside, says: []string{"takes them for several hosts"}},
			{name: "copies of a machine", severity: Error, odd: []int{0, 1}, change: copied, says: []string{"host name node1, boot id boot0", "export NCCL_HOSTID=$("}},
			{name: "copies of a machine that say only their addresses", severity: Error, odd: []int{0, 1}, change: func(f *Fleet) {
				copied(f)
				f.all(func(n *Facts) { n.GPU.Devices = nil })
			}},
			{name: "copies of a machine in containers", severity: Error, odd: []int{0, 1}, change: func(f *Fleet) {
				copied(f)
				f.Nodes[1].Host.NS.Net = "net:[7]"
			}},
			{name: "copies with ids of their own", change: func(f *Fleet) {
				copied(f)
				f.all(func(n *Facts) { n.set("NCCL_HOSTID", n.Node.ID) })
			}},
			{name: "copies with names of their own", change: func(f *Fleet) { f.Nodes[1].Host.BootID = f.Nodes[0].Host.BootID }},
			{name: "united on purpose", change: func(f *Fleet) { beside(f); f.Nodes[0].set("NCCL_HOSTID", "a"); f.Nodes[1].set("NCCL_HOSTID", "a") }},
			{name: "ids of their own", change: func(f *Fleet) { f.all(func(n *Facts) { n.set("NCCL_HOSTID", n.Node.ID) }) }},
			{name: "without GPUs", base: cpus, change: beside},
		},
		"H02": {
			{name: "behind and ahead", base: cpus, severity: Warning, odd: []int{1, 3}, change: func(f *Fleet) {
				f.Nodes[1].Node.Offset = -int64(2340 * time.Millisecond)
				f.Nodes[3].Node.Offset = int64(150 * time.Millisecond)
			}, says: []string{"2s behind", "200ms ahead"}},
			{name: "no clock has that", base: cpus, change: func(f *Fleet) { f.Nodes[1].Node.Offset = -1 << 63 }},
			{name: "close enough", base: cpus, change: func(f *Fleet) { f.Nodes[1].Node.Offset = int64(100 * time.Millisecond) }},
		},
		"H03": {
			{name: "architectures", severity: Warning, odd: []int{1}, change: func(f *Fleet) { f.Nodes[1].Host.Arch = "aarch64" }, says: []string{"aarch64"}},
			{name: "architectures that NCCL cannot mix", severity: Error, odd: []int{1}, change: func(f *Fleet) {
				f.all(func(n *Facts) { n.nccl("2.23.4", 22304) })
				f.Nodes[1].Host.Arch = "aarch64"
			}, says: []string{"NCCL 2.23.4 cannot mix"}},
			{name: "vendors", severity: Warning, odd: []int{2}, change: func(f *Fleet) { f.Nodes[2].Host.CPUVendor = "AuthenticAMD" }},
			{name: "vendors with which NCCL hangs", severity: Warning, odd: []int{2}, change: func(f *Fleet) {
				f.all(func(n *Facts) { n.nccl("2.19.3", 21903) })
				f.Nodes[2].Host.CPUVendor = "AuthenticAMD"
			}, says: []string{"may hang", "NCCL_NET_OVERHEAD"}},
			{name: "kernels", severity: Note, odd: []int{0}, change: func(f *Fleet) { f.Nodes[0].Host.Kernel = "6.1.0" }},
			{name: "without torch", base: cpus, change: func(f *Fleet) {
				f.all(func(n *Facts) { n.Libraries.Torch = "" })
				f.Nodes[0].Host.Arch, f.Nodes[0].Host.Kernel = "aarch64", "6.1.0"
			}},
		},
		"H04": {
			{name: "no /sys", nodes: 1, severity: Error, odd: []int{0}, change: func(f *Fleet) { f.Nodes[0].Host.SysPCI = false }},
			{name: "no /proc/driver/nvidia", severity: Warning, odd: []int{3}, change: func(f *Fleet) { f.Nodes[3].Host.ProcGPU = false }},
			{name: "WSL", nodes: 1, change: func(f *Fleet) {
				f.Nodes[0].Host.ProcGPU, f.Nodes[0].Host.DevNodes = false, []host.Node{{Path: host.WSL}}
			}},
			{name: "host not known", change: func(f *Fleet) { f.Nodes[3].Host.SysPCI, f.Nodes[3].Host.Arch = false, "" }},
			{name: "without GPUs", base: cpus, change: func(f *Fleet) { f.Nodes[0].Host.SysPCI = false }},
		},
	}
}
