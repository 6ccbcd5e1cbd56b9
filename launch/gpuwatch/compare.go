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
	Health      = "G01" // what the driver reports about a GPU
	DistinctGPU = "D01" // every rank computes on its own GPU
	Leftovers   = "S01" // no other process is on the ranks' GPUs
)

// titles holds the titles of the checks with these ids.
var titles = map[string]string{Health: "gpu-health", DistinctGPU: "distinct-gpu", Leftovers: "leftovers"}

// finding returns a finding about the GPUs for the user: one line, with what to do.
// Without an id it is a note.
func finding(id, text string) preflight.Finding {
	return preflight.Finding{ID: id, Title: titles[id], Severity: preflight.Warning, Text: text}
}

// view is what is known of a node at one moment.
type view struct {
	GPUs  []device.GPU // all GPUs of the node
	Ranks []Rank
	Held  []device.Process // as NVML lists them
	// Strangers are processes that certainly do not belong to the job.
	Strangers map[int]bool
	// Name returns the name of a process, or "" if there is no process with that
	// pid.
	Name func(pid int) string
	// Machine says that this process sees the same pids as NVML; false: it is in a
	// pid namespace of its own.
	Machine bool
}

// comparer compares views with the plan. It reports each fact once.
type comparer struct {
	said map[string]bool
}

// compare returns the new findings of a view.
func (j *comparer) compare(v view) []preflight.Finding {
	if j.said == nil {
		j.said = map[string]bool{}
	}
	owner := map[int]Rank{}
	for _, r := range v.Ranks {
		for _, pid := range r.PIDs {
			owner[pid] = r
		}
	}
	var found []preflight.Finding
	add := func(key, id, format string, args ...any) {
		if !j.said[key] {
			j.said[key] = true
			found = append(found, finding(id, fmt.Sprintf(format, args...)))
		}
	}
	known := slices.ContainsFunc(v.Held, func(h device.Process) bool { _, ours := owner[h.PID]; return ours })
	if len(v.Held) > 0 && !known && !v.Machine {
		add("namespace", "", "which worker runs on which GPU cannot be told: the driver numbers processes as the machine does, and this container has numbers of its own (start it with --pid=host)")
		return found
	}
	n := node(v.GPUs)
	for _, h := range v.Held {
		r, ours := owner[h.PID]
		switch {
		case ours && len(r.Own) > 0 && !n.owns(r, h.UUID):
			runs := "runs on"
			if slices.ContainsFunc(v.Held, func(o device.Process) bool {
				at, ours := owner[o.PID]
				return ours && at.Rank == r.Rank && n.owns(r, o.UUID)
			}) {
				runs = "also runs on"
			}
			add(fmt.Sprint("astray", r.Rank, h.UUID), DistinctGPU,
				"%s %s %s, its own is %s: call torch.cuda.set_device(LOCAL_RANK) or use --pin=exclusive",
				r.label(h.PID), runs, n.label(h.UUID), n.labels(r.Own))
		case !ours:
			j.stranger(v, h, add)
		}
	}
	shared(v, owner, add)
	return found
}

// stranger reports a process on a rank's GPU that belongs to no rank. It advises to
// end the process only if the process certainly does not belong to the job.
func (j *comparer) stranger(v view, h device.Process, add func(key, id, format string, args ...any)) {
	name := v.Name(h.PID)
	switch {
	case name == "": // it has ended since, or lives in another container
		return
	case computesForOthers(name):
		return
	}
	n := node(v.GPUs)
	for _, r := range v.Ranks {
		if !n.owns(r, h.UUID) {
			continue
		}
		format := "pid %d (%s) runs on %s, the GPU of rank %d%s; whether it is of this job cannot be told"
		if v.Strangers[h.PID] {
			format = "pid %d (%s), which is not of this job, runs on %s, the GPU of rank %d%s: end it, or leave that GPU out"
		}
		add(fmt.Sprint("stranger", h.PID, h.UUID), Leftovers, format, h.PID, name, n.label(h.UUID), r.Rank, memory(h))
		return
	}
}

// computesForOthers reports whether a process is the server of MPS, which computes
// for the ranks and for others.
func computesForOthers(name string) bool { return strings.HasPrefix(name, "nvidia-cuda-mps") }

// shared reports several ranks on one GPU that have no plan; compare already
// reports a rank on another rank's GPU. shared leaves GPUs with only ranks of other
// nodes to the agents of those nodes.
func shared(v view, owner map[int]Rank, add func(key, id, format string, args ...any)) {
	on := map[string][]string{}
	var order []string
	ranks := map[string]map[int]bool{}
	here := map[string]bool{}
	for _, h := range v.Held {
		r, ours := owner[h.PID]
		if !ours || len(r.Own) > 0 || ranks[h.UUID][r.Rank] {
			continue
		}
		if ranks[h.UUID] == nil {
			ranks[h.UUID] = map[int]bool{}
			order = append(order, h.UUID)
		}
		ranks[h.UUID][r.Rank] = true
		here[h.UUID] = here[h.UUID] || !r.Away
		on[h.UUID] = append(on[h.UUID], r.label(h.PID))
	}
	for _, uuid := range order {
		if ranks := on[uuid]; len(ranks) > 1 && here[uuid] {
			add("shared"+uuid, DistinctGPU, "%s and %s run on the same %s: call torch.cuda.set_device(LOCAL_RANK) or use --pin=exclusive",
				strings.Join(ranks[:len(ranks)-1], ", "), ranks[len(ranks)-1], node(v.GPUs).label(uuid))
		}
	}
}

func memory(h device.Process) string {
	if h.MemMiB == 0 {
		return ""
	}
	return fmt.Sprintf(", with %d MiB of its memory", h.MemMiB)
}
