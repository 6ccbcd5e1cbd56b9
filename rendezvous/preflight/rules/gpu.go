package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// gpuRules returns D02, D04, D10 and T03: whether workers find their GPUs.
func gpuRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "D02", Name: "enough-gpu", Severity: preflight.Error,
			Meaning: "A node has at least as many visible GPUs as workers if other nodes have; with --oversubscribe-gpus, and for a program of which gorun sees neither NCCL nor torch, it is a warning. Where every node has fewer, the workers may compute on CPUs: they start, and a line says so.",
			Symptom: "`invalid device ordinal`, `no CUDA-capable device`, `Duplicate GPU detected`.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("start as many workers as there are GPUs", "--nproc-per-node 4").Everywhere(),
				preflight.ByHand.Step("make more GPUs visible: CUDA_VISIBLE_DEVICES, --gres of Slurm, --gpus of docker run").Alternative(),
				preflight.ToGorun.Step("share them on purpose, where the job does not use NCCL", "--oversubscribe-gpus").Everywhere().Alternative(),
			},
			Check: checkEnoughGPUs,
		},
		{
			ID: "D04", Name: "nvml-all", Severity: preflight.Error,
			Meaning: "NVML works, for every GPU of the machine: NCCL asks for all of them, also for those that the job does not use.",
			Symptom: "`nvmlInit_v2() failed`, `nvmlDeviceGetHandleByIndex(5) failed: Unknown Error`, `GPU is lost`.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("leave the marked nodes out of the job, and ask their administrator to reset the GPUs or to restart the machine"),
				preflight.ToShow.Step("what the driver says", "nvidia-smi -q -d ECC,PAGE_RETIREMENT"),
			},
			Check: checkNVML,
		},
		{
			ID: "D10", Name: "device-nodes", Severity: preflight.Error,
			Meaning: "The device files of the driver can be opened; a node whose workers load NCCL has a driver if other nodes of its role have one. That all containers were started without the GPUs of their machines is a warning.",
			Symptom: "`CUDA unknown error` (999), `no CUDA-capable device is detected`.",
			Steps: []preflight.Step{
				preflight.AsRoot.Step("load the driver's modules and create its files", "nvidia-modprobe -u -c 0"),
				preflight.ToContainer.Step("give the container its GPUs", "--gpus all").Alternative(),
			},
			Check: checkDeviceNodes,
		},
		{
			ID: "T03", Name: "stub-libs", Severity: preflight.Error,
			Meaning: "The libcuda.so.1 that workers load is the driver's, not a stub to link with; a folder of stubs in LD_LIBRARY_PATH is a warning.",
			Symptom: "CUDA error 34, `stub library`.",
			Steps:   []preflight.Step{preflight.InShell.Step("remove the folder that ends in /stubs", "export LD_LIBRARY_PATH=/usr/local/cuda/lib64")},
			Check:   checkStubs,
		},
	}
}

func checkEnoughGPUs(f *preflight.Fleet) []preflight.Finding {
	lacks := func(n *preflight.Facts) bool { return n.Node.Workers > len(n.GPU.Visible) }
	enough := false
	for _, n := range f.Known() {
		enough = enough || hasGPUs(n) && !lacks(n)
	}
	return bySeverity(f, func(_ int, n *preflight.Facts, add func(preflight.Severity, string)) {
		if !enough || !hasGPUs(n) || !lacks(n) || n.IsOn("NCCL_MULTI_RANK_GPU_ENABLE") {
			return
		}
		add(errorIf(usesGPU(n) && !n.GPU.Shared), fmt.Sprintf("%s, %s visible of %d", preflight.Plural(n.Node.Workers, "worker"), preflight.Plural(len(n.GPU.Visible), "GPU"), len(n.GPU.Devices)))
	}, func(s preflight.Severity, _ []int) preflight.Finding {
		x := preflight.Finding{Text: "There are more workers than visible GPUs; NCCL refuses two ranks on one GPU.", Steps: fewerWorkers(f)}
		if s == preflight.Error {
			x.Steps = append(x.Steps, preflight.ToGorun.Step("share them on purpose, where the job does not use NCCL", "--oversubscribe-gpus").Everywhere().Alternative())
		}
		return x
	})
}

