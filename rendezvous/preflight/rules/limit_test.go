package rules

import (
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func limitCases() map[string][]ruleCase {
	withoutHostFacts := func(f *preflight.Fleet) {
		everyNode(f, func(n *preflight.Facts) { n.Host = host.Facts{BootID: n.Host.BootID} })
	}
	small := func(n *preflight.Facts) { n.Host.SHM.Size, n.Host.SHM.Free = 64<<20, 60<<20 }
	limit := func(change func(*host.Limits)) func(*preflight.Fleet) {
		return func(f *preflight.Fleet) { change(&f.Nodes[1].Host.Limits) }
	}
	number := func(n int64) *int64 { return &n }
	return map[string][]ruleCase{
		"L01": {
			{name: "Docker's default for half of the ranks", nodes: 1, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Node.Workers = 4; small(&f.Nodes[0]) }},
			{name: "Docker's default", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { small(&f.Nodes[0]) }, says: []string{"60 MiB free of 64 MiB, about 73 MiB needed", "mount -o remount,size=8G /dev/shm"}},
			{name: "full", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Host.SHM.Free = 0 }},
			{name: "small", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Host.SHM.Size, f.Nodes[2].Host.SHM.Free = 512<<20, 500<<20 }},
			{name: "one worker", change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { n.Node.Workers = 1; small(n) }) }},
			{name: "read-only", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Host.SHM.Error = "read-only file system" }, says: []string{"/dev/shm: read-only file system", "mount -t tmpfs"}},
			{name: "missing", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.SHM = host.SHM{Free: -1, Error: "no such file or directory"}
			}},
			{name: "missing for one worker", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				f.Nodes[2].Host.SHM.Error, f.Nodes[2].Node.Workers = "no such file or directory", 1
			}},
			{name: "missing for one worker of each container of a machine", nodes: 2, severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				preflighttest.OnOneMachine(f)
				everyNode(f, func(n *preflight.Facts) { n.Node.Workers = 1 })
				f.Nodes[1].Host.SHM.Error = "no such file or directory"
			}},
			{name: "read-only for torch without GPUs", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Host.SHM.Error = "read-only file system" })
			}},
			{name: "read-only for others", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Host.SHM.Error, n.Libraries = "read-only file system", library.Facts{} })
			}},
			{name: "shared memory is off", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { small(n); preflighttest.Set(n, "NCCL_SHM_DISABLE", "1") })
			}},
			{name: "not known", change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { n.Host.SHM.Free = -1 }) }},
			{name: "without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { everyNode(f, small) }},
		},
		"L08": {
			{name: "CPU time", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.CPU = number(300) }), says: []string{"killed after 300 s of CPU time", "--cpu=unlimited:unlimited"}},
			{name: "hours of CPU time of a program that no library concerns", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Libraries = library.Facts{} })
				f.Nodes[1].Host.Limits.CPU = number(7200)
			}, says: []string{"killed after 2h0m0s of CPU time"}},
			{name: "small files", severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.FSize = number(100 << 20) }), says: []string{"files of at most 100 MiB", "--fsize=unlimited:unlimited"}, omits: []string{"--cpu"}},
			{name: "files smaller than a segment", severity: preflight.Error, odd: []int{1}, change: limit(func(l *host.Limits) { l.FSize = number(1 << 20) }), says: []string{"files of at most 1 MiB", "/dev/shm"}},
			{name: "files smaller than a segment of one worker", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Node.Workers, f.Nodes[1].Host.Limits.FSize = 1, number(1<<20)
			}},
			{name: "private memory", severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.Data = number(4 << 30) }), says: []string{"at most 4.0 GiB of private memory"}},
			{name: "address space without GPUs", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.AS = 4 << 30 }), says: []string{"at most 4.0 GiB of address space"}},
			{name: "nothing is limited", change: limit(func(l *host.Limits) {
				l.CPU, l.FSize, l.Data = number(host.Unlimited), number(host.Unlimited), number(host.Unlimited)
			})},
			{name: "not known", base: preflighttest.CPUs, change: withoutHostFacts},
		},
		"L02": {
			{name: "too few for anything", severity: preflight.Error, odd: []int{1}, change: limit(func(l *host.Limits) { l.NoFileHard, l.NoFileSoft = 128, 128 }), says: []string{"hard limit 128, about 160 needed"}},
			{name: "too few for all to all", nodes: 64, severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.NoFileHard, l.NoFileSoft = 1024, 1024 }), says: []string{"hard limit 1024, about 2048 needed"}},
			{name: "fewer than advised", severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.NoFileHard, l.NoFileSoft = 4096, 4096 }), says: []string{"65536 open files is advised"}},
			{name: "fewer than advised on one node", nodes: 1, change: func(f *preflight.Fleet) { f.Nodes[0].Host.Limits.NoFileHard = 4096 }},
			{name: "no limit", change: limit(func(l *host.Limits) { l.NoFileHard, l.NoFileSoft = -1, -1 })},
			{name: "not known", change: withoutHostFacts},
			{name: "without GPUs", base: preflighttest.CPUs, change: limit(func(l *host.Limits) { l.NoFileHard, l.NoFileSoft = 8, 8 })},
		},
		"L03": {
			{name: "8 MiB", severity: preflight.Error, odd: []int{1}, change: limit(func(l *host.Limits) { l.MemLockSoft = 8 << 20 }), says: []string{"limit 8 MiB", "LimitMEMLOCK=", "sudo prlimit --pid $$ --memlock=unlimited:unlimited"}},
			{name: "many GiB", severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.MemLockSoft = 16 << 30 })},
			{name: "privileged", change: limit(func(l *host.Limits) { l.MemLockSoft, l.Caps = 8<<20, capIPCLock })},
			{name: "over sockets", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					preflighttest.Set(n, "NCCL_IB_DISABLE", "1")
					n.Host.Limits.MemLockSoft = 8 << 20
				})
			}},
			{name: "one node", nodes: 1, change: func(f *preflight.Fleet) { f.Nodes[0].Host.Limits.MemLockSoft = 8 << 20 }},
			{name: "not known", change: withoutHostFacts},
		},
		"L04": {
			{name: "the cgroup is full", severity: preflight.Error, odd: []int{1}, change: limit(func(l *host.Limits) { l.PidsMax, l.PidsCurrent = 600, 200 }), says: []string{"left by the cgroup's pids.max 400, about 512 needed"}},
			{name: "ulimit", severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.NProc = 1024 }), says: []string{"ulimit -u 1024, about 512 needed; 4096 advised"}},
			{name: "just enough", severity: preflight.Warning, odd: []int{1}, change: limit(func(l *host.Limits) { l.NProc = 512 }), says: []string{"ulimit -u 512, all of it needed; 4096 advised"}},
			{name: "ulimit for root", change: limit(func(l *host.Limits) { l.NProc, l.Caps = 1024, capSysResource })},
			{name: "not known", change: withoutHostFacts},
			{name: "without GPUs", base: preflighttest.CPUs, change: limit(func(l *host.Limits) { l.NProc = 10 })},
		},
		"L05": {
			{name: "NVLink across nodes", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Host.Limits.Stack = -1
				everyNode(f, func(n *preflight.Facts) { n.GPU.Devices[0].Name = "NVIDIA GB200" })
			}, says: []string{"unlimited, NCCL 2.27.5"}},
			{name: "asked for", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Host.Limits.Stack = -1
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_MNNVL_ENABLE", "1") })
			}},
			{name: "a newer NCCL", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.Host.Limits.Stack = -1
					nccl(n, "2.28.3", 22803)
					n.GPU.Devices[0].Name = "NVIDIA GB200"
				})
			}},
			{name: "no such GPUs", change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { n.Host.Limits.Stack = -1 }) }},
		},
		"L06": {
			{name: "somaxconn", nodes: 32, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Host.Sysctl.SomaxConn = 128 }, says: []string{"net.core.somaxconn 128, wanted 256"}},
			{name: "neighbours", nodes: 300, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Host.Sysctl.GCThresh3 = 1024 }, says: []string{"gc_thresh3 1024, wanted 1200"}},
			{name: "connection tracking", severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.Sysctl.ConntrackMax, f.Nodes[0].Host.Sysctl.ConntrackUsed = 262144, 262000
			}, says: []string{"connection tracking is full"}},
			{name: "few ports", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Network.PortFirst, f.Nodes[1].Network.PortLast = 60000, 60100
			}, says: []string{"101 ports (60000 to 60100)", "ip_local_port_range"}},
			{name: "few ports on one machine", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[0].Network.PortLast = 32800; preflighttest.OnOneMachine(f) }},
			{name: "the defaults in a small job", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.Host.Sysctl = host.Sysctl{SomaxConn: 4096, GCThresh3: 1024, ConntrackMax: 262144, ConntrackUsed: 300}
				})
			}},
			{name: "without GPUs", base: preflighttest.CPUs, nodes: 300, change: func(f *preflight.Fleet) { f.Nodes[0].Host.Sysctl.GCThresh3 = 1024 }},
			{name: "not known", nodes: 300, change: withoutHostFacts},
		},
		"L07": {
			{name: "a tight cgroup", nodes: 1, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.Limits.MemMax, f.Nodes[0].Host.Limits.MemCurrent = 8<<30, 3<<30
			}, says: []string{"5.0 GiB left of 8.0 GiB for 8 workers"}},
			{name: "a limited address space", severity: preflight.Error, odd: []int{1}, change: limit(func(l *host.Limits) { l.AS = 64 << 30 }), says: []string{"sudo prlimit --pid $$ --as=unlimited:unlimited"}},
			{name: "enough", change: limit(func(l *host.Limits) { l.MemMax, l.MemCurrent = 900<<30, 3<<30 })},
			{name: "without GPUs", base: preflighttest.CPUs, change: limit(func(l *host.Limits) { l.AS, l.MemMax, l.MemCurrent = 1, 1, 1 })},
			{name: "not known", change: withoutHostFacts},
		},
	}
}
