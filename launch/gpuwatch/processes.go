package gpuwatch

import (
	"bytes"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/launch/device"
)

// Procs is a /proc file system.
type Procs struct {
	FS fs.FS // os.DirFS("/proc")
}

const (
	maxDepth = 100 // bounds a chain of processes that start processes
	// machineNamespace is the kernel's name of the first pid namespace
	// (PROC_PID_INIT_INO). It is the same on every machine.
	machineNamespace = "pid:[4026531836]"
)

// Name returns the name of a process, "" if there is no such process.
func (p Procs) Name(pid int) string {
	if pid <= 0 {
		return ""
	}
	b, err := fs.ReadFile(p.FS, strconv.Itoa(pid)+"/comm")
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(b[:min(len(b), 64)])), "?")
}

// HasHostPIDs reports whether this process sees the machine's own pids in /proc.
func (p Procs) HasHostPIDs() bool {
	link, err := fs.ReadLink(p.FS, "self/ns/pid")
	return err == nil && link == machineNamespace
}

// sharesFiles reports whether a process sees the same files as this process. Such a
// process is not in another container.
func (p Procs) sharesFiles(pid int) bool {
	mountNS, err := fs.ReadLink(p.FS, "self/ns/mnt")
	if err != nil {
		return false
	}
	other, err := fs.ReadLink(p.FS, strconv.Itoa(pid)+"/ns/mnt")
	return err == nil && other == mountNS
}

// assign adds to each rank the processes that hold a GPU and that a process of the
// rank started, at any depth. A process whose parent has ended is still in the
// group or session of the worker.
func (p Procs) assign(ranks []Rank, list []device.Process) []Rank {
	out := slices.Clone(ranks)
	owner := map[int]int{} // process to position in out
	for i := range out {
		out[i].PIDs = slices.Clone(out[i].PIDs)
		for _, pid := range out[i].PIDs {
			owner[pid] = i
		}
	}
	for _, h := range list {
		if _, known := owner[h.PID]; known {
			continue
		}
		if i, ok := p.findAncestor(h.PID, owner); ok {
			out[i].PIDs = append(out[i].PIDs, h.PID)
			owner[h.PID] = i
		}
	}
	return out
}

// findAncestor looks for a known process among the ancestors of pid.
func (p Procs) findAncestor(pid int, known map[int]int) (owner int, ok bool) {
	for range maxDepth {
		if pid <= 1 {
			break
		}
		b, err := fs.ReadFile(p.FS, strconv.Itoa(pid)+"/stat")
		if err != nil {
			break
		}
		// The line reads: "7 (a name, which may hold anything) S parent group
		// session ...".
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(fields) < 4 {
			break
		}
		var ids [3]int
		for i := range ids {
			ids[i], _ = strconv.Atoi(string(fields[i+1]))
			if owner, ok := known[ids[i]]; ok {
				return owner, true
			}
		}
		pid = ids[0]
	}
	return 0, false
}