// fewerWorkers returns the step that starts as many workers on every node as
// the node with the fewest visible GPUs can have.
func fewerWorkers(f *preflight.Fleet) []preflight.Step {
	least := 0
	for _, n := range f.Known() {
		if v := len(n.GPU.Visible); n.GPU.Driver && v > 0 && (least == 0 || v < least) {
			least = v
		}
	}
	more := preflight.ByHand.Step("make more GPUs visible: CUDA_VISIBLE_DEVICES, --gres of Slurm, --gpus of docker run")
	if least == 0 {
		return []preflight.Step{more}
	}
	return []preflight.Step{preflight.ToGorun.Step("start as many workers as there are GPUs", "--nproc-per-node "+strconv.Itoa(least)).Everywhere(), more.Alternative()}
}

// hasGPUs reports whether the node has GPUs that its user did not hide.
func hasGPUs(n *preflight.Facts) bool {
	return n.GPU.Driver && len(n.GPU.Devices) > 0 && !hidesGPUs(n)
}

// usesGPU reports whether the workers load a library that needs GPUs.
func usesGPU(n *preflight.Facts) bool {
	return n.Libraries.NCCL != nil || n.Libraries.NCCLError != "" || n.Libraries.TorchCUDA != ""
}

// hidesGPUs reports whether the user hid all GPUs: the job is for CPUs.
func hidesGPUs(n *preflight.Facts) bool {
	value, set := n.Setting("CUDA_VISIBLE_DEVICES")
	return set && (value == "" || value == "-1" || value == "NoDevFiles") // the value that Slurm sets
}

func checkNVML(f *preflight.Fleet) []preflight.Finding {
	return preflight.IfAny(preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		if !n.GPU.Driver {
			return
		}
		add(n.GPU.Error)
		for _, d := range n.GPU.Devices {
			if d.Error != "" {
				add(fmt.Sprintf("GPU %d (%s): %s", d.Index, cmp.Or(d.PCI, "unknown"), d.Error))
			}
		}
	})), preflight.Finding{Text: "NVML does not work, or not for every GPU; NCCL would fail on the node."})
}

func checkDeviceNodes(f *preflight.Fleet) []preflight.Finding {
	values := preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		if !n.GPU.Driver {
			return
		}
		gpus, open := 0, 0
		first := ""
		for _, d := range n.Host.DevNodes {
			switch name := strings.TrimPrefix(d.Path, "/dev/nvidia"); {
			case name == "ctl" || name == "-uvm" || d.Path == host.WSL:
				if d.Error != "" && !isMadeOnDemand(n, d) {
					add(d.Path + ": " + d.Error)
				}
			case name != d.Path && name != "" && strings.Trim(name, "0123456789") == "":
				gpus++
				if d.Error == "" {
					open++
				} else if first == "" {
					first = d.Path + ": " + d.Error
				}
			}
		}
		if gpus > 0 && open < min(gpus, n.Node.Workers) && !hidesGPUs(n) { // else enough are left: the others are hidden from the node on purpose
			add(first)
		}
	}))
	all := append(slices.Concat(missingDriver(f), withheldGPUs(f)), preflight.IfAny(values, preflight.Finding{Text: "Device files of the NVIDIA driver cannot be opened.", Steps: openGPUs(f, preflight.Marked(values))})...)
	notYetMade := preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		for _, d := range n.Host.DevNodes {
			if n.GPU.Driver && isMadeOnDemand(n, d) {
				add(d.Path + ": " + d.Error)
			}
		}
	}))
	return append(all, preflight.IfAny(notYetMade, preflight.Finding{
		Severity: preflight.Warning,
		Text:     "A device file does not exist yet; CUDA runs the driver's nvidia-modprobe to create it, where that is installed.",
		Steps:    openGPUs(f, preflight.Marked(notYetMade)),
	})...)
}

