package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// maxFile bounds what is read of one file of /proc. A stat line has less than 1
// KiB, a list of 32768 children less than 256 KiB.
const maxFile = 1 << 20

// pfExiting is the kernel's flag of a thread that ends (PF_EXITING).
const pfExiting = 0x4

// procfs reads a /proc file system (proc(5)).
type procfs struct {
	root  string
	lists bool // the kernel lists children (CONFIG_PROC_CHILDREN)
}

// stat holds what this package reads of /proc/PID/stat.
type stat struct {
	pid     int
	name    string
	state   byte // R, S, D, T, t, Z, X, ...
	parent  int
	group   int
	session int
	flags   uint64 // PF_*
	threads int
	start   uint64             // clock ticks after boot; with the pid it identifies a process for ever
	status  syscall.WaitStatus // of the end; 0 while the process runs, and for who may not know it
}

// isExiting reports whether the kernel ends the thread: it runs no code of a program any
// more. A thread that waits for its process's core file is not there yet.
func (s stat) isExiting() bool { return s.flags&pfExiting != 0 }

// isZombie reports whether only a zombie is left. The leader of a process that still
// runs in other threads looks like a zombie, too.
func (s stat) isZombie() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

// openProcfs returns the /proc at root. It must belong to the pid namespace of this
// process: in another namespace the numbers name other processes.
func openProcfs(root string, self int) (procfs, error) {
	link, err := os.Readlink(root + "/self")
	if err != nil {
		return procfs{}, fmt.Errorf("%s is not readable: %w; mount it (mount -t proc proc %s)", root, err, root)
	}
	if link != strconv.Itoa(self) {
		return procfs{}, fmt.Errorf("%s belongs to another pid namespace (it calls this process %s, not %d); mount a new one (unshare --mount-proc)", root, link, self)
	}
	_, err = os.Stat(root + "/thread-self/children")
	return procfs{root: root, lists: err == nil}, nil
}

// children returns the pids of pid's children, zombies included; none if pid has
// ended. The list is exact as long as none of them is waited for at the same time
// (proc(5) on "children").
func (f procfs) children(pid int) ([]int, error) {
	if !f.lists {
		return f.childrenByParent(pid)
	}
	tasks := f.root + "/" + strconv.Itoa(pid) + "/task/"
	tids, err := readNumbers(tasks)
	if hasEnded(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, tid := range tids {
		list, err := readFile(tasks + strconv.Itoa(tid) + "/children")
		if err != nil && !hasEnded(err) {
			return nil, err
		}
		for _, field := range bytes.Fields(list) {
			if n, err := strconv.Atoi(string(field)); err == nil && n > 0 {
				pids = append(pids, n)
			}
		}
	}
	return pids, nil
}

// childrenByParent reads all processes, for kernels without lists of children.
func (f procfs) childrenByParent(pid int) ([]int, error) {
	all, err := readNumbers(f.root)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, n := range all {
		if s, err := f.stat(n); err == nil && s.parent == pid {
			pids = append(pids, n)
		}
	}
	return pids, nil
}

func (f procfs) stat(pid int) (stat, error) {
	line, err := readFile(f.root + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(line)
}

// parseStat reads a line of /proc/PID/stat. The name, the second field, may contain
// anything (blanks, parentheses, line breaks), so the last parenthesis ends it.
func parseStat(line []byte) (stat, error) {
	bad := errors.New("not a line of /proc/PID/stat")
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return stat{}, bad
	}
	// Fields 3 (state) onwards of proc(5) become rest[0] onwards.
	rest := bytes.Fields(line[end+1:])
	if len(rest) < 20 || len(rest[0]) != 1 {
		return stat{}, bad
	}
	s := stat{name: string(line[open+1 : end]), state: rest[0][0]}
	var err error
	number := func(b []byte) int {
		n, e := strconv.ParseInt(string(b), 10, 32)
		err = errors.Join(err, e)
		return int(n)
	}
	s.pid = number(bytes.TrimSpace(line[:open]))
	s.parent, s.group, s.session = number(rest[1]), number(rest[2]), number(rest[3])
	s.threads = number(rest[17])
	var e error
	s.start, e = strconv.ParseUint(string(rest[19]), 10, 64)
	err = errors.Join(err, e)
	s.flags, e = strconv.ParseUint(string(rest[6]), 10, 64)
	err = errors.Join(err, e)
	if len(rest) >= 50 { // since Linux 3.5
		s.status = syscall.WaitStatus(number(rest[49]))
	}
	if err != nil || s.pid <= 0 {
		return stat{}, bad
	}
	return s, nil
}

// readFile reads a file of at most maxFile bytes.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxFile)
	}
	return text, err
}

// readNumbers returns the numeric names in a directory.
func readNumbers(dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	var numbers []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, err
}

// hasEnded reports whether err says that the process (or thread) has ended.
func hasEnded(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH)
}
