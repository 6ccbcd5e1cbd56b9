package rules

import (
	"cmp"
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
			Symptom: "CUDA error 802, `system not yet initialized`; `Failed to bind NVLink SHARP (NVLS) Multicast memory`.",
			Steps: []preflight.Step{
				preflight.AsRoot.Step("start the Fabric Manager of the driver's version, and reset the GPUs if it starts after them", "systemctl restart nvidia-fabricmanager"),
				preflight.ToShow.Step("the state of the fabric", "nvidia-smi -q | grep -A3 Fabric"),
			},
			Check: checkFabric,
		},
		{
			ID: "D06", Name: "mig", Severity: preflight.Error,
			Meaning: "No two workers get MIG instances of one GPU; on instances of different GPUs they lack NVLink and peer-to-peer, which is a warning.",
			Symptom: "`Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000`, `invalid usage`; slow collectives.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("use whole GPUs, when no process computes on them", "nvidia-smi -mig 0")},
			Check:   checkMIG,
		},
		{
			ID: "D09", Name: "compute-mode", Severity: preflight.Error,
			Meaning: "The workers may compute on their GPUs: none is in the mode Prohibited, and none in Exclusive_Process when another process holds it or workers share it; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
			Symptom: "`all CUDA-capable devices are busy or unavailable`.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("let processes share them", "nvidia-smi -c 0")},
			Check:   checkComputeMode,
		},
		{
			ID: "G01", Name: "gpu-health", Severity: preflight.Warning,
			Meaning: "The memory of the workers' GPUs has had no uncorrected errors since the driver was loaded, no rows or pages of it wait for a reset to be replaced, and no row could not be replaced.",
			Symptom: "Xid 48, 63, 64, 94 or 95 in the kernel's log and the end of a worker, hours later.",
			Steps: []preflight.Step{
				preflight.AsRoot.Step("reset the GPUs when no process uses them", "nvidia-smi --gpu-reset"),
				preflight.ToShow.Step("what is wrong with them", "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT"),
				preflight.ByHand.Step("ask the administrator of the marked nodes to replace a GPU that has no spare row of memory left").Alternative(),
			},
			Check: checkGPUMemory,
		},
		{
			ID: "G02", Name: "nvlink", Severity: preflight.Warning,
			Meaning: "As many NVLinks are up on each of the workers' GPUs as on the others of its model.",
			Symptom: "Half the bandwidth; `Cuda failure 'peer access is not supported between these two devices'`.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the marked nodes to reset the GPUs, and to repair the machine if the links stay down"),
				preflight.ToShow.Step("which links are up", "nvidia-smi nvlink -s"),
			},
			Check: checkLinks,
		},
		{
			ID: "G03", Name: "gpu-clocks", Severity: preflight.Warning,
			Meaning: "Neither heat nor the power supply holds down the clocks of the workers' GPUs.",
			Symptom: "One slow rank, for which all others wait.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the marked nodes to check cooling and power"),
				preflight.ToShow.Step("what holds the clocks down", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
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

// group groups the indices of the node's GPUs by their fault.
func (g gpuFault) group(n *preflight.Facts) (texts []string, indices [][]string) {
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

// texts says what is wrong with the node's GPUs.
func (g gpuFault) texts(n *preflight.Facts) []string {
	texts, indices := g.group(n)
	for i := range texts {
		texts[i] = fmt.Sprintf("GPU %s: %s", strings.Join(indices[i], ", "), texts[i])
	}
	return texts
}

// nodes finds nodes with faulty GPUs whose workers need GPUs.
func (g gpuFault) nodes(f *preflight.Fleet) []preflight.Value {
	return preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		if usesGPU(n) {
			for _, text := range g.texts(n) {
				add(text)
			}
		}
	}))
}

