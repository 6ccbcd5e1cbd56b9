package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// gpuRules are D02, D04, D10 and T03: whether workers find their GPUs.
func gpuRules() []Rule {
	return []Rule{
		{
			ID: "D02", Name: "enough-gpu", Severity: Error,
			Meaning: "A node has at least as many visible GPUs as workers; on a single machine, with --oversubscribe-gpus, and for a program of which gorun sees neither NCCL nor torch, it is a warning.",
			Users:   "`invalid device ordinal`, `no CUDA-capable device`, `Duplicate GPU detected`.",
			Steps: []Step{
				toGorun("start as many workers as there are GPUs", "--nproc-per-node 4").everywhere(),
				byHand("make more GPUs visible: CUDA_VISIBLE_DEVICES, --gres of Slurm, --gpus of docker run").or(),
				toGorun("share them on purpose, where the job does not use NCCL", "--oversubscribe-gpus").everywhere().or(),
			},
			Check: checkEnoughGPUs,
		},
		{
			ID: "D04", Name: "nvml-all", Severity: Error,
			Meaning: "NVML works, for every GPU of the machine: NCCL asks for all of them, also for those that the job does not use.",
			Users:   "`nvmlInit_v2() failed`, `nvmlDeviceGetHandleByIndex(5) failed: Unknown Error`, `GPU is lost`.",
			Steps: []Step{
				byHand("leave the marked nodes out of the job, and ask their administrator to reset the GPUs or to restart the machine"),
				toLook("what the driver says", "nvidia-smi -q -d ECC,PAGE_RETIREMENT"),
			},
			Check: checkNVML,
		},
		{
			ID: "D10", Name: "device-nodes", Severity: Error,
			Meaning: "The device files of the driver can be opened; a node whose workers load NCCL has a driver when others of its role have one.",
			Users:   "`CUDA unknown error` (999), `no CUDA-capable device is detected`.",
			Steps: []Step{
				asRoot("load the driver's modules and make its files", "nvidia-modprobe -u -c 0"),
				toContainer("give the container its GPUs", "--gpus all").or(),
			},
			Check: checkDeviceNodes,
		},
		{
			ID: "T03", Name: "stub-libs", Severity: Error,
			Meaning: "The libcuda.so.1 that workers load is the driver's, not a stub to link with; a folder of stubs in LD_LIBRARY_PATH is a warning.",
			Users:   "CUDA error 34, `stub library`.",
			Steps:   []Step{inShell("remove the folder that ends in /stubs", "export LD_LIBRARY_PATH=/usr/local/cuda/lib64")},
			Check:   checkStubs,
		},
	}
}

func checkEnoughGPUs(f *Fleet) []Finding {
	// On one machine the job may be Gloo's, and where it is NCCL's, NCCL says so at once.
	apart := f.look().places > 1
	find := func(grave bool) []Value {
		return f.faults(func(_ int, n *Facts) string {
			g := n.GPU
			if !g.Driver || len(g.Devices) == 0 || n.Node.Workers <= len(g.Visible) || n.hides() || n.on("NCCL_MULTI_RANK_GPU_ENABLE") {
				return ""
			}
			if grave != (n.usesGPU() && apart && !g.Shared) {
				return ""
			}
			return fmt.Sprintf("%s, %s visible of %d", plural(n.Node.Workers, "worker"), plural(len(g.Visible), "GPU"), len(g.Devices))
		})
	}
	const text = "There are more workers than visible GPUs; two ranks on one GPU are an error to NCCL."
	share := toGorun("share them on purpose, where the job does not use NCCL", "--oversubscribe-gpus").everywhere().or()
	return append(one(find(true), Finding{Text: text, Steps: append(f.fewerWorkers(), share)}), one(find(false), Finding{Severity: Warning, Text: text, Steps: f.fewerWorkers()})...)
}

// fewerWorkers starts on every node as many workers as the node with the fewest
// visible GPUs has of them.
func (f *Fleet) fewerWorkers() []Step {
	least := 0
	for _, n := range f.known() {
		if v := len(n.GPU.Visible); n.GPU.Driver && v > 0 && (least == 0 || v < least) {
			least = v
		}
	}
	more := byHand("make more GPUs visible: CUDA_VISIBLE_DEVICES, --gres of Slurm, --gpus of docker run")
	if least == 0 {
		return []Step{more}
	}
	return []Step{toGorun("start as many workers as there are GPUs", "--nproc-per-node "+strconv.Itoa(least)).everywhere(), more.or()}
}

// usesGPU reports whether the workers are seen to load what needs GPUs.
func (n *Facts) usesGPU() bool {
	return n.Libraries.NCCL != nil || n.Libraries.NCCLError != "" || n.Libraries.TorchCUDA != ""
}

// hides reports whether the user hid all GPUs: the job is meant for CPUs.
func (n *Facts) hides() bool {
	value, set := n.setting("CUDA_VISIBLE_DEVICES")
	return set && (value == "" || value == "-1" || value == "NoDevFiles") // Slurm's word
}

func checkNVML(f *Fleet) []Finding {
	return one(odd(f.collect(func(_ int, n *Facts, add func(string)) {
		if !n.GPU.Driver {
			return
		}
		add(n.GPU.Error)
		for _, d := range n.GPU.Devices {
			if d.Error != "" {
				add(fmt.Sprintf("GPU %d (%s): %s", d.Index, orUnknown(d.PCI), d.Error))
			}
		}
	})), Finding{Text: "NVML does not work, or not for every GPU; NCCL would fail on the node."})
}

