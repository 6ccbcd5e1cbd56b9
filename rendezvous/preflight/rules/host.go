package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// hostRules returns H01 to H04: what the machines are.
func hostRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "H01", Name: "host-id", Severity: preflight.Error,
			Meaning: "NCCL takes no two machines for one, because of NCCL_HOSTID or because copies of a running machine share a host name and a boot id. Containers of one machine share /dev/shm if NCCL takes them for one host, and only then (else a warning).",
			Symptom: "`Error while attaching to shared memory segment /dev/shm/nccl-...`, `Duplicate GPU detected` across machines, or the network used inside a machine.",
			Steps: []preflight.Step{
				preflight.InShell.Step("give the containers that share memory one host id", "export NCCL_HOSTID=$(cat /proc/sys/kernel/random/boot_id)-$(stat -c %d /dev/shm)"),
				preflight.ToContainer.Step("give the containers the machine's /dev/shm", "--ipc=host").Alternative(),
			},
			Check: checkHostID,
		},
		{
			ID: "H02", Name: "clock", Severity: preflight.Warning,
			Meaning: "No clock differs from the coordinator's by more than 100 ms and half of the shortest round trip, which is how far the measurement may be wrong.",
			Symptom: "Logs of several nodes in the wrong order: the wrong rank is blamed.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("synchronise the clock", "chronyc makestep || systemctl restart systemd-timesyncd")},
			Check:   checkClock,
		},
		{
			ID: "H03", Name: "arch", Severity: preflight.Warning,
			Meaning: "All nodes have the same architecture and CPU vendor (an error where the loaded NCCL cannot mix architectures); different kernels are a note.",
			Symptom: "A hang with CPUs of several vendors (NCCL 2.18.1 to 2.19.3) or architectures (before 2.24).",
			Steps:   []preflight.Step{preflight.ByHand.Step("use machines of one kind, or upgrade NCCL")},
			Check:   checkArch,
		},
		{
			ID: "H04", Name: "sysfs", Severity: preflight.Error,
			Meaning: "/sys/class/pci_bus can be read, from which NCCL learns how GPUs and network cards are connected; a missing /proc/driver/nvidia is a warning.",
			Symptom: "`Could not find real path of /sys/class/pci_bus/...`.",
			Steps: []preflight.Step{
				preflight.ToContainer.Step("give the container the machine's /sys", "-v /sys:/sys:ro"),
				preflight.ByHand.Step("ask the administrator of the marked nodes to mount /sys (and /proc) where the workers run").Alternative(),
			},
			Check: checkSysfs,
		},
	}
}

func checkHostID(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.NCCL {
		return nil
	}
	// id returns the key by which NCCL distinguishes machines.
	id := func(n *preflight.Facts) (key, shown string) {
		if set := n.Env("NCCL_HOSTID"); set != "" {
			return set, "NCCL_HOSTID=" + set
		}
		return n.Host.Hostname + "\x00" + n.Host.BootID, "host name " + n.Host.Hostname + ", boot id " + n.Host.BootID
	}
	first := map[string]int{}
	shared := map[string]bool{}
	for i, n := range f.Known() {
		key, _ := id(n)
		if n.Host.BootID == "" {
			continue
		}
		if j, ok := first[key]; ok && v.Machine[j] != v.Machine[i] {
			shared[key] = true
		} else if !ok {
			first[key] = i
		}
	}
	machinesOf := func(set bool) []preflight.Value {
		return f.Faults(func(_ int, n *preflight.Facts) string {
			if key, shown := id(n); shared[key] && set == (n.Env("NCCL_HOSTID") != "") {
				return shown
			}
			return ""
		})
	}
	all := preflight.WithSteps(preflight.IfAny(machinesOf(true), preflight.Finding{
		Text: "NCCL_HOSTID is the same on different machines: NCCL takes them for one that shares its memory.",
	}), func() []preflight.Step {
		return unsetVariables(f, "unset it", func(s ncclenv.Value) bool { return s.Name == "NCCL_HOSTID" })
	})
	all = append(all, preflight.IfAny(machinesOf(false), preflight.Finding{
		Text: "Different machines have one host name and one boot id, as copies of a running machine have: NCCL takes them for one and expects the memory of other ranks, and their GPUs, on the wrong machine.",
		Steps: []preflight.Step{
			preflight.InShell.Step("give each machine an id of its own", "export NCCL_HOSTID=$(cat /proc/sys/kernel/random/uuid)"),
			preflight.ByHand.Step("restart the machines, each with a host name of its own").Alternative(),
		},
	})...)
	return append(all, checkHosts(f)...)
}

