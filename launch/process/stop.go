package process

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"
)

const (
	// leftoverGrace is how long leftovers have between SIGTERM and SIGKILL. They get no
	// other grace period, because the process that could have ended them has ended.
	leftoverGrace = 100 * time.Millisecond
	// treeSearchAfter is the time after SIGKILL, and the interval, after which Stop
	// searches the whole tree. It looks for descendants of a process that takes
	// long to end (a GPU driver that cleans up, a file system that does not
	// answer).
	treeSearchAfter = 50 * time.Millisecond
	// KillTimeout is how long Stop waits for the effect of SIGKILL.
	KillTimeout = 10 * time.Second
)

// StopOptions says how Stop asks processes to end.
type StopOptions struct {
	// Signal is sent first; 0: SIGTERM.
	Signal syscall.Signal
	// Grace is how long the processes have before SIGKILL; 0: no time.
	Grace time.Duration
}

// Stop ends procs and everything that they left, and returns when all of it has
// ended. killed is the number of leftovers (not procs) that got SIGKILL.
//
//   - Each process's group gets the signal, and SIGCONT in case it is stopped. What
//     still lives after the grace period gets SIGKILL. A cancelled ctx ends the
//     grace period, not the stop.
//   - What a process left in its session gets SIGTERM as soon as the process has
//     ended, and SIGKILL 100 ms later. A leftover that has left the session has no
//     known owner; Stop treats it like this when the last of procs has ended.
//   - Stop does not touch other processes of the table, their descendants and the
//     processes in their sessions. It does touch daemons that have left both. So
//     stop together what was started together.
//
// Several Stops may run at once, also of the same processes. A Stop without a grace
// period shortens the others. The error names what still lives [KillTimeout] after
// SIGKILL.
func (t *Table) Stop(ctx context.Context, o StopOptions, procs ...*Process) (killed int, err error) {
	if o.Signal == 0 {
		o.Signal = syscall.SIGTERM
	}
	now := time.Now()
	s := &stopping{
		table:           t,
		procs:           procs,
		graceEnd:        now.Add(o.Grace),
		termAt:          make(map[identity]time.Time),
		signalledGroups: make(map[int]bool),
		killed:          make(map[identity]bool),
	}
	if o.Grace > 0 && ctx.Err() == nil {
		for _, p := range procs {
			// The loop below notices the only failure that matters: a process that
			// stays alive.
			s.signalledGroups[p.pid] = p.Signal(o.Signal) == nil && p.leader
			p.Signal(syscall.SIGCONT)
		}
	} else {
		s.kill(now)
	}

	timer := time.NewTimer(o.Grace)
	defer timer.Stop()
	cancelled := ctx.Done()
	for {
		t.mu.Lock()
		changed := t.changed() // before step, so that no later end is missed
		s.step(time.Now())
		t.mu.Unlock()
		if s.living+len(s.left) == 0 && s.err == nil {
			return len(s.killed), nil
		}
		now := time.Now()
		if s.killing && now.After(s.deadline) {
			return len(s.killed), s.failure()
		}
		if s.killing && now.After(s.treeSearchAt) {
			s.killDescendants()
			s.treeSearchAt = time.Now().Add(treeSearchAfter)
		}
		timer.Reset(time.Until(s.next()))
		select {
		case <-changed:
		case <-timer.C:
		case <-cancelled:
			cancelled = nil
			s.kill(time.Now())
		}
	}
}

// stopping is the state of one Stop.
type stopping struct {
	table *Table
	procs []*Process

	graceEnd     time.Time
	endedAt      time.Time // when Stop saw that the last of procs had ended
	killing      bool      // everything gets SIGKILL now
	deadline     time.Time // while killing: when to give up
	treeSearchAt time.Time // while killing: when to search the whole tree

	termAt          map[identity]time.Time // leftovers that got SIGTERM, and the time
	signalledGroups map[int]bool           // process groups that got SIGTERM or the first signal
	killed          map[identity]bool      // leftovers that got SIGKILL

	// The last step found the fields below.
	living int    // how many of procs live
	left   []stat // leftovers
	err    error  // why the leftovers could not be read
}

