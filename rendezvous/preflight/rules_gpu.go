package preflight

import (
	"fmt"
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
			Fix:     "start as many workers as there are GPUs, make more of them visible (CUDA_VISIBLE_DEVICES, --gres, --gpus), or share them on purpose with --oversubscribe-gpus:\n  gorun --nproc-per-node gpu ...",
			Check:   checkEnoughGPUs,
		},
		{
			ID: "D04", Name: "nvml-all", Severity: Error,
			Meaning: "NVML works, for every GPU of the machine: NCCL asks for all of them, also for those that the job does not use.",
			Users:   "`nvmlInit_v2() failed`, `nvmlDeviceGetHandleByIndex(5) failed: Unknown Error`, `GPU is lost`.",
			Fix:     "take the node out of the job, and reset the GPU or reboot:\n  nvidia-smi -q -d ECC,PAGE_RETIREMENT",
			Check:   checkNVML,
		},
		{
			ID: "D10", Name: "device-nodes", Severity: Error,
			Meaning: "The device files of the driver can be opened; a node whose workers load NCCL has a driver when others of its role have one.",
			Users:   "`CUDA unknown error` (999), `no CUDA-capable device is detected`.",
			Fix:     "load the driver's modules, or give the container its GPUs:\n  nvidia-modprobe -u -c 0\n  docker run --gpus all ...",
			Check:   checkDeviceNodes,
		},
		{
			ID: "T03", Name: "stub-libs", Severity: Error,
			Meaning: "The libcuda.so.1 that workers load is the driver's, not a stub to link with; a folder of stubs in LD_LIBRARY_PATH is a warning.",
			Users:   "CUDA error 34, `stub library`.",
			Fix:     "remove the folder that ends in /stubs from LD_LIBRARY_PATH",
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
	return append(one(find(true), Finding{Text: text}), one(find(false), Finding{Severity: Warning, Text: text})...)
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
	all := append(f.driverless(), one(values, Finding{Text: "Device files of the NVIDIA driver cannot be opened."})...)
	return append(all, one(odd(f.collect(func(_ int, n *Facts, add func(string)) {
		for _, d := range n.Host.DevNodes {
			if n.GPU.Driver && n.made(d) {
				add(d.Path + ": " + d.Error)
			}
		}
	})), Finding{
		Severity: Warning,
		Text:     "A device file is not there yet; CUDA has the driver's nvidia-modprobe make it, where that is installed.",
	})...)
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
	return one(f.faults(func(_ int, n *Facts) string {
		if n.GPU.Driver || n.Libraries.NCCL == nil || n.hides() || !drivers[n.Node.Role] {
			return ""
		}
		return "no GPU in reach: no /dev/nvidiactl, or the driver lists none"
	}), Finding{Text: "There is no NVIDIA driver or no GPU, while other nodes have one; NCCL cannot start here."})
}

func checkStubs(f *Fleet) []Finding {
	all := one(f.faults(func(_ int, n *Facts) string {
		if c := cudaOf(n); n.GPU.Driver && c != nil && c.Stub {
			return c.Path
		}
		return ""
	}), Finding{Text: "The workers would load a stub of libcuda, which has no function."})
	return append(all, one(f.faults(func(_ int, n *Facts) string {
		if c := cudaOf(n); !n.GPU.Driver || c != nil && c.Stub {
			return ""
		}
		for _, dir := range n.Libraries.LDPath {
			if strings.HasSuffix(strings.TrimRight(dir, "/"), "/stubs") {
				return dir
			}
		}
		return ""
	}), Finding{Severity: Warning, Text: "LD_LIBRARY_PATH names a folder of stubs."})...)
}