// checkHosts finds nodes of one machine that NCCL takes for one host though
// they share no memory, or for two hosts though they share it.
func checkHosts(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	type machine struct {
		hashes map[string]uint64 // by host hash: device of /dev/shm of the first node with it
		apart  bool              // two nodes have one hash and different /dev/shm
	}
	machines := map[int]*machine{}
	hash := func(n *preflight.Facts) string { return cmp.Or(n.Env("NCCL_HOSTID"), n.Host.Hostname) }
	concerned := func(i int, n *preflight.Facts) bool { return v.Shared[i] && n.GPU.Driver && n.Host.Hostname != "" }
	for i, n := range f.Known() {
		if !concerned(i, n) {
			continue
		}
		m := machines[v.Machine[i]]
		if m == nil {
			m = &machine{hashes: map[string]uint64{}}
			machines[v.Machine[i]] = m
		}
		dev, ok := m.hashes[hash(n)]
		if !ok {
			m.hashes[hash(n)] = n.Host.SHM.Dev
		}
		m.apart = m.apart || ok && dev != n.Host.SHM.Dev
	}
	show := func(want func(*machine) bool) []preflight.Value {
		return f.Faults(func(i int, n *preflight.Facts) string {
			if !concerned(i, n) || !want(machines[v.Machine[i]]) {
				return ""
			}
			return fmt.Sprintf("host %s, /dev/shm on device %d", hash(n), n.Host.SHM.Dev)
		})
	}
	all := preflight.IfAny(show(func(m *machine) bool { return m.apart }), preflight.Finding{
		Severity: preflight.Warning,
		Text:     "Nodes on one machine have one host name but different /dev/shm: NCCL takes them for one host, and they cannot share memory.",
	})
	return append(all, preflight.IfAny(show(func(m *machine) bool { return !m.apart && len(m.hashes) > 1 }), preflight.Finding{
		Severity: preflight.Warning,
		Text:     "Nodes on one machine have different host names: NCCL takes them for several hosts and uses the network between their GPUs.",
		Steps: []preflight.Step{
			preflight.InShell.Step("give the containers that share memory one host id", "export NCCL_HOSTID=$(cat /proc/sys/kernel/random/boot_id)-$(stat -c %d /dev/shm)"),
			preflight.ToContainer.Step("give the containers the machine's name", "--uts=host").Alternative(),
		},
	})...)
}

// maxOffset is how far clocks may differ.
const maxOffset = 100 * time.Millisecond

func checkClock(f *preflight.Fleet) []preflight.Finding {
	return preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		d, limit := time.Duration(n.Node.Offset), maxOffset+min(max(time.Duration(n.Node.Within), 0), 1<<62)
		switch {
		case d > limit:
			return d.Round(roundingStep(d)).String() + " ahead"
		case d < -limit && d > -1<<62:
			return (-d).Round(roundingStep(-d)).String() + " behind"
		default:
			return ""
		}
	}), preflight.Finding{Text: "Clocks differ from the coordinator's: events of several nodes are in the wrong order in logs."})
}

// roundingStep returns a tenth of the offset's magnitude, so that similar
// offsets form one group.
func roundingStep(d time.Duration) time.Duration {
	s := 100 * time.Millisecond
	for ; s < d/10; s *= 10 {
	}
	return s
}

func checkArch(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.NCCL && !v.Gloo {
		return nil
	}
	oldest := 0 // among the NCCL versions that are known
	vendorBug := false
	for _, n := range f.Known() {
		code := n.NCCLCode()
		vendorBug = vendorBug || code >= 21801 && code <= 21903 && n.Env("NCCL_NET_OVERHEAD") == ""
		if code > 0 && (oldest == 0 || code < oldest) {
			oldest = code
		}
	}
	arch := preflight.Finding{Text: "The nodes have different architectures; results may differ, and each architecture needs its own programs."}
	if v.NCCL && oldest > 0 && oldest < 22400 {
		arch.Severity = preflight.Error
		arch.Text = "The nodes have different architectures, which NCCL " + versionOf(oldest) + " cannot mix (2.24 can)."
	}
	all := preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string { return n.Host.Arch }), arch)
	if v.NCCL && len(all) == 0 {
		vendor := preflight.Finding{Steps: []preflight.Step{preflight.ByHand.Step("start the job on machines of one kind, unless the difference is intended")}, Text: "The nodes have CPUs of different vendors; NCCL may choose differently on them."}
		if vendorBug {
			vendor.Text = "The nodes have CPUs of different vendors, with which NCCL 2.18.1 to 2.19.3 may hang."
			vendor.Steps = []preflight.Step{preflight.EveryRank("make all nodes compute with one value", "NCCL_NET_OVERHEAD", "0"), preflight.ByHand.Step("install NCCL 2.20 or newer on all nodes").Alternative()}
		}
		all = append(all, preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string { return n.Host.CPUVendor }), vendor)...)
	}
	return append(all, preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string { return n.Host.Kernel }), preflight.Finding{
		Severity: preflight.Note,
		Text:     "The nodes run different kernels.",
		Steps:    []preflight.Step{preflight.ByHand.Step("nothing has to be done")},
	})...)
}

func checkSysfs(f *preflight.Fleet) []preflight.Finding {
	concerned := func(n *preflight.Facts) bool { return n.GPU.Driver && n.Host.Arch != "" }
	all := preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		if !concerned(n) || n.Host.SysPCI {
			return ""
		}
		return "/sys/class/pci_bus cannot be read"
	}), preflight.Finding{Text: "NCCL cannot learn how the GPUs are connected."})
	return append(all, preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		wsl := slices.ContainsFunc(n.Host.DevNodes, func(d host.Node) bool { return d.Path == host.WSL })
		if !concerned(n) || n.Host.ProcGPU || wsl { // under WSL the driver belongs to Windows
			return ""
		}
		return "/proc/driver/nvidia cannot be read"
	}), preflight.Finding{Severity: preflight.Warning, Text: "The driver's folder in /proc is missing: the container has only a part of the driver.", Steps: []preflight.Step{
		preflight.ToContainer.Step("give the container its GPUs through NVIDIA's runtime", "--gpus all"),
		preflight.ByHand.Step("ask the administrator of the marked nodes to mount /proc where the workers run").Alternative(),
	}})...)
}
