package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// healthRules returns D03, D06, D09 and G01 to G03: the state of the GPUs that
// the workers use, as the driver reports it.
func healthRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "D03", Name: "fabric-manager", Severity: preflight.Error,
			Meaning: "On machines with NVSwitch the Fabric Manager has made the GPUs ready; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
			Users:   "CUDA error 802, `system not yet initialized`; `Failed to bind NVLink SHARP (NVLS) Multicast memory`.",
			Steps: []preflight.Step{
				preflight.AsRoot.Step("start the Fabric Manager of the driver's version, and reset the GPUs if it was started after them", "systemctl restart nvidia-fabricmanager"),
				preflight.ToLook.Step("how it stands", "nvidia-smi -q | grep -A3 Fabric"),
			},
			Check: checkFabric,
		},
		{
			ID: "D06", Name: "mig", Severity: preflight.Error,
			Meaning: "No two workers get MIG instances of one GPU; on instances of different GPUs they lack NVLink and peer-to-peer, which is a warning.",
			Users:   "`Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000`, `invalid usage`; slow collectives.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("use whole GPUs, when no process computes on them", "nvidia-smi -mig 0")},
			Check:   checkMIG,
		},
		{
			ID: "D09", Name: "compute-mode", Severity: preflight.Error,
			Meaning: "The workers may compute on their GPUs: none is in the mode Prohibited, and none in Exclusive_Process when another process holds it or workers share it; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
			Users:   "`all CUDA-capable devices are busy or unavailable`.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("let processes share them", "nvidia-smi -c 0")},
			Check:   checkComputeMode,
		},
		{
			ID: "G01", Name: "gpu-health", Severity: preflight.Warning,
			Meaning: "The memory of the workers' GPUs is sound: no uncorrected errors since the driver was loaded, no rows or pages that wait for a reset to be replaced, no row that could not be.",
			Users:   "Xid 48, 63, 64, 94 or 95 in the kernel's log and the end of a worker, hours later.",
			Steps: []preflight.Step{
				preflight.AsRoot.Step("reset the GPUs when no process uses them", "nvidia-smi --gpu-reset"),
				preflight.ToLook.Step("what is wrong with them", "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"),
				preflight.ByHand.Step("ask the administrator of the marked nodes to have a GPU exchanged of which no row is left").Alternative(),
			},
			Check: checkGPUMemory,
		},
		{
			ID: "G02", Name: "nvlink", Severity: preflight.Warning,
			Meaning: "As many NVLinks are up on each of the workers' GPUs as on the others of its model.",
			Users:   "Half the bandwidth; `Cuda failure 'peer access is not supported between these two devices'`.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the marked nodes to reset the GPUs, and to have the machine serviced if the links stay down"),
				preflight.ToLook.Step("which links are up", "nvidia-smi nvlink -s"),
			},
			Check: checkLinks,
		},
		{
			ID: "G03", Name: "gpu-clocks", Severity: preflight.Warning,
			Meaning: "Neither heat nor the power supply holds down the clocks of the workers' GPUs.",
			Users:   "One slow rank, for which all others wait.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the marked nodes to look at cooling and power"),
				preflight.ToLook.Step("what holds the clocks down", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
			},
			Check: checkClocks,
		},
	}
}