// openGPUs returns the steps that let nodes open the driver's files: a
// container gets the GPUs, and a machine creates the missing files.
func openGPUs(f *preflight.Fleet, nodes []int) []preflight.Step {
	steps := f.StepsFor(nodes, preflight.ToContainer, "give the container its GPUs", func(_ int, n *preflight.Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{"--gpus all"}
	})
	forbidden := false
	steps = append(steps, f.StepsFor(nodes, preflight.AsRoot, "load the driver's modules and create its files", func(_ int, n *preflight.Facts) []string {
		var minors []string
		missing := n.Host.Container == "" && len(n.Host.DevNodes) == 0
		for _, d := range n.Host.DevNodes {
			number, ok := strings.CutPrefix(d.Path, "/dev/nvidia")
			forbidden = forbidden || d.Error != "" && d.Error != "missing"
			if d.Error != "missing" || n.Host.Container != "" {
				continue
			}
			missing = true
			if _, err := strconv.Atoi(number); ok && err == nil {
				minors = append(minors, "-c "+number)
			}
		}
		if !missing {
			return nil
		}
		return []string{strings.TrimSpace("nvidia-modprobe -u " + strings.Join(append(minors, ""), " "))}
	})...)
	if forbidden || len(steps) == 0 {
		steps = preflight.Either(steps, preflight.ByHand.Step("ask the administrator of "+f.NamesOf(nodes)+" to let the job's user open /dev/nvidia*"))
	}
	return steps
}

// isMadeOnDemand reports whether a missing device file is a file that CUDA creates
// at its first use. CUDA does so on the machine itself, not in a container, and
// only if the driver answers.
func isMadeOnDemand(n *preflight.Facts, d host.Node) bool {
	return d.Path == "/dev/nvidia-uvm" && d.Error == "missing" && n.Host.Container == "" && n.GPU.Error == ""
}

// missingDriver finds nodes without a driver whose workers load NCCL, if other
// nodes have a driver.
func missingDriver(f *preflight.Fleet) []preflight.Finding {
	if !f.View().NCCL {
		return nil
	}
	drivers := map[string]bool{} // by role: a parameter server needs no driver
	for _, n := range f.Known() {
		drivers[n.Node.Role] = drivers[n.Node.Role] || n.GPU.Driver
	}
	values := f.Faults(func(_ int, n *preflight.Facts) string {
		if n.GPU.Driver || n.Libraries.NCCL == nil || hidesGPUs(n) || !drivers[n.Node.Role] {
			return ""
		}
		return "no GPU: no /dev/nvidiactl, or the driver lists none"
	})
	return preflight.IfAny(values, preflight.Finding{Text: "These nodes have no NVIDIA driver or no GPU, other nodes have; NCCL cannot start on them.", Steps: []preflight.Step{
		preflight.ToContainer.Step("give the container its GPUs", "--gpus all"),
		preflight.ByHand.Step("ask the administrator of " + f.NamesOf(preflight.Marked(values)) + " to install or load the NVIDIA driver").Alternative(),
	}})
}

// withheldGPUs finds containers without a GPU of machines that have some, if the
// workers' libraries could use it and no node got one. Such a job runs on CPUs, or
// torch fails when it is asked for a GPU. /proc shows the machine's driver in every
// container.
func withheldGPUs(f *preflight.Fleet) []preflight.Finding {
	for _, n := range f.Known() {
		if n.GPU.Driver {
			return nil
		}
	}
	values := preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		if n.Host.Container != "" && n.Host.ProcGPU && usesGPU(n) && !hidesGPUs(n) {
			add("in a container (" + n.Host.Container + "): /proc/driver/nvidia, but no /dev/nvidiactl")
		}
	}))
	return preflight.IfAny(values, preflight.Finding{
		Severity: preflight.Warning,
		Text:     "The machine has an NVIDIA driver, and the container was given no GPU: its workers run on CPUs, or fail when they ask for a GPU.",
		Steps:    openGPUs(f, preflight.Marked(values)),
	})
}

func checkStubs(f *preflight.Fleet) []preflight.Finding {
	stubs := f.Faults(func(_ int, n *preflight.Facts) string {
		if c := loadedCUDA(n); n.GPU.Driver && c != nil && c.Stub {
			return c.Path
		}
		return ""
	})
	named := f.Faults(func(_ int, n *preflight.Facts) string {
		if c := loadedCUDA(n); !n.GPU.Driver || c != nil && c.Stub {
			return ""
		}
		if dirs := stubFolders(n); dirs != nil {
			return dirs[0]
		}
		return ""
	})
	return append(preflight.IfAny(stubs, preflight.Finding{Text: "The workers would load a stub of libcuda, which does nothing.", Steps: removeStubs(f, preflight.Marked(stubs))}),
		preflight.IfAny(named, preflight.Finding{Severity: preflight.Warning, Text: "LD_LIBRARY_PATH names a folder of stubs.", Steps: removeStubs(f, preflight.Marked(named))})...)
}

