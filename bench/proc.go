package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one row of /proc.
type process struct {
	pid, parent int
	zombie      bool
}

// processes lists every process that this user can see, by pid.
func processes() (map[int]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, err := readProcess(pid); err == nil { // else the process has just ended
				all[pid] = p
			}
		}
	}
	return all, nil
}

// readProcess reads /proc/PID/stat: "pid (any name) state ppid ...".
func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return process{}, fmt.Errorf("cannot read /proc/%d/stat: %q", pid, text)
	}
	parent, err := strconv.Atoi(fields[1])
	return process{pid: pid, parent: parent, zombie: fields[0] == "Z"}, err
}

// descendants lists the descendants of this process that still run.
func descendants() []process {
	all, err := processes()
	if err != nil {
		return nil
	}
	var below []process
	self := os.Getpid()
	for _, p := range all {
		if !p.zombie && isBelow(all, p, self) {
			below = append(below, p)
		}
	}
	return below
}

func isBelow(all map[int]process, p process, root int) bool {
	for range len(all) { // bounded, because a snapshot is not atomic
		if p.parent == root {
			return true
		}
		next, ok := all[p.parent]
		if !ok {
			return false
		}
		p = next
	}
	return false
}

// rollup is the memory of one process in bytes, from /proc/PID/smaps_rollup.
// Pss counts a page shared by n processes as 1/n in each.
type rollup struct{ pss, rss int64 }

func readRollup(pid int) (rollup, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return rollup{}, err
	}
	return parseRollup(string(text))
}

func parseRollup(text string) (rollup, error) {
	var r rollup
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return rollup{}, err
		}
		switch fields[0] {
		case "Pss:":
			r.pss = kib << 10
		case "Rss:":
			r.rss = kib << 10
		}
	}
	if r.rss == 0 {
		return rollup{}, fmt.Errorf("no Rss in %q", text)
	}
	return r, nil
}

// monotonic returns CLOCK_MONOTONIC in ns, the clock of the workers' records.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // cannot happen on Linux
	}
	return t.Nano()
}

// deaths records when processes end, children or not, through one pidfd each.
type deaths struct {
	fds  []int
	when []int64 // monotonic ns; 0: alive
}

func newDeaths(pids ...int) (*deaths, error) {
	d := &deaths{}
	for _, pid := range pids {
		if err := d.add(pid); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *deaths) add(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("cannot watch process %d: %w", pid, err)
	}
	d.fds = append(d.fds, fd)
	d.when = append(d.when, 0)
	return nil
}

// watch begins to watch until all processes have ended or the bound is over; wait waits
// for that. The watch begins before watch returns, so that it never sees a later signal
// late.
func (d *deaths) watch(bound time.Duration) (wait func() error) {
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		// Never unlocked, so the thread and its priority end with the goroutine.
		runtime.LockOSThread()
		// On a busy machine a late look at an event shortens the time that begins with
		// it. So the watcher runs with priority; without root it cannot.
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{
			Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
		}, 0)
		close(ready)
		done <- d.poll(time.Now().Add(bound))
	}()
	<-ready
	return func() error { return <-done }
}

func (d *deaths) poll(deadline time.Time) error {
	for {
		var polled []unix.PollFd
		var index []int
		for i, fd := range d.fds {
			if d.when[i] == 0 {
				polled = append(polled, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
				index = append(index, i)
			}
		}
		left := time.Until(deadline)
		if len(polled) == 0 || left <= 0 {
			return nil
		}
		_, err := unix.Poll(polled, int(left.Milliseconds())+1)
		now := monotonic()
		if err != nil && err != unix.EINTR {
			return err
		}
		for i, p := range polled {
			if p.Revents != 0 {
				d.when[index[i]] = now
			}
		}
	}
}

func (d *deaths) close() {
	for _, fd := range d.fds {
		unix.Close(fd)
	}
}