// nvidiaSMI returns the step that runs nvidia-smi with an option for the faulty
// GPUs.
func (g gpuFault) nvidiaSMI(f *preflight.Fleet, nodes []int, text, option string) []preflight.Step {
	return f.StepsFor(nodes, preflight.AsRoot, text, func(_ int, n *preflight.Facts) []string {
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
func (g gpuFault) findings(f *preflight.Fleet, text string, steps func(nodes []int) []preflight.Step) []preflight.Finding {
	return bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		for _, text := range g.texts(n) {
			add(errorIf(usesGPU(n)), text)
		}
	}, func(_ preflight.Severity, nodes []int) preflight.Finding {
		return preflight.Finding{Text: text, Steps: steps(nodes)}
	})
}

func checkFabric(f *preflight.Fleet) []preflight.Finding {
	notReady := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string {
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
	return notReady.findings(f, "The Fabric Manager has not made the GPUs ready, and CUDA does not start without it.", func([]int) []preflight.Step { return nil })
}

func checkMIG(f *preflight.Fleet) []preflight.Finding {
	if v := f.View(); v.Ranks < 2 {
		return nil
	}
	sharedGPU := gpuFault(func(n *preflight.Facts, _ *preflight.Device, instances int) string {
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
	wholeGPUs := func(values []preflight.Value) []preflight.Step {
		return append(isMIG.nvidiaSMI(f, preflight.Marked(values), "use whole GPUs, when no process computes on them", "-mig 0"), sameGPUs(f)...)
	}
	if shared := sharedGPU.nodes(f); len(shared) > 0 {
		return preflight.IfAny(shared, preflight.Finding{Text: "Workers get MIG instances of one GPU, which NCCL takes for the same device.", Steps: wholeGPUs(shared)})
	}
	parts := isMIG.nodes(f)
	return preflight.IfAny(parts, preflight.Finding{Severity: preflight.Warning, Text: "The workers get MIG instances, which have neither NVLink nor peer-to-peer.", Steps: wholeGPUs(parts)})
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
	forbidden := gpuFault(func(n *preflight.Facts, d *preflight.Device, _ int) string {
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
				return fmt.Sprintf("its compute mode is Exclusive_Process, and pid %d (%s) holds it", h.PID, cmp.Or(h.Name, "unknown"))
			}
		}
		return ""
	})
	return forbidden.findings(f, "Workers cannot compute on some of their GPUs, or on all.", func(nodes []int) []preflight.Step {
		return forbidden.nvidiaSMI(f, nodes, "let processes share them", "-c 0")
	})
}

func checkGPUMemory(f *preflight.Fleet) []preflight.Finding {
	isTrue := func(b *bool) bool { return b != nil && *b }
	isWornOut := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string {
		if isTrue(d.RemapFailed) {
			return "a row of its memory could not be replaced"
		}
		return ""
	})
	isPending := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string {
		var what []string
		if isTrue(d.RemapPending) {
			what = append(what, "rows of its memory are to be replaced at the next reset")
		}
		if isTrue(d.RetirePending) {
			what = append(what, "pages of its memory are to be retired at the next reset")
		}
		if d.Uncorrected != nil && *d.Uncorrected > 0 {
			what = append(what, preflight.Plural(int(min(*d.Uncorrected, 1<<30)), "uncorrected error")+" of its memory")
		}
		return strings.Join(what, ", ")
	})
	show := preflight.ToShow.Step("what is wrong with them", "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT")
	wornOut, pending := isWornOut.nodes(f), isPending.nodes(f)
	return append(preflight.IfAny(pending, preflight.Finding{Text: "The memory of GPUs that the job will use has errors.", Steps: append(isPending.nvidiaSMI(f, preflight.Marked(pending), "reset them when no process uses them", "--gpu-reset"), show)}),
		preflight.IfAny(wornOut, preflight.Finding{Text: "The memory of GPUs that the job will use is worn out.", Steps: []preflight.Step{preflight.ByHand.Step("ask the administrator of " + f.NamesOf(preflight.Marked(wornOut)) + " to replace the GPUs"), show}})...)
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
	return preflight.IfAny(down.nodes(f), preflight.Finding{Text: "NVLinks of GPUs that the job will use are down."})
}

func checkClocks(f *preflight.Fleet) []preflight.Finding {
	slowed := gpuFault(func(_ *preflight.Facts, d *preflight.Device, _ int) string { return strings.Join(d.Slowed, ", ") })
	return preflight.IfAny(slowed.nodes(f), preflight.Finding{Text: "The clocks of GPUs that the job will use are held down."})
}