// eachUsedGPU calls each for the GPUs that the node's workers may use, with the
// number of the GPU's MIG instances that they see.
func eachUsedGPU(n *preflight.Facts, each func(d *preflight.Device, instances int)) {
	if hidesGPUs(n) {
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

// gpuFault says what is wrong with a GPU that a node's workers use; "" means
// nothing.
type gpuFault func(n *preflight.Facts, d *preflight.Device, instances int) string

// of groups the indices of the node's GPUs by their fault.
func (g gpuFault) of(n *preflight.Facts) (texts []string, indices [][]string) {
	eachUsedGPU(n, func(d *preflight.Device, instances int) {
		why := g(n, d, instances)
		if why == "" {
			return
		}
		i := slices.Index(texts, why)
		if i < 0 {
			i = len(texts)
			texts, indices = append(texts, why), append(indices, nil)
		}
		indices[i] = append(indices[i], fmt.Sprint(d.Index))
	})
	return texts, indices
}

// nodes finds nodes with faulty GPUs: with need, the nodes whose workers need
// GPUs, else the other nodes.
func (g gpuFault) nodes(f *preflight.Fleet, need bool) []preflight.Value {
	return preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		if usesGPU(n) != need {
			return
		}
		texts, indices := g.of(n)
		for i, text := range texts {
			add(fmt.Sprintf("GPU %s: %s", strings.Join(indices[i], ", "), text))
		}
	}))
}

// nvidiaSMI returns the step that runs nvidia-smi with an option for the faulty
// GPUs.
func (g gpuFault) nvidiaSMI(f *preflight.Fleet, values []preflight.Value, text, option string) []preflight.Step {
	return f.StepsFor(preflight.Marked(values), preflight.AsRoot, text, func(_ int, n *preflight.Facts) []string {
		var list []string
		eachUsedGPU(n, func(d *preflight.Device, instances int) {
			if g(n, d, instances) != "" {
				list = append(list, fmt.Sprint(d.Index))
			}
		})
		if list == nil {
			return nil
		}
		return []string{"nvidia-smi -i " + strings.Join(list, ",") + " " + option}
	})
}

// findings returns an error for nodes that need the GPUs and a warning for
// other nodes.
func (g gpuFault) findings(f *preflight.Fleet, text string, steps func([]preflight.Value) []preflight.Step) []preflight.Finding {
	grave, other := g.nodes(f, true), g.nodes(f, false)
	return append(preflight.IfAny(grave, preflight.Finding{Text: text, Steps: steps(grave)}),
		preflight.IfAny(other, preflight.Finding{Severity: preflight.Warning, Text: text, Steps: steps(other)})...)
}

func checkFabric(f *preflight.Fleet) []preflight.Finding {
	idle := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string {
		switch {
		case len(d.Links) == 0: // the GPU is not on the fabric
			return ""
		case d.Fabric == "not started", d.Fabric == "in progress":
			return "its part of the NVLink fabric is " + d.Fabric
		case d.FabricError != "":
			return "its part of the NVLink fabric failed: " + d.FabricError
		}
		return ""
	})
	return idle.findings(f, "The Fabric Manager has not made the GPUs ready, and CUDA does not start without it.", func([]preflight.Value) []preflight.Step { return nil })
}

func checkMIG(f *preflight.Fleet) []preflight.Finding {
	if v := f.View(); v.Ranks < 2 {
		return nil
	}
	misMIG := gpuFault(func(n *preflight.Facts, _ *preflight.Device, instances int) string {
		if instances < 2 || n.Node.Workers < len(n.GPU.Visible) || n.IsOn("NCCL_MULTI_RANK_GPU_ENABLE") {
			return ""
		}
		return fmt.Sprintf("%d MIG instances of it are for several workers", instances)
	})
	isMIG := gpuFault(func(_ *preflight.Facts, _ *preflight.Device, instances int) string {
		if instances == 0 {
			return ""
		}
		return preflight.Plural(instances, "MIG instance")
	})
	whole := func(values []preflight.Value) []preflight.Step {
		return append(isMIG.nvidiaSMI(f, values, "use whole GPUs, when no process computes on them", "-mig 0"), sameGPUs(f)...)
	}
	if twice := misMIG.nodes(f, true); len(twice) > 0 {
		return preflight.IfAny(twice, preflight.Finding{Text: "Workers get MIG instances of one GPU, which NCCL takes for the same device.", Steps: whole(twice)})
	}
	parts := isMIG.nodes(f, true)
	return preflight.IfAny(parts, preflight.Finding{Severity: preflight.Warning, Text: "The workers get MIG instances, which have neither NVLink nor peer-to-peer.", Steps: whole(parts)})
}