// stubFolders lists the folders of stubs in LD_LIBRARY_PATH.
func stubFolders(n *preflight.Facts) (dirs []string) {
	for _, dir := range n.Libraries.LDPath {
		if isStubs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func isStubs(dir string) bool { return strings.HasSuffix(strings.TrimRight(dir, "/"), "/stubs") }

// removeStubs returns the steps that remove the folders of stubs from the
// loader's path.
func removeStubs(f *preflight.Fleet, nodes []int) []preflight.Step {
	steps := f.StepsFor(nodes, preflight.InShell, "remove the folder of stubs from LD_LIBRARY_PATH", func(_ int, n *preflight.Facts) []string {
		if stubFolders(n) == nil {
			return nil
		}
		return []string{"export LD_LIBRARY_PATH=" + term.Command(strings.Join(slices.DeleteFunc(slices.Clone(n.Libraries.LDPath), isStubs), ":"))}
	})
	if len(steps) == 0 {
		return []preflight.Step{preflight.ByHand.Step("ask the administrator of " + f.NamesOf(nodes) + " to remove the folder of stubs from /etc/ld.so.conf.d, and to run ldconfig")}
	}
	return steps
}

// deviceRules returns D01: whether each rank has a GPU of its own.
func deviceRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "D01", Name: "distinct-gpu", Severity: preflight.Error,
		Meaning: "No two agents of one machine (several containers, --local-nodes) give the same GPU to their workers; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
		Symptom: "`Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000`, or `out of memory` and half the speed.",
		Steps: []preflight.Step{
			preflight.ToGorun.Step("share them on purpose", "--oversubscribe-gpus").Everywhere(),
			preflight.ByHand.Step("give each agent GPUs of its own, with CUDA_VISIBLE_DEVICES or the option --gpus of docker run").Alternative(),
		},
		Check: checkDistinctGPUs,
	}}
}

// shownGPUs bounds the UUIDs that one value names.
const shownGPUs = 4

func checkDistinctGPUs(f *preflight.Fleet) []preflight.Finding {
	shared := findSharedGPUs(f)
	return bySeverity(f, func(i int, _ *preflight.Facts, add func(preflight.Severity, string)) {
		for _, s := range shared[i] {
			add(errorIf(s.needed), s.String())
		}
	}, func(preflight.Severity, []int) preflight.Finding {
		return preflight.Finding{
			Text:  "Agents of one machine give the same GPU to their workers: ranks would compute on one device, which NCCL refuses where it notices.",
			Steps: distributeGPUs(f, shared),
		}
	})
}

// distributeGPUs returns the steps that give each agent of a machine GPUs of
// its own, if there are enough for all workers.
func distributeGPUs(f *preflight.Fleet, shared map[int][]*sharedGPUs) []preflight.Step {
	v := f.View()
	share := preflight.ToGorun.Step("share them on purpose", "--oversubscribe-gpus").Everywhere()
	free := map[int][]string{} // UUIDs of a machine that no agent has
	var nodes []int
	for i, n := range f.Known() {
		if len(shared[i]) == 0 {
			continue
		}
		nodes = append(nodes, i)
		for _, uuid := range n.GPU.Owned {
			if !slices.Contains(free[v.Machine[i]], uuid) {
				free[v.Machine[i]] = append(free[v.Machine[i]], uuid)
			}
		}
	}
	given := map[int][]string{}
	for _, i := range nodes {
		m, want := v.Machine[i], f.Nodes[i].Node.Workers
		if f.Nodes[i].Host.NS.PID != "" && v.Place[i] == v.Place[nodes[0]] && i != nodes[0] { // one command may have started both agents
			return []preflight.Step{share}
		}
		for len(given[i]) < want && len(free[m]) > 0 {
			k := slices.IndexFunc(free[m], func(id string) bool { return slices.Contains(f.Nodes[i].GPU.Owned, id) })
			if k < 0 {
				break
			}
			given[i] = append(given[i], free[m][k])
			free[m] = slices.Delete(free[m], k, k+1)
		}
		if len(given[i]) < want {
			return []preflight.Step{share}
		}
	}
	steps := f.StepsFor(nodes, preflight.InShell, "give each agent GPUs of its own", func(i int, n *preflight.Facts) []string {
		if n.Host.Container != "" {
			return nil
		}
		return []string{"export CUDA_VISIBLE_DEVICES=" + term.Command(strings.Join(given[i], ","))}
	})
	steps = append(steps, f.StepsFor(nodes, preflight.ToContainer, "give each container GPUs of its own", func(i int, n *preflight.Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{"--gpus " + term.Command(`"device=`+strings.Join(given[i], ",")+`"`)}
	})...)
	return preflight.Either(steps, share)
}

