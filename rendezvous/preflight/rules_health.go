package preflight

import (
	"fmt"
	"strings"
)

// healthRules are D03, D06, D09 and G01 to G03: the state of the GPUs that the
// workers use, as the driver tells it.
func healthRules() []Rule {
	return []Rule{
		{
			ID: "D03", Name: "fabric-manager", Severity: Error,
			Meaning: "On machines with NVSwitch the Fabric Manager has made the GPUs ready; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
			Users:   "CUDA error 802, `system not yet initialized`; `Failed to bind NVLink SHARP (NVLS) Multicast memory`.",
			Fix:     "start the Fabric Manager of the driver's version, and reset the GPUs if it was started after them:\n  systemctl restart nvidia-fabricmanager\n  nvidia-smi -q | grep -A3 Fabric",
			Check:   checkFabric,
		},
		{
			ID: "D06", Name: "mig", Severity: Error,
			Meaning: "No two workers get MIG instances of one GPU; on instances of different GPUs they lack NVLink and peer-to-peer, which is a warning.",
			Users:   "`Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000`, `invalid usage`; slow collectives.",
			Fix:     "use whole GPUs, or one instance of each:\n  nvidia-smi -i 0 -mig 0",
			Check:   checkMIG,
		},
		{
			ID: "D09", Name: "compute-mode", Severity: Error,
			Meaning: "The workers may compute on their GPUs: none is in the mode Prohibited, and none in Exclusive_Process when somebody else holds it or workers share it; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
			Users:   "`all CUDA-capable devices are busy or unavailable`.",
			Fix:     "set the mode Default:\n  nvidia-smi -c 0",
			Check:   checkComputeMode,
		},
		{
			ID: "G01", Name: "gpu-health", Severity: Warning,
			Meaning: "The memory of the workers' GPUs is sound: no uncorrected errors since the driver was loaded, no rows or pages that wait for a reset to be replaced, no row that could not be.",
			Users:   "Xid 48, 63, 64, 94 or 95 in the kernel's log and the end of a worker, hours later.",
			Fix:     "reset the GPU when nobody uses it; have it exchanged where no row is left:\n  nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT\n  nvidia-smi --gpu-reset -i 0",
			Check:   checkGPUMemory,
		},
		{
			ID: "G02", Name: "nvlink", Severity: Warning,
			Meaning: "As many NVLinks are up on each of the workers' GPUs as on the others of its model.",
			Users:   "Half the bandwidth; `Cuda failure 'peer access is not supported between these two devices'`.",
			Fix:     "reset the GPUs of the node, and have it serviced if the links stay down:\n  nvidia-smi nvlink -s",
			Check:   checkLinks,
		},
		{
			ID: "G03", Name: "gpu-clocks", Severity: Warning,
			Meaning: "Neither heat nor the power supply holds down the clocks of the workers' GPUs.",
			Users:   "One slow rank, for which all others wait.",
			Fix:     "look at cooling and power:\n  nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",
			Check:   checkClocks,
		},
	}
}

// use gives the GPUs that the node's workers may use, with the MIG instances that
// they see of each.
func (n *Facts) use(each func(d *Device, instances int)) {
	if n.hides() {
		return
	}
	visible := map[string]bool{}
	for _, id := range n.GPU.Visible {
		visible[id] = true
	}
	for i := range n.GPU.Devices {
		d := &n.GPU.Devices[i]
		parts := 0
		for _, id := range d.Instances {
			if visible[id] {
				parts++
			}
		}
		if parts > 0 || d.UUID != "" && visible[d.UUID] {
			each(d, parts)
		}
	}
}

// faulty says what is wrong with which of the node's GPUs: "GPU 0, 3: too hot".
func (n *Facts) faulty(what func(d *Device, instances int) string) (texts []string) {
	var order []string
	at := map[string][]string{}
	n.use(func(d *Device, instances int) {
		why := what(d, instances)
		if why == "" {
			return
		}
		if at[why] == nil {
			order = append(order, why)
		}
		at[why] = append(at[why], fmt.Sprint(d.Index))
	})
	for _, why := range order {
		texts = append(texts, fmt.Sprintf("GPU %s: %s", strings.Join(at[why], ", "), why))
	}
	return texts
}

// gpuFaults finds the nodes with such GPUs: those whose workers are seen to need
// them, or the others.
func (f *Fleet) gpuFaults(need bool, what func(n *Facts, d *Device, instances int) string) []Value {
	return odd(f.collect(func(_ int, n *Facts, add func(string)) {
		if n.usesGPU() != need {
			return
		}
		for _, text := range n.faulty(func(d *Device, instances int) string { return what(n, d, instances) }) {
			add(text)
		}
	}))
}

