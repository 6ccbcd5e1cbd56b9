// Package gpuwatch looks at the GPUs of a node while a job runs on them: whether
// each worker computes on its own one, what the driver reports of them, and
// whether they are free again afterwards.
//
// A Watcher goes from round to round. It listens for the driver's events from the
// first round on, compares the driver's process list with the plan while a round
// runs, and waits for the GPUs when it has ended. It asks NVML through its Driver,
// in a child process, and touches no worker. It reads the process list every 30 s,
// and not before the first collective is set up, which such a reader slows down.
// What a process list or an event means is decided by pure functions.
//
// A process is a rank's if the rank's worker is an ancestor of it, or if its
// environment says so: workers of other agents on this machine, and what a worker
// runs in a container, have other ancestors. A process that may be the
// job's is never called a stranger.
//
// NVML numbers processes as the machine does. In a container the numbers mean
// nothing, or other processes, so nobody is accused there unless some number is
// known to be a worker's.
package gpuwatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/device"
)

// Rank is one worker of this machine.
type Rank struct {
	Rank int      // global
	PIDs []int    // of the worker and of what it started
	Own  []string // UUIDs of its GPUs or MIG instances; none: nothing is planned for it
	Away bool     // of another node on this machine, whose agent watches it: its plan is not known here
}

// label names a worker for the reader.
func (r Rank) label(pid int) string { return fmt.Sprintf("rank %d (pid %d)", r.Rank, pid) }

// node is the GPUs of this node, for looking up.
type node []device.GPU

// label names a GPU as nvidia-smi does.
func (n node) label(uuid string) string {
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

func (n node) labels(uuids []string) string {
	names := make([]string, len(uuids))
	for i, u := range uuids {
		names[i] = n.label(u)
	}
	return strings.Join(names, ", ")
}

// parent is the GPU that a MIG instance is a part of, else the GPU itself.
func (n node) parent(uuid string) string {
	for _, g := range n {
		if slices.ContainsFunc(g.Instances, func(in device.Instance) bool { return in.UUID == uuid }) {
			return g.UUID
		}
	}
	return uuid
}

// owns reports whether a GPU, or the GPU that it is a part of, is the rank's.
// NVML may name the whole GPU where a process computes on an instance of it.
func (n node) owns(r Rank, uuid string) bool {
	return slices.ContainsFunc(r.Own, func(own string) bool { return own == uuid || n.parent(own) == uuid })
}
