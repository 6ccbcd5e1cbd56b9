package process

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity identifies a process for ever. A pid alone may later belong to another
// process.
type identity struct {
	pid   int
	start uint64
}

func (s stat) identity() identity { return identity{s.pid, s.start} }

func (s stat) String() string {
	return fmt.Sprintf("process %d (%q, state %c)", s.pid, s.name, s.state)
}

// leftovers returns the children of this process that the table neither started nor
// inherited. These are orphans whose parent has ended, as zombies too until they
// are waited for. leftovers leaves out the children in the session or group of a
// process of the table that lives and is not being stopped. protected holds the
// process groups that no signal may reach: those of this process and of inherited
// children. The lock is held, so that no leftover can be waited for before the
// caller has signalled it.
func (t *Table) leftovers(stopped map[int]bool) (left []stat, protected map[int]bool, err error) {
	if childless() {
		return nil, nil, nil
	}
	children, err := t.fs.children(t.self)
	if err != nil {
		return nil, nil, err
	}
	protected = map[int]bool{syscall.Getpgrp(): true}
	owned := func(pid int) bool { return t.living[pid] != nil && !stopped[pid] }
	for _, pid := range children {
		if t.living[pid] != nil {
			continue
		}
		s, err := t.fs.stat(pid)
		switch {
		case err != nil:
			return nil, nil, err
		case t.inherited[pid]:
			protected[s.group] = true
		case !owned(s.session) && !owned(s.group):
			left = append(left, s)
		}
	}
	return left, protected, nil
}

// killDescendants sends SIGKILL to all descendants of the processes that do not
// end. Otherwise the descendants of a process that hangs in the kernel would
// outlive this process.
func (s *stopping) killDescendants() {
	var roots []identity
	s.table.mu.Lock()
	for _, p := range s.procs {
		if s.table.living[p.pid] == p {
			if st, err := s.table.fs.stat(p.pid); err == nil {
				roots = append(roots, st.identity())
			}
		}
	}
	s.table.mu.Unlock()
	for _, l := range s.left {
		roots = append(roots, l.identity())
	}
	for _, id := range s.table.fs.descendants(roots) {
		killIdentity(s.table.fs, id)
	}
}

// maxDescendants bounds one walk of a tree that may grow at the same time.
const maxDescendants = 1 << 16

// descendants returns the descendants of roots, without roots. Their own parents
// may wait for these processes at any time, because no lock prevents it. So
// descendants compares identities and reads each parent a second time: the children
// were its own only if it is still the same process.
func (f procfs) descendants(roots []identity) []identity {
	var all []identity
	for todo := roots; len(todo) > 0 && len(all) < maxDescendants; {
		parent := todo[0]
		todo = todo[1:]
		pids, err := f.children(parent.pid)
		if err != nil {
			continue
		}
		var kids []identity
		for _, pid := range pids {
			if s, err := f.stat(pid); err == nil && s.parent == parent.pid {
				kids = append(kids, s.identity())
			}
		}
		if again, err := f.stat(parent.pid); err == nil && again.identity() == parent {
			all = append(all, kids...)
			todo = append(todo, kids...)
		}
	}
	return all
}

// killIdentity sends SIGKILL to the process of an identity, and to no later process
// with the same pid. A pid file descriptor refers to the process for which it was
// opened; killIdentity then compares the identity.
func killIdentity(fs procfs, id identity) {
	fd, err := unix.PidfdOpen(id.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if s, e := fs.stat(id.pid); e != nil || s.identity() != id {
		return
	}
	if err == nil {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	} else if err == unix.ENOSYS { // before Linux 5.3
		unix.Kill(id.pid, unix.SIGKILL)
	}
}