func (s *stopping) kill(now time.Time) {
	if !s.killing {
		s.killing = true
		s.deadline = now.Add(KillTimeout)
		s.treeSearchAt = now.Add(treeSearchAfter)
	}
}

// step counts what still lives and sends the signals that are due. The lock is
// held.
func (s *stopping) step(now time.Time) {
	living := make(map[int]bool)
	for _, p := range s.procs {
		if s.table.living[p.pid] == p {
			living[p.pid] = true
		}
	}
	s.living = len(living)
	if s.living == 0 && s.endedAt.IsZero() {
		s.endedAt = now
	}
	if !now.Before(s.graceEnd) || s.living == 0 && now.Sub(s.endedAt) >= leftoverGrace {
		s.kill(now)
	}
	if s.killing {
		for _, p := range s.procs {
			if living[p.pid] {
				syscall.Kill(p.target(), syscall.SIGKILL)
			}
		}
	}
	var protected map[int]bool
	if s.left, protected, s.err = s.table.leftovers(living); s.err != nil {
		return
	}
	for _, l := range s.left {
		s.signalLeftover(l, protected, now)
	}
}

// signalLeftover sends a leftover the signal that is due, together with the rest of its
// group unless the group is protected.
func (s *stopping) signalLeftover(l stat, protected map[int]bool, now time.Time) {
	if l.isZombie() {
		return // it will be waited for soon
	}
	group := l.group > 1 && !protected[l.group] // 1 and 0 stand for a group of another pid namespace
	target := l.pid
	if group {
		target = -l.group
	}
	termAt, termed := s.termAt[l.identity()]
	switch {
	case s.killing || termed && now.Sub(termAt) >= leftoverGrace:
		syscall.Kill(target, syscall.SIGKILL)
		s.killed[l.identity()] = true
	case !termed && (s.living == 0 || s.endedLeader(l.session)):
		s.termAt[l.identity()] = now
		if group && s.signalledGroups[l.group] {
			return // once for each group, because to some programs a second SIGTERM means "at once"
		}
		s.signalledGroups[l.group] = group
		syscall.Kill(target, syscall.SIGTERM)
		syscall.Kill(target, syscall.SIGCONT)
	}
}

// endedLeader reports whether the session belongs to one of procs that has ended.
// No other process can have got its number, because a leftover is still in the
// session.
func (s *stopping) endedLeader(session int) bool {
	for _, p := range s.procs {
		if p.pid == session && s.table.living[p.pid] != p {
			return true
		}
	}
	return false
}

// next returns when the next step is due if nothing changes.
func (s *stopping) next() time.Time {
	if s.killing {
		return s.treeSearchAt
	}
	next := s.graceEnd
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if s.living == 0 {
		earlier(s.endedAt.Add(leftoverGrace))
	}
	for _, l := range s.left {
		if at, ok := s.termAt[l.identity()]; ok && !s.killed[l.identity()] {
			earlier(at.Add(leftoverGrace))
		}
	}
	return next
}

// failure describes the processes that SIGKILL did not end.
func (s *stopping) failure() error {
	if s.err != nil {
		return fmt.Errorf("cannot find out which processes are left: %w", s.err)
	}
	var names []string
	for _, p := range s.procs {
		select {
		case <-p.done:
			continue
		default:
		}
		if st, err := s.table.fs.stat(p.pid); err == nil && st.parent == s.table.self {
			names = append(names, st.String())
		} else {
			names = append(names, fmt.Sprintf("process %d (it has ended, but something other than its table collected its end)", p.pid))
		}
	}
	for _, l := range s.left {
		names = append(names, l.String())
	}
	const most = 8
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("cannot end %s: still there %v after SIGKILL; one in state D waits inside the kernel (a driver or a network file system; see /proc/PID/wchan) and ends when that answers",
		strings.Join(names, ", "), KillTimeout)
}
