package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// hostRules are H01 to H04: what the machines are.
func hostRules() []Rule {
	return []Rule{
		{
			ID: "H01", Name: "host-id", Severity: Error,
			Meaning: "Neither NCCL_HOSTID nor a host name and boot id that copies of a running machine share make two machines one; containers on one machine that look like one node share /dev/shm, and those that share it look like one (else a warning).",
			Users:   "`Error while attaching to shared memory segment /dev/shm/nccl-...`, `Duplicate GPU detected` across machines, or the network used inside a machine.",
			Steps: []Step{
				inShell("tell NCCL by what memory they share which of them are one host", "export NCCL_HOSTID=$(cat /proc/sys/kernel/random/boot_id)-$(stat -c %d /dev/shm)"),
				toContainer("give the containers the machine's /dev/shm", "--ipc=host").or(),
			},
			Check: checkHostID,
		},
		{
			ID: "H02", Name: "clock", Severity: Warning,
			Meaning: "No clock is off by more than 100 ms from the coordinator's. Half of the shortest round trip is how far that may be wrong, and is given to the clock.",
			Users:   "Logs of several nodes in the wrong order: the wrong rank is blamed.",
			Steps:   []Step{asRoot("synchronise the clock", "chronyc makestep || systemctl restart systemd-timesyncd")},
			Check:   checkClock,
		},
		{
			ID: "H03", Name: "arch", Severity: Warning,
			Meaning: "All nodes have the same architecture and CPU vendor (an error where the loaded NCCL cannot mix architectures); different kernels are a note.",
			Users:   "A hang with CPUs of several vendors (NCCL 2.18.1 to 2.19.3) or architectures (before 2.24).",
			Steps:   []Step{byHand("use machines of one kind, or upgrade NCCL")},
			Check:   checkArch,
		},
		{
			ID: "H04", Name: "sysfs", Severity: Error,
			Meaning: "/sys/class/pci_bus is readable, from which NCCL learns how GPUs and network cards are connected; a missing /proc/driver/nvidia is a warning.",
			Users:   "`Could not find real path of /sys/class/pci_bus/...`.",
			Steps: []Step{
				toContainer("the container needs the machine's /sys", "-v /sys:/sys:ro"),
				byHand("ask the administrator of the marked nodes to mount /sys (and /proc) where the workers run").or(),
			},
			Check: checkSysfs,
		},
	}
}

func checkHostID(f *Fleet) []Finding {
	v := f.look()
	if !v.nccl {
		return nil
	}
	// What NCCL tells machines apart by, on different machines.
	id := func(n *Facts) (key, shown string) {
		if set := n.env("NCCL_HOSTID"); set != "" {
			return set, "NCCL_HOSTID=" + set
		}
		return n.Host.Hostname + "\x00" + n.Host.BootID, "host name " + n.Host.Hostname + ", boot id " + n.Host.BootID
	}
	first := map[string]int{}
	clash := map[string]bool{}
	for i, n := range f.known() {
		key, _ := id(n)
		if n.Host.BootID == "" {
			continue
		}
		if j, ok := first[key]; ok && v.machine[j] != v.machine[i] {
			clash[key] = true
		} else if !ok {
			first[key] = i
		}
	}
	clashing := func(set bool) []Value {
		return f.faults(func(_ int, n *Facts) string {
			if key, shown := id(n); clash[key] && set == (n.env("NCCL_HOSTID") != "") {
				return shown
			}
			return ""
		})
	}
	all := advised(one(clashing(true), Finding{
		Text: "NCCL_HOSTID makes NCCL believe that different machines are one and share their memory.",
	}), func() []Step {
		return f.takeAway("take it away", func(s ncclenv.Value) bool { return s.Name == "NCCL_HOSTID" })
	})
	all = append(all, one(clashing(false), Finding{
		Text: "Different machines have one host name and one boot id, as copies of a running machine have: NCCL takes them for one and looks for the memory of other ranks, and for GPUs, where they are not.",
		Steps: []Step{
			inShell("give each machine an id of its own", "export NCCL_HOSTID=$(cat /proc/sys/kernel/random/uuid)"),
			byHand("start the machines anew, each with a host name of its own").or(),
		},
	})...)
	return append(all, f.strangers()...)
}