// sharedGPUs is a set of GPUs that the same nodes own.
type sharedGPUs struct {
	gpus   []string
	needed bool // the workers of one of the nodes need GPUs
}

func (s *sharedGPUs) String() string {
	text := preflight.Plural(len(s.gpus), "GPU") + ": " + strings.Join(s.gpus[:min(len(s.gpus), shownGPUs)], ", ")
	if more := len(s.gpus) - shownGPUs; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// findSharedGPUs returns, by node, the GPUs that the node owns together with
// another node. A GPU's UUID is the same in every container; its index is not.
func findSharedGPUs(f *preflight.Fleet) map[int][]*sharedGPUs {
	v := f.View()
	type gpu struct {
		machine int
		uuid    string
	}
	owners := map[gpu][]int{}
	var order []gpu
	for i, n := range f.Known() {
		if !v.Shared[i] || n.IsOn("NCCL_MULTI_RANK_GPU_ENABLE") {
			continue
		}
		for _, uuid := range n.GPU.Owned {
			g := gpu{v.Machine[i], uuid}
			nodes := owners[g]
			if nodes == nil {
				order = append(order, g)
			}
			if len(nodes) == 0 || nodes[len(nodes)-1] != i { // the same GPU twice on one node is what the user wants
				owners[g] = append(nodes, i)
			}
		}
	}
	by := map[string]*sharedGPUs{}
	shared := map[int][]*sharedGPUs{}
	for _, g := range order {
		nodes := owners[g]
		if len(nodes) < 2 {
			continue
		}
		key := fmt.Sprint(nodes)
		s := by[key]
		if s == nil {
			s = &sharedGPUs{}
			by[key] = s
			for _, i := range nodes {
				shared[i] = append(shared[i], s)
				s.needed = s.needed || usesGPU(&f.Nodes[i])
			}
		}
		s.gpus = append(s.gpus, g.uuid)
	}
	return shared
}

// modelRules returns D05 and D08: which GPUs the workers get.
func modelRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "D05", Name: "gpu-model", Severity: preflight.Warning,
			Meaning: "All nodes have GPUs of one model.",
			Symptom: "Every rank waits for the slowest; out of memory on some nodes only; other algorithms on some ranks.",
			Steps:   []preflight.Step{preflight.ByHand.Step("start the job on nodes of one kind, or give the larger nodes no more work than the smaller ones can do")},
			Check:   checkModel,
		},
		{
			ID: "D08", Name: "cuda-order", Severity: preflight.Warning,
			Meaning: "On a node with GPUs of several models CUDA_DEVICE_ORDER is PCI_BUS_ID, so that CUDA numbers them as NVML and nvidia-smi do.",
			Symptom: "LOCAL_RANK is another GPU than nvidia-smi shows under that number, far from the rank's network card.",
			Steps:   []preflight.Step{preflight.EveryRank("number the GPUs by their place on the bus", "CUDA_DEVICE_ORDER", "PCI_BUS_ID")},
			Check:   checkOrder,
		},
	}
}

// listModels returns the names of the node's GPUs, each once, in the order of
// the bus.
func listModels(n *preflight.Facts) []string {
	var names []string
	for _, d := range n.GPU.Devices {
		if d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}

func checkModel(f *preflight.Fleet) []preflight.Finding {
	return preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string {
		if hidesGPUs(n) {
			return ""
		}
		return strings.Join(listModels(n), ", ")
	}), preflight.Finding{Text: "The nodes have GPUs of different models."})
}

func checkOrder(f *preflight.Fleet) []preflight.Finding {
	return preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		models := listModels(n)
		if len(models) < 2 || hidesGPUs(n) || n.Env("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" {
			return ""
		}
		return fmt.Sprintf("%s; CUDA numbers the fastest first", strings.Join(models, ", "))
	}), preflight.Finding{Text: "CUDA numbers the GPUs in another order than NVML and nvidia-smi."})
}