// gpuFindings is an error for those who need the GPUs, and else a warning.
func (f *Fleet) gpuFindings(text string, what func(n *Facts, d *Device, instances int) string) []Finding {
	return append(one(f.gpuFaults(true, what), Finding{Text: text}),
		one(f.gpuFaults(false, what), Finding{Severity: Warning, Text: text})...)
}

func checkFabric(f *Fleet) []Finding {
	return f.gpuFindings("The Fabric Manager has not made the GPUs ready, and CUDA does not start without it.",
		func(_ *Facts, d *Device, _ int) string {
			switch {
			case len(d.Links) == 0: // it is not on the fabric
				return ""
			case d.Fabric == "not started", d.Fabric == "in progress":
				return "its part of the NVLink fabric is " + d.Fabric
			case d.FabricError != "":
				return "its part of the NVLink fabric failed: " + d.FabricError
			}
			return ""
		})
}

func checkMIG(f *Fleet) []Finding {
	if v := f.look(); v.ranks < 2 {
		return nil
	}
	twice := f.gpuFaults(true, func(n *Facts, _ *Device, instances int) string {
		if instances < 2 || n.Node.Workers < len(n.GPU.Visible) || n.on("NCCL_MULTI_RANK_GPU_ENABLE") {
			return ""
		}
		return fmt.Sprintf("%d MIG instances of it are for several workers", instances)
	})
	if len(twice) > 0 {
		return one(twice, Finding{Text: "Workers get MIG instances of one GPU, which NCCL takes for the same device."})
	}
	return one(f.gpuFaults(true, func(_ *Facts, _ *Device, instances int) string {
		if instances == 0 {
			return ""
		}
		return plural(instances, "MIG instance")
	}), Finding{Severity: Warning, Text: "The workers get MIG instances, which have neither NVLink nor peer-to-peer."})
}

func checkComputeMode(f *Fleet) []Finding {
	return f.gpuFindings("The workers cannot compute on their GPUs, or not all of them.",
		func(n *Facts, d *Device, _ int) string {
			switch {
			case d.ComputeMode == "prohibited":
				return "its compute mode is Prohibited"
			case d.ComputeMode != "exclusive-process":
				return ""
			case n.Node.Workers > len(n.GPU.Visible):
				return "its compute mode is Exclusive_Process, and workers have to share it"
			}
			for _, h := range n.GPU.Busy {
				if h.GPU == d.UUID && !strings.HasPrefix(h.Name, "nvidia-cuda-mps") {
					return fmt.Sprintf("its compute mode is Exclusive_Process, and pid %d (%s) holds it", h.PID, orUnknown(h.Name))
				}
			}
			return ""
		})
}

func checkGPUMemory(f *Fleet) []Finding {
	return one(f.gpuFaults(true, func(_ *Facts, d *Device, _ int) string {
		var what []string
		for _, bad := range []struct {
			is   *bool
			text string
		}{
			{d.RemapFailed, "a row of its memory could not be replaced"},
			{d.RemapPending, "rows of its memory are to be replaced at the next reset"},
			{d.RetirePending, "pages of its memory are to be retired at the next reset"},
		} {
			if bad.is != nil && *bad.is {
				what = append(what, bad.text)
			}
		}
		if d.Uncorrected != nil && *d.Uncorrected > 0 {
			what = append(what, plural(int(min(*d.Uncorrected, 1<<30)), "uncorrected error")+" of its memory")
		}
		return strings.Join(what, ", ")
	}), Finding{Text: "The memory of GPUs that the job will use has errors."})
}

func checkLinks(f *Fleet) []Finding {
	up := func(d *Device) (n int) {
		for _, is := range d.Links {
			if is {
				n++
			}
		}
		return n
	}
	most := map[string]int{} // by model
	for _, n := range f.known() {
		for i := range n.GPU.Devices {
			d := &n.GPU.Devices[i]
			most[d.Name] = max(most[d.Name], up(d))
		}
	}
	return one(f.gpuFaults(true, func(_ *Facts, d *Device, _ int) string {
		// MIG turns the links off; without a list nothing is known.
		if have := up(d); len(d.Links) > 0 && have < most[d.Name] && (d.MIG == nil || !*d.MIG) {
			return fmt.Sprintf("%d of %d NVLinks are up", have, most[d.Name])
		}
		return ""
	}), Finding{Text: "NVLinks of GPUs that the job will use are down."})
}

func checkClocks(f *Fleet) []Finding {
	return one(f.gpuFaults(true, func(_ *Facts, d *Device, _ int) string {
		return strings.Join(d.Slowed, ", ")
	}), Finding{Text: "GPUs that the job will use are held down."})
}
