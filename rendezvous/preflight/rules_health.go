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
			Steps: []Step{
				asRoot("start the Fabric Manager of the driver's version, and reset the GPUs if it was started after them", "systemctl restart nvidia-fabricmanager"),
				toLook("how it stands", "nvidia-smi -q | grep -A3 Fabric"),
			},
			Check: checkFabric,
		},
		{
			ID: "D06", Name: "mig", Severity: Error,
			Meaning: "No two workers get MIG instances of one GPU; on instances of different GPUs they lack NVLink and peer-to-peer, which is a warning.",
			Users:   "`Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000`, `invalid usage`; slow collectives.",
			Steps:   []Step{asRoot("use whole GPUs, when nobody computes on them", "nvidia-smi -mig 0")},
			Check:   checkMIG,
		},
		{
			ID: "D09", Name: "compute-mode", Severity: Error,
			Meaning: "The workers may compute on their GPUs: none is in the mode Prohibited, and none in Exclusive_Process when somebody else holds it or workers share it; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
			Users:   "`all CUDA-capable devices are busy or unavailable`.",
			Steps:   []Step{asRoot("let processes share them", "nvidia-smi -c 0")},
			Check:   checkComputeMode,
		},
		{
			ID: "G01", Name: "gpu-health", Severity: Warning,
			Meaning: "The memory of the workers' GPUs is sound: no uncorrected errors since the driver was loaded, no rows or pages that wait for a reset to be replaced, no row that could not be.",
			Users:   "Xid 48, 63, 64, 94 or 95 in the kernel's log and the end of a worker, hours later.",
			Steps: []Step{
				asRoot("reset the GPUs when nobody uses them", "nvidia-smi --gpu-reset"),
				toLook("what is wrong with them", "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"),
				byHand("ask the administrator of the marked nodes to have a GPU exchanged of which no row is left").or(),
			},
			Check: checkGPUMemory,
		},
		{
			ID: "G02", Name: "nvlink", Severity: Warning,
			Meaning: "As many NVLinks are up on each of the workers' GPUs as on the others of its model.",
			Users:   "Half the bandwidth; `Cuda failure 'peer access is not supported between these two devices'`.",
			Steps: []Step{
				byHand("ask the administrator of the marked nodes to reset the GPUs, and to have the machine serviced if the links stay down"),
				toLook("which links are up", "nvidia-smi nvlink -s"),
			},
			Check: checkLinks,
		},
		{
			ID: "G03", Name: "gpu-clocks", Severity: Warning,
			Meaning: "Neither heat nor the power supply holds down the clocks of the workers' GPUs.",
			Users:   "One slow rank, for which all others wait.",
			Steps: []Step{
				byHand("ask the administrator of the marked nodes to look at cooling and power"),
				toLook("what holds the clocks down", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
			},
			Check: checkClocks,
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

// indicesOf are the GPUs of a node with which something is wrong, as nvidia-smi
// takes them: "0,3".
func (n *Facts) indicesOf(what func(n *Facts, d *Device, instances int) string) string {
	var list []string
	n.use(func(d *Device, instances int) {
		if what(n, d, instances) != "" {
			list = append(list, fmt.Sprint(d.Index))
		}
	})
	return strings.Join(list, ",")
}

// smi is nvidia-smi with an option, for those GPUs of nodes with which something
// is wrong.
func (f *Fleet) smi(values []Value, text, option string, what func(n *Facts, d *Device, instances int) string) []Step {
	return f.each(marked(values), asRoot, text, func(_ int, n *Facts) []string {
		list := n.indicesOf(what)
		if list == "" {
			return nil
		}
		return []string{"nvidia-smi -i " + list + " " + option}
	})
}

// gpuFindings is an error for those who need the GPUs, and else a warning.
func (f *Fleet) gpuFindings(x Finding, what func(n *Facts, d *Device, instances int) string, steps func([]Value) []Step) []Finding {
	grave, other := f.gpuFaults(true, what), f.gpuFaults(false, what)
	y := x
	y.Severity = Warning
	x.Steps, y.Steps = steps(grave), steps(other)
	return append(one(grave, x), one(other, y)...)
}

func checkFabric(f *Fleet) []Finding {
	return f.gpuFindings(Finding{Text: "The Fabric Manager has not made the GPUs ready, and CUDA does not start without it."},
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
		}, func([]Value) []Step { return nil })
}

func checkMIG(f *Fleet) []Finding {
	if v := f.look(); v.ranks < 2 {
		return nil
	}
	many := func(n *Facts, _ *Device, instances int) string {
		if instances < 2 || n.Node.Workers < len(n.GPU.Visible) || n.on("NCCL_MULTI_RANK_GPU_ENABLE") {
			return ""
		}
		return fmt.Sprintf("%d MIG instances of it are for several workers", instances)
	}
	any := func(_ *Facts, _ *Device, instances int) string {
		if instances == 0 {
			return ""
		}
		return plural(instances, "MIG instance")
	}
	whole := func(values []Value) []Step {
		return append(f.smi(values, "use whole GPUs, when nobody computes on them", "-mig 0", any), f.sameGPUs()...)
	}
	if twice := f.gpuFaults(true, many); len(twice) > 0 {
		return one(twice, Finding{Text: "Workers get MIG instances of one GPU, which NCCL takes for the same device.", Steps: whole(twice)})
	}
	parts := f.gpuFaults(true, any)
	return one(parts, Finding{Severity: Warning, Text: "The workers get MIG instances, which have neither NVLink nor peer-to-peer.", Steps: whole(parts)})
}

// sameGPUs starts no more workers than a node has GPUs once they are whole.
func (f *Fleet) sameGPUs() []Step {
	least, most := 0, 0
	for _, n := range f.known() {
		whole := 0
		n.use(func(*Device, int) { whole++ })
		if whole > 0 && (least == 0 || whole < least) {
			least = whole
		}
		most = max(most, n.Node.Workers)
	}
	if least == 0 || most <= least {
		return nil
	}
	return []Step{toGorun("start as many workers as there are GPUs then", "--nproc-per-node "+fmt.Sprint(least)).everywhere()}
}

func checkComputeMode(f *Fleet) []Finding {
	what := func(n *Facts, d *Device, _ int) string {
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
	}
	return f.gpuFindings(Finding{Text: "The workers cannot compute on their GPUs, or not all of them."}, what, func(values []Value) []Step {
		return f.smi(values, "let processes share them", "-c 0", what)
	})
}

func checkGPUMemory(f *Fleet) []Finding {
	is := func(b *bool) bool { return b != nil && *b }
	worn := func(_ *Facts, d *Device, _ int) string {
		if is(d.RemapFailed) {
			return "a row of its memory could not be replaced"
		}
		return ""
	}
	pending := func(_ *Facts, d *Device, _ int) string {
		var what []string
		if is(d.RemapPending) {
			what = append(what, "rows of its memory are to be replaced at the next reset")
		}
		if is(d.RetirePending) {
			what = append(what, "pages of its memory are to be retired at the next reset")
		}
		if d.Uncorrected != nil && *d.Uncorrected > 0 {
			what = append(what, plural(int(min(*d.Uncorrected, 1<<30)), "uncorrected error")+" of its memory")
		}
		return strings.Join(what, ", ")
	}
	look := toLook("what is wrong with them", "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT")
	old, sick := f.gpuFaults(true, worn), f.gpuFaults(true, pending)
	return append(one(sick, Finding{Text: "The memory of GPUs that the job will use has errors.", Steps: append(f.smi(sick, "reset them when nobody uses them", "--gpu-reset", pending), look)}),
		one(old, Finding{Text: "The memory of GPUs that the job will use is worn out.", Steps: []Step{byHand("ask the administrator of " + f.called(marked(old)) + " to have the GPUs exchanged"), look}})...)
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