// strangers finds nodes of one machine that NCCL takes for one host though they
// share no memory, or for two though they do.
func (f *Fleet) strangers() []Finding {
	v := f.look()
	type machine struct {
		hashes map[string]uint64 // device of /dev/shm of the first node with this host hash
		apart  bool              // one hash, several /dev/shm
	}
	machines := map[int]*machine{}
	hash := func(n *Facts) string { return cmp.Or(n.env("NCCL_HOSTID"), n.Host.Hostname) }
	concerned := func(i int, n *Facts) bool { return v.shared[i] && n.GPU.Driver && n.Host.Hostname != "" }
	for i, n := range f.known() {
		if !concerned(i, n) {
			continue
		}
		m := machines[v.machine[i]]
		if m == nil {
			m = &machine{hashes: map[string]uint64{}}
			machines[v.machine[i]] = m
		}
		dev, ok := m.hashes[hash(n)]
		if !ok {
			m.hashes[hash(n)] = n.Host.SHM.Dev
		}
		m.apart = m.apart || ok && dev != n.Host.SHM.Dev
	}
	show := func(want func(*machine) bool) []Value {
		return f.faults(func(i int, n *Facts) string {
			if !concerned(i, n) || !want(machines[v.machine[i]]) {
				return ""
			}
			return fmt.Sprintf("host %s, /dev/shm on device %d", hash(n), n.Host.SHM.Dev)
		})
	}
	all := one(show(func(m *machine) bool { return m.apart }), Finding{
		Severity: Warning,
		Text:     "Nodes on one machine have one host name but not one /dev/shm: NCCL takes them for one host, and they cannot share memory.",
	})
	return append(all, one(show(func(m *machine) bool { return !m.apart && len(m.hashes) > 1 }), Finding{
		Severity: Warning,
		Text:     "Nodes on one machine have different host names: NCCL takes them for several hosts and uses the network between their GPUs.",
		Steps: []Step{
			inShell("tell NCCL by what memory they share which of them are one host", "export NCCL_HOSTID=$(cat /proc/sys/kernel/random/boot_id)-$(stat -c %d /dev/shm)"),
			toContainer("give the containers the machine's name", "--uts=host").or(),
		},
	})...)
}

// maxOffset is how far clocks may be apart.
const maxOffset = 100 * time.Millisecond

func checkClock(f *Fleet) []Finding {
	return one(f.faults(func(_ int, n *Facts) string {
		d, limit := time.Duration(n.Node.Offset), maxOffset+min(max(time.Duration(n.Node.Within), 0), 1<<62)
		switch {
		case d > limit:
			return d.Round(step(d)).String() + " ahead"
		case d < -limit && d > -1<<62:
			return (-d).Round(step(-d)).String() + " behind"
		default:
			return ""
		}
	}), Finding{Text: "Clocks differ from the coordinator's, so that the order of events in logs is not theirs."})
}

// step is a tenth of the offset's magnitude, so that similar ones are grouped.
func step(d time.Duration) time.Duration {
	s := 100 * time.Millisecond
	for ; s < d/10; s *= 10 {
	}
	return s
}

func checkArch(f *Fleet) []Finding {
	v := f.look()
	if !v.nccl && !v.gloo {
		return nil
	}
	oldest := 0 // of the known NCCLs
	vendorBug := false
	for _, n := range f.known() {
		code := n.ncclCode()
		vendorBug = vendorBug || code >= 21801 && code <= 21903 && n.env("NCCL_NET_OVERHEAD") == ""
		if code > 0 && (oldest == 0 || code < oldest) {
			oldest = code
		}
	}
	arch := Finding{Text: "The nodes have different architectures; numbers may differ, and each needs its own programs."}
	if v.nccl && oldest > 0 && oldest < 22400 {
		arch.Severity = Error
		arch.Text = "The nodes have different architectures, which NCCL " + versionOf(oldest) + " cannot mix (2.24 can)."
	}
	all := one(f.differ(func(_ int, n *Facts) string { return n.Host.Arch }), arch)
	if v.nccl && len(all) == 0 {
		vendor := Finding{Steps: []Step{byHand("start the job on machines of one kind, unless the difference is meant")}, Text: "The nodes have CPUs of different vendors; NCCL may choose differently on them."}
		if vendorBug {
			vendor.Text = "The nodes have CPUs of different vendors, with which NCCL 2.18.1 to 2.19.3 may hang."
			vendor.Steps = []Step{everyRank("have all nodes reckon alike", "NCCL_NET_OVERHEAD", "0"), byHand("install NCCL 2.20 or newer on all nodes").or()}
		}
		all = append(all, one(f.differ(func(_ int, n *Facts) string { return n.Host.CPUVendor }), vendor)...)
	}
	return append(all, one(f.differ(func(_ int, n *Facts) string { return n.Host.Kernel }), Finding{
		Severity: Note,
		Text:     "The nodes run different kernels.",
		Steps:    []Step{byHand("nothing has to be done")},
	})...)
}

func checkSysfs(f *Fleet) []Finding {
	concerned := func(n *Facts) bool { return n.GPU.Driver && n.Host.Arch != "" }
	all := one(f.faults(func(_ int, n *Facts) string {
		if !concerned(n) || n.Host.SysPCI {
			return ""
		}
		return "/sys/class/pci_bus cannot be read"
	}), Finding{Text: "NCCL cannot learn how the GPUs are connected."})
	return append(all, one(f.faults(func(_ int, n *Facts) string {
		wsl := slices.ContainsFunc(n.Host.DevNodes, func(d host.Node) bool { return d.Path == host.WSL })
		if !concerned(n) || n.Host.ProcGPU || wsl { // there the driver is Windows'
			return ""
		}
		return "/proc/driver/nvidia cannot be read"
	}), Finding{Severity: Warning, Text: "The driver's folder in /proc is missing: the container has only a part of the driver.", Steps: []Step{
		toContainer("have NVIDIA's runtime give the container its GPUs", "--gpus all"),
		byHand("ask the administrator of the marked nodes to mount /proc where the workers run").or(),
	}})...)
}