// sameGPUs returns the step that starts no more workers than a node has GPUs
// once they are repaired.
func sameGPUs(f *preflight.Fleet) []preflight.Step {
	least, most := 0, 0
	for _, n := range f.Known() {
		whole := 0
		eachUsedGPU(n, func(*preflight.Device, int) { whole++ })
		if whole > 0 && (least == 0 || whole < least) {
			least = whole
		}
		most = max(most, n.Node.Workers)
	}
	if least == 0 || most <= least {
		return nil
	}
	return []preflight.Step{preflight.ToGorun.Step("start as many workers as there are GPUs then", "--nproc-per-node "+fmt.Sprint(least)).Everywhere()}
}

func checkComputeMode(f *preflight.Fleet) []preflight.Finding {
	barred := gpuFault(func(n *preflight.Facts, d *preflight.Device, _ int) string {
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
	return barred.findings(f, "The workers cannot compute on their GPUs, or not all of them.", func(values []preflight.Value) []preflight.Step {
		return barred.nvidiaSMI(f, values, "let processes share them", "-c 0")
	})
}

func checkGPUMemory(f *preflight.Fleet) []preflight.Finding {
	is := func(b *bool) bool { return b != nil && *b }
	worn := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string {
		if is(d.RemapFailed) {
			return "a row of its memory could not be replaced"
		}
		return ""
	})
	pending := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string {
		var what []string
		if is(d.RemapPending) {
			what = append(what, "rows of its memory are to be replaced at the next reset")
		}
		if is(d.RetirePending) {
			what = append(what, "pages of its memory are to be retired at the next reset")
		}
		if d.Uncorrected != nil && *d.Uncorrected > 0 {
			what = append(what, preflight.Plural(int(min(*d.Uncorrected, 1<<30)), "uncorrected error")+" of its memory")
		}
		return strings.Join(what, ", ")
	})
	look := preflight.ToLook.Step("what is wrong with them", "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT")
	old, sick := worn.nodes(f, true), pending.nodes(f, true)
	return append(preflight.IfAny(sick, preflight.Finding{Text: "The memory of GPUs that the job will use has errors.", Steps: append(pending.nvidiaSMI(f, sick, "reset them when no process uses them", "--gpu-reset"), look)}),
		preflight.IfAny(old, preflight.Finding{Text: "The memory of GPUs that the job will use is worn out.", Steps: []preflight.Step{preflight.ByHand.Step("ask the administrator of " + f.NamesOf(preflight.Marked(old)) + " to have the GPUs exchanged"), look}})...)
}

func checkLinks(f *preflight.Fleet) []preflight.Finding {
	up := func(d *preflight.Device) (n int) {
		for _, is := range d.Links {
			if is {
				n++
			}
		}
		return n
	}
	most := map[string]int{} // by model
	for _, n := range f.Known() {
		for i := range n.GPU.Devices {
			d := &n.GPU.Devices[i]
			most[d.Name] = max(most[d.Name], up(d))
		}
	}
	down := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string {
		// MIG turns the links off. An empty list says nothing about the links.
		if have := up(d); len(d.Links) > 0 && have < most[d.Name] && (d.MIG == nil || !*d.MIG) {
			return fmt.Sprintf("%d of %d NVLinks are up", have, most[d.Name])
		}
		return ""
	})
	return preflight.IfAny(down.nodes(f, true), preflight.Finding{Text: "NVLinks of GPUs that the job will use are down."})
}

func checkClocks(f *preflight.Fleet) []preflight.Finding {
	slowed := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string { return strings.Join(d.Slowed, ", ") })
	return preflight.IfAny(slowed.nodes(f, true), preflight.Finding{Text: "GPUs that the job will use are held down."})
}
