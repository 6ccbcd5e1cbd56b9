package rules

import (
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func hostCases() map[string][]ruleCase {
	// sameMachine puts node 1 into a container on the machine of node 0.
	sameMachine := func(f *preflight.Fleet) {
		f.Nodes[1].Host.BootID = f.Nodes[0].Host.BootID
		f.Nodes[1].Host.NS.Net = "net:[7]"
		f.Nodes[1].RDMA = f.Nodes[0].RDMA
		f.Nodes[1].GPU.Devices = f.Nodes[0].GPU.Devices
	}
	// copied makes node 1 a copy of the running node 0, with GPUs and addresses
	// of its own.
	copied := func(f *preflight.Fleet) {
		f.Nodes[1].Host.BootID, f.Nodes[1].Host.Hostname = f.Nodes[0].Host.BootID, f.Nodes[0].Host.Hostname
	}
	return map[string][]ruleCase{
		"H01": {
			{name: "one id on two machines", severity: preflight.Error, odd: []int{1, 3}, change: func(f *preflight.Fleet) {
				preflighttest.Set(&f.Nodes[1], "NCCL_HOSTID", "a")
				preflighttest.Set(&f.Nodes[3], "NCCL_HOSTID", "a")
			}, says: []string{"NCCL_HOSTID=a", "unset NCCL_HOSTID"}},
			{name: "one name, two /dev/shm", severity: preflight.Warning, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				sameMachine(f)
				f.Nodes[1].Host.Hostname, f.Nodes[1].Host.SHM.Dev = f.Nodes[0].Host.Hostname, 99
			}, says: []string{"host node1, /dev/shm on device 24", "host node1, /dev/shm on device 99"}},
			{name: "two names on one machine", severity: preflight.Warning, odd: []int{0, 1}, change: sameMachine, says: []string{"takes them for several hosts"}},
			{name: "copies of a machine", severity: preflight.Error, odd: []int{0, 1}, change: copied, says: []string{"host name node1, boot id boot0", "export NCCL_HOSTID=$("}},
			{name: "copies of a machine that say only their addresses", severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				copied(f)
				everyNode(f, func(n *preflight.Facts) { n.GPU.Devices = nil })
			}},
			{name: "copies of a machine in containers", severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				copied(f)
				f.Nodes[1].Host.NS.Net = "net:[7]"
			}},
			{name: "copies with ids of their own", change: func(f *preflight.Fleet) {
				copied(f)
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_HOSTID", n.Node.ID) })
			}},
			{name: "copies with names of their own", change: func(f *preflight.Fleet) { f.Nodes[1].Host.BootID = f.Nodes[0].Host.BootID }},
			{name: "united on purpose", change: func(f *preflight.Fleet) {
				sameMachine(f)
				preflighttest.Set(&f.Nodes[0], "NCCL_HOSTID", "a")
				preflighttest.Set(&f.Nodes[1], "NCCL_HOSTID", "a")
			}},
			{name: "ids of their own", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_HOSTID", n.Node.ID) })
			}},
			{name: "without GPUs", base: preflighttest.CPUs, change: sameMachine},
		},
		"H02": {
			{name: "behind and ahead", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1, 3}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Node.Offset = -int64(2340 * time.Millisecond)
				f.Nodes[3].Node.Offset = int64(150 * time.Millisecond)
			}, says: []string{"2s behind", "200ms ahead"}},
			{name: "no clock has that", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[1].Node.Offset = -1 << 63 }},
			{name: "close enough", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[1].Node.Offset = int64(100 * time.Millisecond) }},
		},
		"H03": {
			{name: "architectures", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].Host.Arch = "aarch64" }, says: []string{"aarch64"}},
			{name: "architectures that NCCL cannot mix", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.23.4", 22304) })
				f.Nodes[1].Host.Arch = "aarch64"
			}, says: []string{"NCCL 2.23.4 cannot mix"}},
			{name: "vendors", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Host.CPUVendor = "AuthenticAMD" }},
			{name: "vendors with which NCCL hangs", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.19.3", 21903) })
				f.Nodes[2].Host.CPUVendor = "AuthenticAMD"
			}, says: []string{"may hang", "NCCL_NET_OVERHEAD"}},
			{name: "kernels", severity: preflight.Note, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Host.Kernel = "6.1.0" }},
			{name: "without torch", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Libraries.Torch = "" })
				f.Nodes[0].Host.Arch, f.Nodes[0].Host.Kernel = "aarch64", "6.1.0"
			}},
		},
		"H04": {
			{name: "no /sys", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Host.SysPCI = false }},
			{name: "no /proc/driver/nvidia", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) { f.Nodes[3].Host.ProcGPU = false }},
			{name: "WSL", nodes: 1, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.ProcGPU, f.Nodes[0].Host.DevNodes = false, []host.Node{{Path: host.WSL}}
			}},
			{name: "host not known", change: func(f *preflight.Fleet) { f.Nodes[3].Host.SysPCI, f.Nodes[3].Host.Arch = false, "" }},
			{name: "without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[0].Host.SysPCI = false }},
		},
	}
}
