package rules

import (
	"fmt"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// memoryRules returns L01, L03, L05 and L07: what memory workers may have.
func memoryRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "L01", Name: "shm", Severity: preflight.Error,
			Meaning: "Files can be created in /dev/shm (a warning where no two ranks of NCCL share a machine), and it has room for the segments of the node's ranks; a size below 1 GiB is a warning.",
			Symptom: "`failed to extend /dev/shm/nccl-... No space left on device (28)`, `Bus error` (signal 7).",
			Steps: []preflight.Step{
				preflight.AsRoot.Step("make /dev/shm larger", "mount -o remount,size=8G /dev/shm"),
				preflight.ToContainer.Step("", "--shm-size=8g").Alternative(),
				preflight.ByHand.Step("in Kubernetes, mount an emptyDir with medium: Memory at /dev/shm").Alternative(),
			},
			Check: checkSHM,
		},
		{
			ID: "L03", Name: "memlock", Severity: preflight.Error,
			Meaning: "Where NCCL uses InfiniBand or RoCE, locked memory is not limited; a limit of 1 GiB or more is a warning.",
			Symptom: "`Call to ibv_reg_mr_iova2 failed ... Cannot allocate memory`, `ibv_create_qp failed`.",
			Steps: []preflight.Step{
				preflight.InShell.Step("raise the limit; for a service that starts the containers or the jobs (containerd, docker, slurmd) set LimitMEMLOCK=infinity", "sudo prlimit --pid $$ --memlock=unlimited:unlimited"),
				preflight.ToContainer.Step("", "--ulimit memlock=-1:-1").Alternative(),
			},
			Check: checkMemLock,
		},
		{
			ID: "L05", Name: "stack", Severity: preflight.Warning,
			Meaning: "The stack is limited where NCCL before 2.28 uses NVLink across nodes: an unlimited one gives its threads too small a stack.",
			Symptom: "A segmentation fault in a thread of NCCL.",
			Steps: []preflight.Step{
				preflight.InShell.Step("limit it", "ulimit -S -s 8192"),
				preflight.ByHand.Step("install NCCL 2.28 or newer on all nodes").Alternative(),
			},
			Check: checkStack,
		},
		{
			ID: "L07", Name: "memory", Severity: preflight.Warning,
			Meaning: "The cgroup leaves every worker 1 GiB; a limit of the address space, with which CUDA fails, is an error.",
			Symptom: "Exit code 137, or `CUDA error: out of memory` at the start.",
			Steps: []preflight.Step{
				preflight.ToContainer.Step("give the container more memory", "--memory=64g"),
				preflight.ByHand.Step("ask the scheduler for more memory (--mem of Slurm, resources.limits of Kubernetes)").Alternative(),
			},
			Check: checkMemory,
		},
	}
}

// hostLoad returns what host.Load needs to know of the node.
func hostLoad(f *preflight.Fleet, i int, n *preflight.Facts) host.Load {
	l := host.Load{Ranks: f.View().Ranks, Local: n.Node.Workers}
	if !f.UsesSockets(i) {
		l.Local = l.Ranks // data that goes over no sockets opens no files for connections
	}
	return l
}

// knowsLimits reports whether the node's limits were read at all.
func knowsLimits(n *preflight.Facts) bool { return n.Host.Arch != "" }

func checkSHM(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	ranks := map[int]int{} // of each machine
	for i, n := range f.Known() {
		ranks[v.Machine[i]] += n.Node.Workers
	}
	mount := []preflight.Step{
		preflight.AsRoot.Step("mount it", "mkdir -p /dev/shm && mount -t tmpfs -o mode=1777,size=8G tmpfs /dev/shm"),
		preflight.ByHand.Step("in a container, remove the option or the volume that makes it read-only").Alternative(),
	}
	all := bySeverity(f, func(i int, n *preflight.Facts, add func(preflight.Severity, string)) {
		if n.Host.SHM.Error != "" && (n.GPU.Driver || n.Libraries.Torch != "") {
			add(errorIf(n.GPU.Driver && ranks[v.Machine[i]] > 1 && !n.IsOn("NCCL_SHM_DISABLE")), "/dev/shm: "+n.Host.SHM.Error)
		}
	}, func(s preflight.Severity, _ []int) preflight.Finding {
		x := preflight.Finding{Text: "No file can be created in /dev/shm: data loaders with worker processes fail.", Steps: mount}
		if s == preflight.Error {
			x.Text = "No file can be created in /dev/shm, which NCCL's ranks of one machine share: the communicator cannot be made."
		}
		return x
	})
	return append(all, bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		s := n.Host.SHM
		if !n.GPU.Driver || !knowsLimits(n) || s.Error != "" || s.Size <= 0 || s.Free < 0 || n.Node.Workers < 2 || n.IsOn("NCCL_SHM_DISABLE") {
			return
		}
		if need := neededSHM(n); s.Free < need || s.Size < host.SHMWanted {
			add(errorIf(s.Free < need), fmt.Sprintf("%s free of %s, about %s needed", formatBytes(s.Free), formatBytes(s.Size), formatBytes(need)))
		}
	}, func(s preflight.Severity, nodes []int) preflight.Finding {
		x := preflight.Finding{Text: "/dev/shm is small: less than 1 GiB is not enough for many communicators and data loaders.", Steps: enlargeSHM(f, nodes)}
		if s == preflight.Error {
			x.Text = "/dev/shm is too small for the ranks of the node."
		}
		return x
	})...)
}

// neededSHM returns the bytes that NCCL needs in the node's /dev/shm. Each rank
// has one segment for the pool of its proxy, whatever links the GPUs.
func neededSHM(n *preflight.Facts) int64 {
	return host.Load{Ranks: n.Node.Workers, Local: n.Node.Workers, Channels: 1}.SHM()
}

