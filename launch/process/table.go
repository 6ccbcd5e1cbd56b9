package process

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Table owns all children of this process. There is only one.
type Table struct {
	fs   procfs
	self int      // own pid
	null *os.File // /dev/null, for the files that a Spec leaves out

	sigchld chan os.Signal
	parent  chan struct{} // closed once this process may have children
	starts  chan func()   // for the starter
	quit    chan struct{} // closed by Close
	running sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	living    map[int]*Process // processes that the table started and has not yet waited for
	inherited map[int]bool     // children that this process had before the table
	change    chan struct{}    // closed at the next end of a child; nil: no Stop waits for it
	deaths    *deaths          // order of the ends of living
}

// Open makes this process the reaper of all its descendants, and collects their
// ends until Close. It marks every descriptor above 2 of this process
// close-on-exec, inherited ones too.
func Open() (*Table, error) {
	t := &Table{
		self:      os.Getpid(),
		sigchld:   make(chan os.Signal, 1),
		parent:    make(chan struct{}),
		starts:    make(chan func()),
		quit:      make(chan struct{}),
		living:    make(map[int]*Process),
		inherited: make(map[int]bool),
		deaths:    openDeaths(),
	}
	fail := func(err error) (*Table, error) {
		return nil, fmt.Errorf("cannot take charge of child processes: %w", err)
	}
	var err error
	if t.fs, err = openProcfs("/proc", t.self); err != nil {
		return fail(err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fail(fmt.Errorf("prctl(PR_SET_CHILD_SUBREAPER): %w", err))
	}
	closeOnExec()
	if !childless() {
		close(t.parent)
		children, err := t.fs.children(t.self)
		if err != nil {
			return fail(err)
		}
		for _, pid := range children {
			t.inherited[pid] = true
		}
	}
	if t.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return fail(err)
	}
	t.running.Go(t.collect)
	t.running.Go(t.starter)
	return t, nil
}

// childless asks the kernel, which is faster than reading /proc.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil) == unix.ECHILD
}

// Close stops collecting. It ends no process; a Process that still lives then never
// becomes Done. This process remains a subreaper.
func (t *Table) Close() {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.quit)
		t.null.Close()
	}
	t.mu.Unlock()
	t.running.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaths.close()
}

// collect waits for children until Close. SIGCHLD wakes it, not a blocking wait: as
// PID 1 of a container this process can get children while it has none to wait for.
func (t *Table) collect() {
	select { // the runtime takes a while to install a signal handler, and the first start must not wait for it
	case <-t.parent:
	case <-t.quit:
		return
	}
	signal.Notify(t.sigchld, syscall.SIGCHLD)
	defer signal.Stop(t.sigchld)
	for {
		t.reap()
		select {
		case <-t.sigchld:
		case <-t.quit:
			return
		}
	}
}

// ended is a process whose end was collected.
type ended struct {
	process *Process
	status  syscall.WaitStatus
	number  int // in the order of the ends
}

// reap collects all children that have ended. Processes of the table become Done in the
// order in which they ended.
func (t *Table) reap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []ended
	for some := false; ; some = true {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WALL, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			if some && t.change != nil {
				close(t.change)
				t.change = nil
			}
			break
		}
		delete(t.inherited, pid)
		if p := t.living[pid]; p != nil {
			delete(t.living, pid)
			all = append(all, ended{process: p, status: ws})
		}
	}
	if len(all) == 0 {
		return
	}
	t.deaths.note() // a child can be collected only after its event is queued
	for i := range all {
		all[i].number = t.deaths.collect(all[i].process.pid)
	}
	slices.SortStableFunc(all, func(a, b ended) int { return cmp.Compare(a.number, b.number) })
	for _, e := range all {
		at := t.deaths.now()
		if !e.process.dyingAt.IsZero() {
			at = e.process.dyingAt
		}
		e.process.exit = exitOf(e.status, at)
		close(e.process.done)
	}
}

// changed returns a channel that is closed at the next end of a child. The lock
// is held.
func (t *Table) changed() <-chan struct{} {
	if t.change == nil {
		t.change = make(chan struct{})
	}
	return t.change
}

// closeOnExec hides the descriptors that this process inherited from its children,
// as torchrun does (Python's close_fds).
func closeOnExec() {
	if unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	fds, _ := filepath.Glob("/proc/self/fd/*") // before Linux 5.11
	for _, name := range fds {
		if fd, err := strconv.Atoi(filepath.Base(name)); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
