// Package device finds the GPUs of this node and how many workers they serve.
//
// NVML, the driver's library, can hang, crash or end the process that loads it
// (a missing symbol is fatal). So Probe runs in a child process, and Child, in
// the agent, reads what that process printed. The agent itself never opens the
// library, nor files of the driver that a failed GPU could block.
//
// Child.List reads what counting and pinning need, Child.Survey reads everything,
// and Child.Processes reads the processes on each GPU. Child.Listen stays and
// reports the driver's events. An Exchange gives one survey to several agents.
// FindVisible returns the GPUs that the workers may use.
//
// GPUs are in PCI order, as NVML and nvidia-smi number them. CUDA uses the same
// numbers when CUDA_DEVICE_ORDER=PCI_BUS_ID, and on nodes with equal GPUs.
package device

import (
	"fmt"
	"runtime"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// GPU is one device, or one MIG instance of one. A nil pointer and an empty text
// mean unknown, which is never the same as zero.
type GPU struct {
	Index int    `json:"index"`           // in PCI order, from 0; -1 for a MIG instance
	UUID  string `json:"uuid,omitempty"`  // "GPU-..." or "MIG-...", "" when unknown
	PCI   string `json:"pci,omitempty"`   // "0000:1a:00.0", as in /sys/bus/pci/devices; a MIG instance has its parent's
	Name  string `json:"name,omitempty"`  // as the driver names the model
	Error string `json:"error,omitempty"` // why the driver does not open it; the fields below are then unknown

	Minor     *int       `json:"minor,omitempty"`     // N of /dev/nvidiaN
	Denied    string     `json:"denied,omitempty"`    // why this process may not use it: a cgroup, no file in /dev
	NUMA      *int       `json:"numa,omitempty"`      // node of the CPUs next to it
	MIG       *bool      `json:"mig,omitempty"`       // whether it is divided into MIG instances, which are used in its place
	Instances []Instance `json:"instances,omitempty"` // of a GPU in MIG mode
	Parent    string     `json:"parent,omitempty"`    // UUID of the GPU that a MIG instance is a part of

	State *preflight.DeviceState `json:"state,omitempty"` // takes longer to read; only Survey reads it

	// Entry names it in CUDA_VISIBLE_DEVICES in the user's form: the entry of the
	// user's list, or without a list CUDA's index; only FindVisible sets it.
	Entry string `json:"-"`
}

// Instance is one MIG compute instance.
type Instance struct {
	UUID string `json:"uuid"` // "MIG-...", from drivers before R470 "MIG-GPU-.../GI/CI"
	Name string `json:"name,omitempty"`
	GI   *int   `json:"gi,omitempty"` // its GPU instance
	CI   *int   `json:"ci,omitempty"` // its compute instance
}

// Process is a process that computes on a GPU.
type Process struct {
	UUID   string `json:"uuid"` // of the GPU or of the MIG instance
	PID    int    `json:"pid"`
	MemMiB uint64 `json:"mem_mib,omitempty"`
}

// Workers returns the number of workers for --nproc-per-node. "gpu" is one per
// visible GPU. "cpu" is one per CPU that this process may use. "auto" is one per
// visible GPU or, without a GPU, one per CPU.
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
