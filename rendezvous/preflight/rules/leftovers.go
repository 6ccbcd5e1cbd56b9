package rules

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// leftoverRules returns S01 and T01: what earlier jobs left, and where logs are
// written.
func leftoverRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "S01", Name: "leftovers", Severity: preflight.Warning,
			Meaning: "No other process computes on the GPUs that the job will use, and no segments of ended ranks fill /dev/shm.",
			Symptom: "`Cuda failure 'out of memory'` at init; a slow rank; `No space left on device` in /dev/shm.",
			Steps:   []preflight.Step{preflight.InShell.Step("remove what ended ranks left", `find /dev/shm -maxdepth 1 -name 'nccl-*' -user "$(id -un)" -delete`)},
			Check:   checkLeftovers,
		},
		{
			ID: "T01", Name: "debug-file", Severity: preflight.Warning,
			Meaning: "NCCL_DEBUG_FILE names a file of its own for each rank, in a folder that exists and is writable.",
			Symptom: "Ranks overwrite each other's log, or NCCL writes none: the line with the cause is lost.",
			Steps:   []preflight.Step{preflight.EveryRank("put the host and the process id into the name", "NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p.log")},
			Check:   checkDebugFile,
		},
	}
}

// leftoverBytes and leftoverPart bound the segments without a process: they make a
// finding if they hold leftoverBytes or one leftoverPart-th of /dev/shm.
const leftoverBytes, leftoverPart = 1 << 30, 10

func checkLeftovers(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.NCCL {
		return nil
	}
	busy := preflight.AllOdd(f.Collect(func(i int, n *preflight.Facts, add func(string)) {
		if v.Shared[i] { // they may be the workers of this job's other nodes
			return
		}
		visible := map[string]bool{}
		for _, id := range n.GPU.Visible {
			visible[id] = true
		}
		for _, h := range n.GPU.Busy {
			if !visible[h.GPU] {
				continue
			}
			text := fmt.Sprintf("pid %d (%s", h.PID, cmp.Or(h.Name, "unknown"))
			if h.User != "" {
				text += ", user " + h.User
			}
			text += ") holds GPU " + gpuNumber(&n.GPU, h.GPU)
			if h.MemMiB > 0 {
				text += fmt.Sprintf(" with %d MiB", h.MemMiB)
			}
			add(text)
		}
	}))
	all := preflight.IfAny(busy, preflight.Finding{Text: "Other processes compute on GPUs that the job will use.", Steps: otherGPUs(f, preflight.Marked(busy))})
	return append(all, preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		l := n.Host.Leftover
		if l.SHMFiles == 0 || l.Unsure || l.SHMBytes < leftoverBytes && l.SHMBytes*leftoverPart < n.Host.SHM.Size {
			return ""
		}
		return fmt.Sprintf("%s of ended ranks in /dev/shm, %s", preflight.Plural(l.SHMFiles, "segment"), formatBytes(l.SHMBytes))
	}), preflight.Finding{Text: "Ranks that have ended left shared memory behind."})...)
}

// otherGPUs returns the step that gives workers the GPUs that no process holds,
// if there are enough.
func otherGPUs(f *preflight.Fleet, nodes []int) []preflight.Step {
	enough := true
	steps := f.StepsFor(nodes, preflight.InShell, "use the GPUs that are free", func(_ int, n *preflight.Facts) []string {
		free := slices.DeleteFunc(slices.Clone(n.GPU.Visible), func(id string) bool {
			return slices.ContainsFunc(n.GPU.Busy, func(h preflight.Holder) bool { return h.GPU == id })
		})
		enough = enough && len(free) >= max(n.Node.Workers, 1)
		return []string{"export CUDA_VISIBLE_DEVICES=" + term.Command(strings.Join(free, ","))}
	})
	if !enough {
		steps = nil
	}
	steps = preflight.Either(steps, preflight.ByHand.Step("end these processes, or ask their owners to end them"))
	return append(steps, preflight.ToShow.Step("which processes they are", "nvidia-smi").On(nodes))
}

// gpuNumber returns the number of a GPU in PCI order, as nvidia-smi shows it.
func gpuNumber(g *preflight.GPU, uuid string) string {
	for _, d := range g.Devices {
		if d.UUID == uuid {
			return fmt.Sprint(d.Index)
		}
	}
	return uuid
}

// formatBytes formats a number of bytes for people.
func formatBytes(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return preflight.Plural(int(n), "byte")
	case n < unit*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%d MiB", n/unit/unit)
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
	}
}

func checkDebugFile(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.NCCL {
		return nil
	}
	all := preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		name := n.Env("NCCL_DEBUG_FILE")
		if name == "" || strings.HasPrefix(name, "/dev/") {
			return ""
		}
		var lacks []string
		if len(f.Nodes) > 1 && !strings.Contains(name, "%h") {
			lacks = append(lacks, "%h")
		}
		if n.Node.Workers > 1 && !strings.Contains(name, "%p") {
			lacks = append(lacks, "%p")
		}
		if len(lacks) == 0 {
			return ""
		}
		return name + " lacks " + strings.Join(lacks, " and ")
	}), preflight.Finding{Text: "NCCL_DEBUG_FILE is one file for several ranks: they overwrite it.", Steps: fileForEachRank(f)})
	unwritable := preflight.AllOdd(f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		for _, d := range n.Host.Leftover.Log {
			if !d.Writable {
				text := d.Path + " cannot be written"
				if d.Error != "" {
					text += ": " + d.Error
				}
				add(text)
			}
		}
	}))
	return append(all, preflight.IfAny(unwritable, preflight.Finding{
		Text: "NCCL cannot write its log to the folder of NCCL_DEBUG_FILE, and drops it.",
		Steps: f.StepsFor(preflight.Marked(unwritable), preflight.InShell, "create the folder", func(_ int, n *preflight.Facts) []string {
			var dirs []string
			for _, d := range n.Host.Leftover.Log {
				if !d.Writable {
					dirs = append(dirs, term.Command(d.Path))
				}
			}
			return []string{"mkdir -p " + strings.Join(dirs, " ")}
		}),
	})...)
}

// fileForEachRank returns the step that gives each rank its own file for NCCL's
// log, in the folder of the first file.
func fileForEachRank(f *preflight.Fleet) []preflight.Step {
	for _, n := range f.Known() {
		if name := n.Env("NCCL_DEBUG_FILE"); name != "" {
			return []preflight.Step{preflight.EveryRank("put the host and the process id into the name", "NCCL_DEBUG_FILE", path.Join(path.Dir(name), "nccl.%h.%p.log"))}
		}
	}
	return nil
}
