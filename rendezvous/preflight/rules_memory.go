package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// memoryRules are L01, L03, L05 and L07: what memory workers may have.
func memoryRules() []Rule {
	return []Rule{
		{
			ID: "L01", Name: "shm", Severity: Error,
			Meaning: "Files can be made in /dev/shm (a warning where no two ranks of NCCL share a machine), and it has room for the segments of the node's ranks; less than 1 GiB in all is a warning.",
			Users:   "`failed to extend /dev/shm/nccl-... No space left on device (28)`, `Bus error` (signal 7).",
			Steps: []Step{
				asRoot("make /dev/shm larger", "mount -o remount,size=8G /dev/shm"),
				toContainer("", "--shm-size=8g").or(),
				byHand("in Kubernetes, mount an emptyDir with medium: Memory at /dev/shm").or(),
			},
			Check: checkSHM,
		},
		{
			ID: "L03", Name: "memlock", Severity: Error,
			Meaning: "Where NCCL uses InfiniBand or RoCE, locked memory is not limited; a limit of 1 GiB or more is a warning.",
			Users:   "`Call to ibv_reg_mr_iova2 failed ... Cannot allocate memory`, `ibv_create_qp failed`.",
			Steps: []Step{
				inShell("lift the limit; of a service that starts the containers or the jobs (containerd, docker, slurmd) it is LimitMEMLOCK=infinity", "sudo prlimit --pid $$ --memlock=unlimited:unlimited"),
				toContainer("", "--ulimit memlock=-1:-1").or(),
			},
			Check: checkMemLock,
		},
		{
			ID: "L05", Name: "stack", Severity: Warning,
			Meaning: "The stack is limited where NCCL before 2.28 uses NVLink across nodes: an unlimited one gives its threads too small a stack.",
			Users:   "A segmentation fault in a thread of NCCL's.",
			Steps: []Step{
				inShell("limit it", "ulimit -S -s 8192"),
				byHand("install NCCL 2.28 or newer on all nodes").or(),
			},
			Check: checkStack,
		},
		{
			ID: "L07", Name: "memory", Severity: Warning,
			Meaning: "The cgroup leaves every worker 1 GiB; a limit of the address space, which CUDA cannot live with, is an error.",
			Users:   "Exit code 137, or `CUDA error: out of memory` at the start.",
			Steps: []Step{
				toContainer("give the container more memory", "--memory=64g"),
				byHand("ask the scheduler for more memory (--mem of Slurm, resources.limits of Kubernetes)").or(),
			},
			Check: checkMemory,
		},
	}
}

// load is what the node's needs depend on.
func (f *Fleet) load(i int, n *Facts) host.Load {
	l := host.Load{Ranks: f.look().ranks, Local: n.Node.Workers}
	if !f.sockets(i) {
		l.Local = l.Ranks // the data's connections are no files
	}
	return l
}

// measured reports whether the node's limits were read at all.
func (n *Facts) measured() bool { return n.Host.Arch != "" }

func checkSHM(f *Fleet) []Finding {
	v := f.look()
	ranks := map[int]int{} // of each machine
	for i, n := range f.known() {
		ranks[v.machine[i]] += n.Node.Workers
	}
	shut := func(grave bool) []Value {
		return f.faults(func(i int, n *Facts) string {
			needed := n.GPU.Driver && ranks[v.machine[i]] > 1 && !n.on("NCCL_SHM_DISABLE")
			if n.Host.SHM.Error == "" || !n.GPU.Driver && n.Libraries.Torch == "" || needed != grave {
				return ""
			}
			return "/dev/shm: " + n.Host.SHM.Error
		})
	}
	anew := []Step{
		asRoot("mount it", "mkdir -p /dev/shm && mount -t tmpfs -o mode=1777,size=8G tmpfs /dev/shm"),
		byHand("in a container, take away the option or the volume that makes it read-only").or(),
	}
	all := append(one(shut(true), Finding{
		Text: "Nobody can make a file in /dev/shm, through which NCCL's ranks of one machine talk: the communicator is not made.", Steps: anew,
	}), one(shut(false), Finding{
		Severity: Warning, Text: "Nobody can make a file in /dev/shm: data loaders with worker processes fail.", Steps: anew,
	})...)
	find := func(grave bool) []Value {
		return f.faults(func(_ int, n *Facts) string {
			s := n.Host.SHM
			if !n.GPU.Driver || !n.measured() || s.Error != "" || s.Size <= 0 || s.Free < 0 || n.Node.Workers < 2 || n.on("NCCL_SHM_DISABLE") {
				return ""
			}
			// One segment a rank is the pool of its proxy, whatever links the GPUs.
			need := host.Load{Ranks: n.Node.Workers, Local: n.Node.Workers, Channels: 1}.SHM()
			if low := s.Free < need; low != grave || !low && s.Size >= host.SHMWanted {
				return ""
			}
			return fmt.Sprintf("%s free of %s, about %s needed", size(s.Free), size(s.Size), size(need))
		})
	}
	few, low := find(true), find(false)
	return slices.Concat(all, one(few, Finding{Text: "/dev/shm is too small for the ranks of the node.", Steps: f.enlarge(marked(few))}),
		one(low, Finding{Severity: Warning, Text: "/dev/shm is small: less than 1 GiB is not enough for many communicators and data loaders.", Steps: f.enlarge(marked(low))}))
}

