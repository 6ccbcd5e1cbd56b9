// Package gpuwatch watches the GPUs of a node while a job runs on them. It checks
// that each worker computes on its own GPU, reports the driver's errors, and waits
// until the GPUs are free after a round.
//
// A Watcher lives from round to round. From the first round on it listens for the
// driver's events. While a round runs it compares the driver's process list with
// the plan. When the round has ended it waits for the GPUs. It asks NVML through
// its Driver, in a child process, and touches no worker. It reads the process list
// every 30 s. It does not read the list before the first collective is set up,
// because the reading slows the setup down. Pure functions decide what a process
// list or an event means.
//
// A process belongs to a rank if the rank's worker is one of its ancestors, or if
// its environment has the rank's variables. Workers of other agents on this machine,
// and processes that a worker runs in a container, have other ancestors. The package
// calls a process unrelated only if the process certainly does not belong to the job.
//
// NVML uses the machine's pids. In a container these pids mean nothing, or other
// processes. So the package reports no process there unless one of the pids is known
// to be a worker's.
package gpuwatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/device"
)

// Rank describes one worker of this machine.
type Rank struct {
	Rank      int      // global rank
	PIDs      []int    // pids of the worker and of the processes that it started
	GPUs      []string // UUIDs of its GPUs or MIG instances; none: there is no plan for it
	OtherNode bool     // it belongs to another node on this machine, whose agent watches it; its plan is not known here
}

// label names a worker for the user.
func (r Rank) label(pid int) string { return fmt.Sprintf("rank %d (pid %d)", r.Rank, pid) }

// nodeGPUs holds the GPUs of this node. It finds them by UUID.
type nodeGPUs []device.GPU

// label names a GPU as nvidia-smi does.
func (n nodeGPUs) label(uuid string) string {
	for _, g := range n {
		if g.UUID == uuid && g.Index >= 0 {
			return fmt.Sprintf("GPU %d", g.Index)
		}
		for _, in := range g.Instances {
			if in.UUID == uuid {
				return fmt.Sprintf("%s of GPU %d", uuid, g.Index)
			}
		}
	}
	return uuid
}

func (n nodeGPUs) labels(uuids []string) string {
	names := make([]string, len(uuids))
	for i, u := range uuids {
		names[i] = n.label(u)
	}
	return strings.Join(names, ", ")
}

// parent returns the GPU that contains a MIG instance, or the GPU itself.
func (n nodeGPUs) parent(uuid string) string {
	for _, g := range n {
		if slices.ContainsFunc(g.Instances, func(in device.Instance) bool { return in.UUID == uuid }) {
			return g.UUID
		}
	}
	return uuid
}

// isAssigned reports whether the plan gives a rank a GPU, a MIG instance, or an
// instance of that GPU. NVML may name the whole GPU of a process that computes on an instance.
func (n nodeGPUs) isAssigned(r Rank, uuid string) bool {
	return slices.ContainsFunc(r.GPUs, func(assigned string) bool { return assigned == uuid || n.parent(assigned) == uuid })
}
