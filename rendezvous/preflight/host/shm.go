package host

import (
	"bytes"
	"context"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// shm checks /dev/shm, over which data loaders and the ranks of a node
// communicate.
func (o Options) shm(s *SHM) (why string) {
	s.Free = -1
	var fs unix.Statfs_t
	var st unix.Stat_t
	name := o.Root + "/dev/shm"
	if err := unix.Faccessat(unix.AT_FDCWD, name+"/", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		s.Error = err.Error()
	}
	if err := unix.Stat(name, &st); err != nil {
		return "how large /dev/shm is: " + err.Error()
	}
	if err := unix.Statfs(name, &fs); err != nil {
		return "how large /dev/shm is: " + err.Error()
	}
	s.Dev = uint64(st.Dev)
	s.Size, s.Free = space(fs.Blocks, fs.Bsize), space(fs.Bavail, fs.Bsize)
	s.Flags = mountFlags(int64(fs.Flags))
	return ""
}

// space multiplies the number of blocks by their size; a file system may report
// nonsense.
func space(blocks uint64, size int64) int64 {
	if size <= 0 || blocks > 1<<62/uint64(size) {
		return 1 << 62
	}
	return int64(blocks) * size
}

func mountFlags(flags int64) string {
	var set []string
	if flags&unix.ST_RDONLY != 0 {
		set = append(set, "ro")
	}
	if flags&unix.ST_NOEXEC != 0 {
		set = append(set, "noexec")
	}
	return strings.Join(set, ",")
}

// These bound the search for leftovers.
const (
	maxSHMFiles = 4096
	maxPIDs     = 8192
	maxMaps     = 8 << 20   // bytes of one process's list of mappings: PyTorch's has 200 KB
	mapsBudget  = 128 << 20 // bytes of all lists together
)

// initPIDNamespace is the link of the first pid namespace (PROC_PID_INIT_INO in
// the kernel's include/linux/proc_ns.h).
const initPIDNamespace = "pid:[4026531836]"

// segments counts what earlier jobs of this user left in /dev/shm. NCCL removes
// its segments once both sides have mapped them, so a segment that no process
// maps is from a job that was killed.
func (o Options) segments(ctx context.Context) (left Leftover, why string) {
	if !o.Driver {
		return left, ""
	}
	const dir = "/dev/shm"
	uid := uint32(os.Geteuid())
	size := map[string]int64{}
	for _, name := range o.names(dir, maxSHMFiles, func(name string) bool { return strings.HasPrefix(name, "nccl-") }) {
		var st unix.Stat_t
		if unix.Lstat(o.Root+dir+"/"+name, &st) == nil && st.Uid == uid && st.Mode&unix.S_IFMT == unix.S_IFREG {
			size[dir+"/"+name] = st.Blocks * 512
		}
	}
	if len(size) == 0 {
		return left, ""
	}
	budget, buf := mapsBudget, make([]byte, 0, 64<<10)
	for _, pid := range o.processes(uid) {
		maps := readHead(o.Root+"/proc/"+pid+"/maps", maxMaps, buf)
		if budget -= len(maps); budget < 0 || len(maps) == maxMaps || ctx.Err() != nil {
			return left, "which of /dev/shm/nccl-* are in use: there is too much to read in /proc/*/maps"
		}
		deleteMapped(size, maps)
	}
	left.Unsure = len(size) > 0 && o.link("pid") != initPIDNamespace
	for _, n := range size {
		left.SHMFiles++
		left.SHMBytes += n
	}
	return left, ""
}

// deleteMapped removes the files that a list of mappings names (proc(5): the
// path begins at the first '/').
func deleteMapped(size map[string]int64, maps []byte) {
	for line := range bytes.Lines(maps) {
		i := bytes.Index(line, []byte("/dev/shm/nccl-"))
		if i < 0 {
			continue
		}
		name := strings.TrimSuffix(string(bytes.TrimRight(line[i:], "\n")), " (deleted)")
		delete(size, name)
	}
}

// processes lists the pids whose /proc folder belongs to a user. For root,
// which may read all of them, it lists every pid.
func (o Options) processes(uid uint32) []string {
	pids := o.names("/proc", maxPIDs, isNumber)
	if uid == 0 {
		return pids
	}
	owned := pids[:0]
	for _, pid := range pids {
		var st unix.Stat_t
		if unix.Stat(o.Root+"/proc/"+pid, &st) == nil && st.Uid == uid {
			owned = append(owned, pid)
		}
	}
	return owned
}
