package preflight

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// leftoverRules are S01 and T01: what earlier jobs left, and where logs go.
func leftoverRules() []Rule {
	return []Rule{
		{
			ID: "S01", Name: "leftovers", Severity: Warning,
			Meaning: "Nobody computes on the GPUs that the job will use, and no segments of dead ranks fill /dev/shm.",
			Users:   "`Cuda failure 'out of memory'` at init; a slow rank; `No space left on device` in /dev/shm.",
			Steps:   []Step{inShell("remove what dead ranks left", `find /dev/shm -maxdepth 1 -name 'nccl-*' -user "$(id -un)" -delete`)},
			Check:   checkLeftovers,
		},
		{
			ID: "T01", Name: "debug-file", Severity: Warning,
			Meaning: "NCCL_DEBUG_FILE names a file of its own for each rank, in a folder that exists and can be written.",
			Users:   "Ranks overwrite each other's log, or NCCL writes none: the line that tells the cause is gone.",
			Steps:   []Step{everyRank("put the host and the process id into the name", "NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p.log")},
			Check:   checkDebugFile,
		},
	}
}

// crowded is the size of unmapped segments, in bytes, from which on they matter
// by themselves, and the part of /dev/shm.
const crowded, crowdedPart = 1 << 30, 10

func checkLeftovers(f *Fleet) []Finding {
	v := f.look()
	if !v.nccl {
		return nil
	}
	busy := odd(f.collect(func(i int, n *Facts, add func(string)) {
		if v.shared[i] { // they may be the workers of this job's other nodes
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
			text := fmt.Sprintf("pid %d (%s", h.PID, orUnknown(h.Name))
			if h.User != "" {
				text += ", user " + h.User
			}
			text += ") holds GPU " + n.GPU.index(h.GPU)
			if h.MemMiB > 0 {
				text += fmt.Sprintf(" with %d MiB", h.MemMiB)
			}
			add(text)
		}
	}))
	all := one(busy, Finding{Text: "Other processes compute on GPUs that the job will use.", Steps: f.otherGPUs(marked(busy))})
	return append(all, one(f.faults(func(_ int, n *Facts) string {
		l := n.Host.Leftover
		if l.SHMFiles == 0 || l.Unsure || l.SHMBytes < crowded && l.SHMBytes*crowdedPart < n.Host.SHM.Size {
			return ""
		}
		return fmt.Sprintf("%s of dead ranks in /dev/shm, %s", plural(l.SHMFiles, "segment"), size(l.SHMBytes))
	}), Finding{Text: "Ranks that are dead left shared memory behind."})...)
}

// otherGPUs has workers use those GPUs that nobody holds, where there are enough.
func (f *Fleet) otherGPUs(nodes []int) []Step {
	enough := true
	steps := f.each(nodes, inShell, "use the GPUs that are free", func(_ int, n *Facts) []string {
		free := slices.DeleteFunc(slices.Clone(n.GPU.Visible), func(id string) bool {
			return slices.ContainsFunc(n.GPU.Busy, func(h Holder) bool { return h.GPU == id })
		})
		enough = enough && len(free) >= max(n.Node.Workers, 1)
		return []string{"export CUDA_VISIBLE_DEVICES=" + quote(strings.Join(free, ","))}
	})
	if !enough {
		steps = nil
	}
	steps = or(steps, byHand("end the processes that are named, or ask those to whom they belong"))
	return append(steps, toLook("which they are", "nvidia-smi").on(nodes))
}

// index is the number of a GPU in PCI order, as nvidia-smi shows it.
func (g *GPU) index(uuid string) string {
	for _, d := range g.Devices {
		if d.UUID == uuid {
			return fmt.Sprint(d.Index)
		}
	}
	return uuid
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return plural(int(n), "byte")
	case n < unit*unit:
		return fmt.Sprintf("%d KiB", n/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%d MiB", n/unit/unit)
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
	}
}

func checkDebugFile(f *Fleet) []Finding {
	v := f.look()
	if !v.nccl {
		return nil
	}
	all := one(f.faults(func(_ int, n *Facts) string {
		name := n.env("NCCL_DEBUG_FILE")
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
	}), Finding{Text: "NCCL_DEBUG_FILE is one file for several ranks: they overwrite it.", Steps: f.ownFile()})
	closed := odd(f.collect(func(_ int, n *Facts, add func(string)) {
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
	return append(all, one(closed, Finding{
		Text: "NCCL cannot write its log where NCCL_DEBUG_FILE says, and drops it.",
		Steps: f.each(marked(closed), inShell, "make the folder", func(_ int, n *Facts) []string {
			var dirs []string
			for _, d := range n.Host.Leftover.Log {
				if !d.Writable {
					dirs = append(dirs, quote(d.Path))
				}
			}
			return []string{"mkdir -p " + strings.Join(dirs, " ")}
		}),
	})...)
}

// ownFile is a name for NCCL's log that each rank has for itself, in the folder
// of the first.
func (f *Fleet) ownFile() []Step {
	for _, n := range f.known() {
		if name := n.env("NCCL_DEBUG_FILE"); name != "" {
			return []Step{everyRank("put the host and the process id into the name", "NCCL_DEBUG_FILE", path.Join(path.Dir(name), "nccl.%h.%p.log"))}
		}
	}
	return nil
}