// enlarge makes /dev/shm large enough for the ranks of nodes.
func (f *Fleet) enlarge(nodes []int) []Step {
	gib := func(n *Facts) int64 {
		s := n.Host.SHM
		need := host.Load{Ranks: n.Node.Workers, Local: n.Node.Workers, Channels: 1}.SHM()
		return max(8, (s.Size-s.Free+need)>>30+1)
	}
	steps := f.each(nodes, asRoot, "make /dev/shm larger", func(_ int, n *Facts) []string {
		if !n.mounts() {
			return nil
		}
		return []string{fmt.Sprintf("mount -o remount,size=%dG /dev/shm", gib(n))}
	})
	pods := false
	steps = append(steps, f.each(nodes, toContainer, "make /dev/shm larger", func(_ int, n *Facts) []string {
		if n.mounts() {
			return nil
		}
		pods = pods || n.Host.Container == "kubernetes"
		return []string{fmt.Sprintf("--shm-size=%dg", gib(n))}
	})...)
	if pods {
		steps = or(steps, byHand("in Kubernetes, mount an emptyDir with medium: Memory at /dev/shm"))
	}
	return steps
}

// capIPCLock and the others are bits of CapEff (linux/capability.h).
const capIPCLock, capSysAdmin, capSysResource = 1 << 14, 1 << 21, 1 << 24

// mounts reports whether root may mount on the node: not in most containers.
func (n *Facts) mounts() bool { return n.Host.Container == "" || n.Host.Limits.Caps&capSysAdmin != 0 }

func checkMemLock(f *Fleet) []Finding {
	find := func(grave bool) []Value {
		return f.faults(func(i int, n *Facts) string {
			limit := n.Host.Limits.MemLockSoft
			if !f.verbs(i) || !n.measured() || limit < 0 || n.Host.Limits.Caps&capIPCLock != 0 || grave != (limit < 1<<30) {
				return ""
			}
			return "limit " + size(limit)
		})
	}
	const text = "NCCL registers memory with the adapters, and the limit of locked memory forbids it"
	few, low := find(true), find(false)
	return append(one(few, Finding{Text: text + ".", Steps: f.raise(marked(few), "memlock", host.Unlimited)}),
		one(low, Finding{Severity: Warning, Text: text + " beyond this size.", Steps: f.raise(marked(low), "memlock", host.Unlimited)})...)
}

func checkStack(f *Fleet) []Finding {
	return one(f.faults(func(_ int, n *Facts) string {
		code := n.ncclCode()
		if !n.measured() || code == 0 || code >= 22800 || n.Host.Limits.Stack != host.Unlimited || !n.multiNodeNVLink() {
			return ""
		}
		return "unlimited, NCCL " + versionOf(code)
	}), Finding{Text: "An unlimited stack makes glibc give threads 2 MiB, on which this NCCL crashes when it uses NVLink across nodes."})
}

// multiNodeNVLink reports whether NCCL may use NVLink between nodes.
func (n *Facts) multiNodeNVLink() bool {
	if n.env("NCCL_MNNVL_ENABLE") == "0" {
		return false
	}
	for _, d := range n.GPU.Devices {
		if strings.Contains(d.Name, "GB200") || strings.Contains(d.Name, "GB300") || strings.Contains(d.Name, "GH200") {
			return true
		}
	}
	return n.on("NCCL_MNNVL_ENABLE")
}

func checkMemory(f *Fleet) []Finding {
	limited := f.faults(func(_ int, n *Facts) string {
		if !n.GPU.Driver || !n.measured() || n.Host.Limits.AS < 0 {
			return ""
		}
		return "limit " + size(n.Host.Limits.AS)
	})
	all := one(limited, Finding{
		Severity: Error,
		Text:     "The address space is limited; CUDA reserves more than the machine has memory and fails.",
		Steps:    f.raise(marked(limited), "as", host.Unlimited),
	})
	tight := f.faults(func(_ int, n *Facts) string {
		l := n.Host.Limits
		if !n.GPU.Driver || !n.measured() || l.MemMax < 0 || l.MemCurrent < 0 {
			return ""
		}
		if left := max(0, l.MemMax-l.MemCurrent); left/(1<<30) < int64(n.Node.Workers) {
			return fmt.Sprintf("%s left of %s for %s", size(left), size(l.MemMax), plural(n.Node.Workers, "worker"))
		}
		return ""
	})
	return append(all, one(tight, Finding{Text: "The cgroup leaves too little memory for the workers: the kernel kills one that takes more (SIGKILL, exit code 137).", Steps: f.moreMemory(marked(tight))})...)
}

// moreMemory gives containers what their workers lack, and asks whoever made the
// other cgroups.
func (f *Fleet) moreMemory(nodes []int) []Step {
	steps := f.each(nodes, toContainer, "give the container more memory", func(_ int, n *Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{fmt.Sprintf("--memory=%dg", n.Host.Limits.MemCurrent>>30+1+2*int64(max(n.Node.Workers, 1)))}
	})
	return or(steps, byHand("ask the scheduler for more memory (--mem of Slurm, resources.limits of Kubernetes) on "+f.called(nodes)))
}
