package gpuwatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// The ids of findings, as in the preflight catalogue.
const (
	IDHealth      = "G01" // what the driver reports about a GPU
	IDDistinctGPU = "D01" // every rank computes on its own GPU
	IDLeftovers   = "S01" // no other process is on the ranks' GPUs
)

// titles holds the titles of the checks with these ids.
var titles = map[string]string{IDHealth: "gpu-health", IDDistinctGPU: "distinct-gpu", IDLeftovers: "leftovers"}

// finding returns a finding about the GPUs for the user: one line, with what to do.
// Without an id it is a note.
func finding(id, text string) preflight.Finding {
	return preflight.Finding{ID: id, Title: titles[id], Severity: preflight.Warning, Text: text}
}

// view holds what is known about a node at one moment.
type view struct {
	GPUs      []device.GPU // all GPUs of the node
	Ranks     []Rank
	Processes []device.Process // as NVML lists them
	// Unrelated holds the processes that certainly do not belong to the job.
	Unrelated map[int]bool
	// Name returns the name of a process, or "" if there is no process with that
	// pid.
	Name func(pid int) string
	// HostPIDs says that this process sees the same pids as NVML; false: it is in
	// another pid namespace.
	HostPIDs bool
}

// comparer compares views with the plan. It reports each fact once.
type comparer struct {
	reported map[string]bool
}

// compare returns the new findings of a view.
func (c *comparer) compare(v view) []preflight.Finding {
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	owner := map[int]Rank{}
	for _, r := range v.Ranks {
		for _, pid := range r.PIDs {
			owner[pid] = r
		}
	}
	var found []preflight.Finding
	add := func(key, id, format string, args ...any) {
		if !c.reported[key] {
			c.reported[key] = true
			found = append(found, finding(id, fmt.Sprintf(format, args...)))
		}
	}
	anyKnown := slices.ContainsFunc(v.Processes, func(h device.Process) bool { _, known := owner[h.PID]; return known })
	if len(v.Processes) > 0 && !anyKnown && !v.HostPIDs {
		add("namespace", "", "gorun cannot check which worker runs on which GPU: the driver lists the pids of the machine, and this container has its own pids; start it with --pid=host")
		return found
	}
	n := nodeGPUs(v.GPUs)
	for _, h := range v.Processes {
		r, known := owner[h.PID]
		switch {
		case known && len(r.GPUs) > 0 && !n.isAssigned(r, h.UUID):
			runs := "runs on"
			if slices.ContainsFunc(v.Processes, func(o device.Process) bool {
				other, known := owner[o.PID]
				return known && other.Rank == r.Rank && n.isAssigned(r, o.UUID)
			}) {
				runs = "also runs on"
			}
			add(fmt.Sprint("wrong GPU", r.Rank, h.UUID), IDDistinctGPU,
				"%s %s %s, its own is %s: call torch.cuda.set_device(LOCAL_RANK) or use --pin=exclusive",
				r.label(h.PID), runs, n.label(h.UUID), n.labels(r.GPUs))
		case !known:
			c.addUnrelated(v, h, add)
		}
	}
	addShared(v, owner, add)
	return found
}

// addUnrelated reports a process on a rank's GPU that belongs to no rank. It advises to
// end the process only if the process certainly does not belong to the job.
func (c *comparer) addUnrelated(v view, h device.Process, add func(key, id, format string, args ...any)) {
	name := v.Name(h.PID)
	switch {
	case name == "": // it has ended, or runs in another container
		return
	case isMPSServer(name):
		return
	}
	n := nodeGPUs(v.GPUs)
	for _, r := range v.Ranks {
		if !n.isAssigned(r, h.UUID) {
			continue
		}
		format := "pid %d (%s) runs on %s, the GPU of rank %d%s; gorun does not know whether it belongs to this job"
		if v.Unrelated[h.PID] {
			format = "pid %d (%s), which does not belong to this job, runs on %s, the GPU of rank %d%s: end it, or do not use that GPU"
		}
		add(fmt.Sprint("unrelated", h.PID, h.UUID), IDLeftovers, format, h.PID, name, n.label(h.UUID), r.Rank, describeMemory(h))
		return
	}
}

// isMPSServer reports whether a process is the server of MPS, which computes for the
// ranks and for other programs.
func isMPSServer(name string) bool { return strings.HasPrefix(name, "nvidia-cuda-mps") }

// addShared reports a GPU with several ranks that have no plan. It reports no GPU that
// only ranks of other nodes use, because the agents of those nodes report it.
func addShared(v view, owner map[int]Rank, add func(key, id, format string, args ...any)) {
	on := map[string][]string{}
	var order []string
	ranks := map[string]map[int]bool{}
	here := map[string]bool{}
	for _, h := range v.Processes {
		r, known := owner[h.PID]
		if !known || len(r.GPUs) > 0 || ranks[h.UUID][r.Rank] {
			continue
		}
		if ranks[h.UUID] == nil {
			ranks[h.UUID] = map[int]bool{}
			order = append(order, h.UUID)
		}
		ranks[h.UUID][r.Rank] = true
		here[h.UUID] = here[h.UUID] || !r.OtherNode
		on[h.UUID] = append(on[h.UUID], r.label(h.PID))
	}
	for _, uuid := range order {
		if ranks := on[uuid]; len(ranks) > 1 && here[uuid] {
			add("shared"+uuid, IDDistinctGPU, "%s and %s run on the same %s: call torch.cuda.set_device(LOCAL_RANK) or use --pin=exclusive",
				strings.Join(ranks[:len(ranks)-1], ", "), ranks[len(ranks)-1], nodeGPUs(v.GPUs).label(uuid))
		}
	}
}

func describeMemory(h device.Process) string {
	if h.MemMiB == 0 {
		return ""
	}
	return fmt.Sprintf(", with %d MiB of its memory", h.MemMiB)
}
