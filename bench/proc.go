package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

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
			if p, err := readProcess(pid); err == nil { // else it has just ended
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

// descendants lists the processes below this one that still run.
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
	for range len(all) { // a snapshot is not atomic: bound the walk
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

// monotonic is CLOCK_MONOTONIC in ns: the clock that the workers write down.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // cannot happen on Linux
	}
	return t.Nano()
}
