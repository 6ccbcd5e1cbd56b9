// Package device finds the GPUs of this node and how many workers they carry.
//
// NVML, the driver's library, can hang, crash or end the process that loads it
// (a missing symbol is fatal), so Probe runs in a child process and List, in
// the agent, reads what the child printed. List touches neither the library nor
// files of the driver's that a sick GPU could block.
//
// GPUs are in PCI order, as NVML and nvidia-smi number them. CUDA numbers them
// so too when CUDA_DEVICE_ORDER=PCI_BUS_ID, and on nodes with equal GPUs.
package device

import (
	"fmt"
	"runtime"
)

// GPU is one device.
type GPU struct {
	Index int    `json:"index"`          // in PCI order, from 0; -1 for a MIG instance
	UUID  string `json:"uuid,omitempty"` // "GPU-..." or "MIG-...", "" when unknown
	PCI   string `json:"pci,omitempty"`  // "0000:1a:00.0", as in /sys/bus/pci/devices
	Name  string `json:"name,omitempty"` // as the driver names the model
}

// Workers gives the number of workers for --nproc-per-node: "gpu" is one per
// visible GPU, "cpu" one per CPU that this process may use, "auto" one per GPU
// if there is one, else one per CPU.
func Workers(of string, visible []GPU) (int, error) {
	switch {
	case of == "gpu" && len(visible) == 0:
		return 0, fmt.Errorf("cannot use --nproc-per-node gpu: no GPU is visible on this node")
	case of == "gpu", of == "auto" && len(visible) > 0:
		return len(visible), nil
	case of == "cpu", of == "auto":
		return runtime.NumCPU(), nil
	}
	return 0, fmt.Errorf("cannot use --nproc-per-node %s: it is neither auto, gpu nor cpu", of)
}
