package watch

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gorun/gorun/launch/hang"
	"golang.org/x/sys/unix"
)

// Bounds of one worker's processes.
const (
	maxProcesses = 64 // that are looked at
	treeEvery    = 5  // looks between two walks through the tree
)

// clientNames are the programs that only pass on what runs elsewhere: in a container that
// is no child of theirs, or on another machine.
var clientNames = []string{"docker", "podman", "nerdctl", "ssh", "kubectl", "srun"}

// tree looks at the processes of one worker.
type tree struct {
	root  int
	pids  []int // of the worker's processes, root first
	looks int
	used  map[int]usage
	goes  map[int]bool // whether a process runs a Go program, of those for which it mattered
	buf   []byte
}

// usage is what a process has used since its start.
type usage struct {
	start      uint64        // with the pid it identifies a process
	run, ready time.Duration // of the main thread; of all threads of a Go program
	total      time.Duration // of all threads, roughly
	goes       bool          // it is a Go program, any thread of which may be the one that computes
	bytes      uint64
}

func newTree(root int) *tree {
	return &tree{root: root, used: map[int]usage{}, goes: map[int]bool{}, buf: make([]byte, 4<<10)}
}

// look reads what the processes have done since the last look. The first look at a process
// shows what it did since its start as done now.
func (t *tree) look(elapsed time.Duration) hang.Look {
	if t.looks%treeEvery == 0 {
		t.pids = t.walk()
	}
	t.looks++
	l := hang.Look{PID: t.root}
	used := map[int]usage{}
	for _, pid := range t.pids {
		u, name, state, ok := t.read(pid)
		if !ok {
			continue
		}
		used[pid] = u
		if slices.Contains(clientNames, name) {
			l.Unseen = true
		}
		if pid == t.root || state == 'T' || state == 't' {
			l.State = state
		}
		last, seen := t.used[pid]
		if !seen || last.start != u.start {
			last = usage{}
		}
		l.Bytes += u.bytes - min(last.bytes, u.bytes)
		run, idle := t.share(pid, u, last, elapsed)
		if run > l.Run {
			l.Run, l.Idle = run, idle
		}
	}
	t.used = used
	return l
}

// share returns how long the threads that count ran, and slept. A process that used CPUs by
// other threads than its main thread is looked at more closely the next time.
func (t *tree) share(pid int, now, last usage, elapsed time.Duration) (run, idle time.Duration) {
	if now.goes && !last.goes {
		last = usage{run: now.run, ready: now.ready}
	}
	run, ready := now.run-min(last.run, now.run), now.ready-min(last.ready, now.ready)
	total := now.total - min(last.total, now.total)
	if _, known := t.goes[pid]; !known && total >= elapsed/50 && run < total/2 {
		t.goes[pid] = isGo(pid)
		if t.goes[pid] {
			run = total
		}
	}
	return run, max(0, elapsed-run-ready)
}

// isGo reports whether a process runs a Go program.
func isGo(pid int) bool {
	_, err := buildinfo.ReadFile(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil
}

// walk returns the worker's processes, the first maxProcesses of them.
func (t *tree) walk() []int {
	pids := []int{t.root}
	for i := 0; i < len(pids) && len(pids) < maxProcesses; i++ {
		pids = append(pids, t.children(pids[i])...)
	}
	return pids[:min(len(pids), maxProcesses)]
}

// children returns the children of a process, as far as the kernel lists them.
func (t *tree) children(pid int) (pids []int) {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	for _, tid := range names(tasks) {
		for _, f := range bytes.Fields(t.readFile(tasks + "/" + tid + "/children")) {
			if n, err := strconv.Atoi(string(f)); err == nil && n > 0 {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// names lists a folder of /proc, at most a thousand names.
func names(path string) (all []string) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	buf := make([]byte, 8<<10)
	for len(all) < 1000 {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil || n <= 0 {
			return all
		}
		_, _, all = unix.ParseDirent(buf[:n], 1000, all)
	}
	return all
}

// readFile reads the first bytes of a file of /proc. The next call overwrites them.
func (t *tree) readFile(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, t.buf)
	if err != nil || n < 0 {
		return nil
	}
	return t.buf[:n]
}

// tick is the unit of the times in /proc/PID/stat: USER_HZ is 100 on every platform of Go.
const tick = 10 * time.Millisecond

// read reads what a process has used, its name, and the state of its main thread.
func (t *tree) read(pid int) (u usage, name string, state byte, ok bool) {
	folder := "/proc/" + strconv.Itoa(pid)
	stat := t.readFile(folder + "/stat")
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return u, "", 0, false
	}
	name = string(stat[open+1 : end]) // may contain anything
	f := bytes.Fields(stat[end+1:])
	if len(f) < 20 {
		return u, "", 0, false
	}
	state = f[0][0]
	u.total = time.Duration(number(f[11])+number(f[12])) * tick
	u.start = number(f[19])
	u.run = u.total
	// Without the time that it waited for a CPU a busy machine would make a worker idle.
	threads := []string{strconv.Itoa(pid)}
	if u.goes = t.goes[pid]; u.goes {
		threads = names(folder + "/task")
	}
	var run, ready time.Duration
	for _, tid := range threads {
		if s := bytes.Fields(t.readFile(folder + "/task/" + tid + "/schedstat")); len(s) >= 2 {
			run, ready = run+time.Duration(number(s[0])), ready+time.Duration(number(s[1]))
		}
	}
	if run > 0 { // not every kernel says it
		u.run, u.ready = run, ready
	}
	u.bytes = fileBytes(t.readFile(folder + "/io"))
	return u, name, state, true
}

// fileBytes returns what a process has read and written, by /proc/PID/io: by system calls,
// and from disks for memory that maps files. It does not count what sockets receive and send
// by the calls that are made for them.
func fileBytes(text []byte) (sum uint64) {
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "rchar", "wchar", "read_bytes":
			sum += number(bytes.TrimSpace(value))
		}
	}
	return sum
}

// number reads a decimal number, 0 if it is none.
func number(text []byte) uint64 {
	n, _ := strconv.ParseUint(string(text), 10, 64)
	return n
}
