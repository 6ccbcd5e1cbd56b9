package e2e_test

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// agent is one gorun on this machine: a keeper and the agent below it.
type agent struct {
	j            *job
	name         string
	cmd          *exec.Cmd
	out, err     *output
	began, ended time.Time // ended is set with done
	code         int       // 128+n when a signal killed the keeper
	done         chan struct{}
}

// launch starts a command as an agent of the job.
func (j *job) launch(name string, cmd *exec.Cmd) *agent {
	j.Helper()
	a := &agent{j: j, name: name, cmd: cmd, out: &output{}, err: &output{}, began: time.Now(), done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = a.out, a.err
		// A process that survives the keeper for a moment may hold its output open.
		cmd.WaitDelay = 2 * time.Second
	}
	if err := cmd.Start(); err != nil {
		j.Fatal(err)
	}
	j.agents = append(j.agents, a)
	go func() {
		err := cmd.Wait()
		a.ended = time.Now()
		if state := cmd.ProcessState; state != nil {
			a.code = state.ExitCode()
			if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
				a.code = 128 + int(ws.Signal())
			}
		}
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			a.err.add("[e2e: " + err.Error() + "]\n")
		}
		close(a.done)
	}()
	return a
}

// wait returns the exit code.
func (a *agent) wait(limit time.Duration) int {
	a.j.Helper()
	select {
	case <-a.done:
	case <-time.After(max(limit, time.Millisecond)):
		a.j.Fatalf("%s has not ended in time (%v after its start)", a.name, time.Since(a.began).Round(time.Millisecond))
	}
	return a.code
}

// running reports whether the keeper has not ended.
func (a *agent) running() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// waitForStdout waits until the agent has printed the text n times to standard output.
func (a *agent) waitForStdout(text string, n int) {
	a.j.Helper()
	eventually(a.j, longWait, a.name+" prints "+text, func() bool { return strings.Count(a.out.String(), text) >= n })
}

// waitForStderr waits until the agent has printed the text to standard error.
func (a *agent) waitForStderr(text string) {
	a.j.Helper()
	eventually(a.j, longWait, a.name+" says "+text, func() bool { return strings.Contains(a.err.String(), text) })
}

func (a *agent) lastLine() string {
	s := strings.TrimSpace(a.err.String())
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func (a *agent) keeper() int { return a.cmd.Process.Pid }

// signal sends a signal to the keeper, the process that a user or scheduler knows.
func (a *agent) signal(sig syscall.Signal) {
	a.j.Helper()
	if err := a.cmd.Process.Signal(sig); err != nil {
		a.j.Errorf("cannot signal %s: %v", a.name, err)
	}
}

// pid waits for the agent's process below the keeper.
func (a *agent) pid() int {
	a.j.Helper()
	pid := 0
	eventually(a.j, longWait, a.name+" has an agent below its keeper", func() bool {
		pid = a.findPid()
		return pid != 0
	})
	return pid
}

// findPid returns the pid of the agent's process, 0 when there is none (yet). Between
// fork and exec a child looks like its keeper.
func (a *agent) findPid() int {
	own, pid := "", 0
	all := a.j.processes()
	for _, p := range all {
		if p.pid == a.keeper() {
			own = p.cmdline
		}
	}
	for _, p := range all {
		if p.parent == a.keeper() && own != "" && p.cmdline != own {
			pid = p.pid
		}
	}
	return pid
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) add(s string) { _, _ = o.Write([]byte(s)) }

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