func checkDeviceNodes(f *Fleet) []Finding {
	values := odd(f.collect(func(_ int, n *Facts, add func(string)) {
		if !n.GPU.Driver {
			return
		}
		gpus, open := 0, 0
		first := ""
		for _, d := range n.Host.DevNodes {
			switch name := strings.TrimPrefix(d.Path, "/dev/nvidia"); {
			case name == "ctl" || name == "-uvm" || d.Path == host.WSL:
				if d.Error != "" && !n.made(d) {
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
		if gpus > 0 && open < min(gpus, n.Node.Workers) && !n.hides() { // hidden from the node on purpose: enough are left
			add(first)
		}
	}))
	all := append(f.driverless(), one(values, Finding{Text: "Device files of the NVIDIA driver cannot be opened.", Steps: f.openGPUs(marked(values))})...)
	unmade := odd(f.collect(func(_ int, n *Facts, add func(string)) {
		for _, d := range n.Host.DevNodes {
			if n.GPU.Driver && n.made(d) {
				add(d.Path + ": " + d.Error)
			}
		}
	}))
	return append(all, one(unmade, Finding{
		Severity: Warning,
		Text:     "A device file is not there yet; CUDA has the driver's nvidia-modprobe make it, where that is installed.",
		Steps:    f.openGPUs(marked(unmade)),
	})...)
}

// openGPUs has nodes open the files of the driver: in a container by giving it
// the GPUs, else by making those that are missing.
func (f *Fleet) openGPUs(nodes []int) []Step {
	steps := f.each(nodes, toContainer, "give the container its GPUs", func(_ int, n *Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{"--gpus all"}
	})
	forbidden := false
	steps = append(steps, f.each(nodes, asRoot, "load the driver's modules and make its files", func(_ int, n *Facts) []string {
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
		steps = or(steps, byHand("ask the administrator of "+f.called(nodes)+" to let the job's user open /dev/nvidia*"))
	}
	return steps
}

// made reports whether a device file is missing that CUDA's first use makes: on
// the machine itself, not in a container, and where the driver answers.
func (n *Facts) made(d host.Node) bool {
	return d.Path == "/dev/nvidia-uvm" && d.Error == "missing" && n.Host.Container == "" && n.GPU.Error == ""
}

// driverless are the nodes without a driver whose workers load NCCL, among nodes
// that have one.
func (f *Fleet) driverless() []Finding {
	if !f.look().nccl {
		return nil
	}
	drivers := map[string]bool{} // by role: a parameter server needs none
	for _, n := range f.known() {
		drivers[n.Node.Role] = drivers[n.Node.Role] || n.GPU.Driver
	}
	values := f.faults(func(_ int, n *Facts) string {
		if n.GPU.Driver || n.Libraries.NCCL == nil || n.hides() || !drivers[n.Node.Role] {
			return ""
		}
		return "no GPU in reach: no /dev/nvidiactl, or the driver lists none"
	})
	return one(values, Finding{Text: "There is no NVIDIA driver or no GPU, while other nodes have one; NCCL cannot start here.", Steps: []Step{
		toContainer("give the container its GPUs", "--gpus all"),
		byHand("ask the administrator of " + f.called(marked(values)) + " to install or load the NVIDIA driver").or(),
	}})
}

func checkStubs(f *Fleet) []Finding {
	wins := f.faults(func(_ int, n *Facts) string {
		if c := cudaOf(n); n.GPU.Driver && c != nil && c.Stub {
			return c.Path
		}
		return ""
	})
	named := f.faults(func(_ int, n *Facts) string {
		if c := cudaOf(n); !n.GPU.Driver || c != nil && c.Stub {
			return ""
		}
		if dirs := n.stubs(); dirs != nil {
			return dirs[0]
		}
		return ""
	})
	return append(one(wins, Finding{Text: "The workers would load a stub of libcuda, which has no function.", Steps: f.removeStubs(marked(wins))}),
		one(named, Finding{Severity: Warning, Text: "LD_LIBRARY_PATH names a folder of stubs.", Steps: f.removeStubs(marked(named))})...)
}

// stubs are the folders of stubs in LD_LIBRARY_PATH.
func (n *Facts) stubs() (dirs []string) {
	for _, dir := range n.Libraries.LDPath {
		if isStubs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func isStubs(dir string) bool { return strings.HasSuffix(strings.TrimRight(dir, "/"), "/stubs") }

// removeStubs takes the folders of stubs out of the loader's path.
func (f *Fleet) removeStubs(nodes []int) []Step {
	steps := f.each(nodes, inShell, "take the folder of stubs out of it", func(_ int, n *Facts) []string {
		if n.stubs() == nil {
			return nil
		}
		return []string{"export LD_LIBRARY_PATH=" + quote(strings.Join(slices.DeleteFunc(slices.Clone(n.Libraries.LDPath), isStubs), ":"))}
	})
	if len(steps) == 0 {
		return []Step{byHand("ask the administrator of " + f.called(nodes) + " to take the folder of stubs out of /etc/ld.so.conf.d, and to run ldconfig")}
	}
	return steps
}