// enlargeSHM returns the steps that make /dev/shm large enough for the nodes'
// ranks.
func enlargeSHM(f *preflight.Fleet, nodes []int) []preflight.Step {
	gib := func(n *preflight.Facts) int64 {
		return max(8, (n.Host.SHM.Size-n.Host.SHM.Free+neededSHM(n))>>30+1)
	}
	steps := f.StepsFor(nodes, preflight.AsRoot, "make /dev/shm larger", func(_ int, n *preflight.Facts) []string {
		if !canMount(n) {
			return nil
		}
		return []string{fmt.Sprintf("mount -o remount,size=%dG /dev/shm", gib(n))}
	})
	pods := false
	steps = append(steps, f.StepsFor(nodes, preflight.ToContainer, "make /dev/shm larger", func(_ int, n *preflight.Facts) []string {
		if canMount(n) {
			return nil
		}
		pods = pods || n.Host.Container == "kubernetes"
		return []string{fmt.Sprintf("--shm-size=%dg", gib(n))}
	})...)
	if pods {
		steps = preflight.Either(steps, preflight.ByHand.Step("in Kubernetes, mount an emptyDir with medium: Memory at /dev/shm"))
	}
	return steps
}

// capIPCLock, capSysAdmin and capSysResource are bits of CapEff
// (linux/capability.h).
const capIPCLock, capSysAdmin, capSysResource = 1 << 14, 1 << 21, 1 << 24

// canMount reports whether root may mount on the node, which most containers
// forbid.
func canMount(n *preflight.Facts) bool {
	return n.Host.Container == "" || n.Host.Limits.Caps&capSysAdmin != 0
}

func checkMemLock(f *preflight.Fleet) []preflight.Finding {
	return bySeverity(f, func(i int, n *preflight.Facts, add func(preflight.Severity, string)) {
		if limit := n.Host.Limits.MemLockSoft; usesAdapters(f, i) && knowsLimits(n) && limit >= 0 && n.Host.Limits.Caps&capIPCLock == 0 {
			add(errorIf(limit < 1<<30), "limit "+formatBytes(limit))
		}
	}, func(s preflight.Severity, nodes []int) preflight.Finding {
		x := preflight.Finding{
			Text:  "NCCL registers memory with the adapters, and the limit of locked memory forbids it beyond this size.",
			Steps: raiseLimit(f, nodes, "memlock", host.Unlimited),
		}
		if s == preflight.Error {
			x.Text = "NCCL registers memory with the adapters, and the limit of locked memory forbids it."
		}
		return x
	})
}

func checkStack(f *preflight.Fleet) []preflight.Finding {
	return preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		code := n.NCCLCode()
		if !knowsLimits(n) || code == 0 || code >= 22800 || n.Host.Limits.Stack != host.Unlimited || !multiNodeNVLink(n) {
			return ""
		}
		return "unlimited, NCCL " + versionOf(code)
	}), preflight.Finding{Text: "An unlimited stack makes glibc give threads 2 MiB, on which this NCCL crashes when it uses NVLink across nodes."})
}

// multiNodeNVLink reports whether NCCL may use NVLink between nodes.
func multiNodeNVLink(n *preflight.Facts) bool {
	if n.Env("NCCL_MNNVL_ENABLE") == "0" {
		return false
	}
	for _, d := range n.GPU.Devices {
		if strings.Contains(d.Name, "GB200") || strings.Contains(d.Name, "GB300") || strings.Contains(d.Name, "GH200") {
			return true
		}
	}
	return n.IsOn("NCCL_MNNVL_ENABLE")
}

func checkMemory(f *preflight.Fleet) []preflight.Finding {
	limited := f.Faults(func(_ int, n *preflight.Facts) string {
		if !n.GPU.Driver || !knowsLimits(n) || n.Host.Limits.AS < 0 {
			return ""
		}
		return "limit " + formatBytes(n.Host.Limits.AS)
	})
	all := preflight.IfAny(limited, preflight.Finding{
		Severity: preflight.Error,
		Text:     "The address space is limited; CUDA reserves more than the machine has memory and fails.",
		Steps:    raiseLimit(f, preflight.Marked(limited), "as", host.Unlimited),
	})
	tight := f.Faults(func(_ int, n *preflight.Facts) string {
		l := n.Host.Limits
		if !n.GPU.Driver || !knowsLimits(n) || l.MemMax < 0 || l.MemCurrent < 0 {
			return ""
		}
		if left := max(0, l.MemMax-l.MemCurrent); left/(1<<30) < int64(n.Node.Workers) {
			return fmt.Sprintf("%s left of %s for %s", formatBytes(left), formatBytes(l.MemMax), preflight.Plural(n.Node.Workers, "worker"))
		}
		return ""
	})
	return append(all, preflight.IfAny(tight, preflight.Finding{Text: "The cgroup leaves too little memory for the workers: the kernel kills a worker that takes more (SIGKILL, exit code 137).", Steps: moreMemory(f, preflight.Marked(tight))})...)
}

// moreMemory returns the steps that give containers the memory that their
// workers lack. Only a person can change other cgroups.
func moreMemory(f *preflight.Fleet, nodes []int) []preflight.Step {
	steps := f.StepsFor(nodes, preflight.ToContainer, "give the container more memory", func(_ int, n *preflight.Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{fmt.Sprintf("--memory=%dg", n.Host.Limits.MemCurrent>>30+1+2*int64(max(n.Node.Workers, 1)))}
	})
	return preflight.Either(steps, preflight.ByHand.Step("ask the scheduler for more memory (--mem of Slurm, resources.limits of Kubernetes) on "+f.NamesOf(nodes)))
}
