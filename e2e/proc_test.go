package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// proc is a process of a job.
type proc struct {
	pid, parent int
	name        string
	cmdline     string
}

// processes lists the living processes of the job, which have the token in their
// environment.
func (j *job) processes() []proc {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var out []proc
	for _, dir := range dirs {
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil || !hasToken(environ, j.token) {
			continue
		}
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		p := proc{}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[end+1:]))
		if open < 0 || len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		p.name = string(stat[open+1 : end])
		p.parent, _ = strconv.Atoi(fields[1])
		cmdline, _ := os.ReadFile(dir + "/cmdline")
		p.cmdline = strings.ReplaceAll(strings.TrimRight(string(cmdline), "\x00"), "\x00", " ")
		out = append(out, p)
	}
	return out
}

func hasToken(environ []byte, token string) bool {
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if string(kv) == token {
			return true
		}
	}
	return false
}

// wantNoProcess asserts that no process of the job lives.
func (j *job) wantNoProcess() {
	j.Helper()
	var left []proc
	for deadline := time.Now().Add(shortWait); ; time.Sleep(10 * time.Millisecond) { // sleep: between two looks
		if left = j.processes(); len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, p := range left {
		j.Errorf("left behind: pid %d, parent %d, %s: %s", p.pid, p.parent, p.name, p.cmdline)
	}
}

// killAll kills all processes of a job as if at one instant. It stops all of them first,
// so that none reacts to the death of another.
func (j *job) killAll() {
	for range 20 {
		left := j.processes()
		if len(left) == 0 {
			return
		}
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, p := range left {
				_ = syscall.Kill(p.pid, sig)
			}
		}
		time.Sleep(10 * time.Millisecond) // sleep: between two looks
	}
}

// kill sends SIGKILL to one process.
func (j *job) kill(pid int) {
	j.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		j.Errorf("cannot kill %d: %v", pid, err)
	}
}

// stamp reads a time that a worker wrote with date +%s%N.
func (j *job) stamp(file string) time.Time {
	j.Helper()
	b, err := os.ReadFile(filepath.Join(j.dir, file))
	if err != nil {
		j.Fatal(err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		j.Fatal(err)
	}
	return time.Unix(0, ns)
}

// isStopped reports whether all threads of a process are stopped. A signal stops them
// one by one.
func isStopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(name string) bool {
		text, err := os.ReadFile(name)
		_, state, _ := strings.Cut(string(text), ") ")
		return err != nil || !strings.HasPrefix(state, "T")
	})
}
