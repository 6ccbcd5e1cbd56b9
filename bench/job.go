package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// job is one run of a launcher: the processes that a user would start, and all their
// descendants. The benchmark is a subreaper, so every process that a launcher leaves
// behind becomes its child, and close ends it.
type job struct {
	dir      string // output of the launchers and the file of started workers
	cmds     []*exec.Cmd
	begin    int64  // monotonic ns, before the first launcher was started
	others   []int  // descendants of this process that do not belong to the job
	memory   string // folder in memory for the files that a killed launcher leaves; "": there is none
	finished chan struct{}
	end      int64 // monotonic ns, after the last launcher ended; valid after finished
}

// startJob starts all commands at once. The caller must call close.
func startJob(l *lab, p *peer, s shape, program []string) (*job, error) {
	dir, err := os.MkdirTemp(l.scratch, "")
	if err != nil {
		return nil, err
	}
	j := &job{dir: dir, others: l.otherProcesses(), finished: make(chan struct{})}
	if !p.leavesFiles {
		j.memory, _ = os.MkdirTemp("/dev/shm", "bench")
	}
	if program == nil {
		program = []string{l.helper, "worker", j.startedFile()}
	}
	lines, err := p.commands(l, s, program)
	if err != nil {
		return nil, err
	}
	for i := range s.nodes + s.spares { // see ssh-stand-in.sh
		if err := os.Mkdir(filepath.Join(dir, loopback(i+1)), 0o700); err != nil {
			return nil, err
		}
	}
	out, err := os.Create(j.outputFile())
	if err != nil {
		return nil, err
	}
	defer out.Close()

	for _, line := range lines {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
		if p.leavesFiles {
			cmd.Env = append(cmd.Env, "TMPDIR="+dir, "BENCH_TMPDIR="+dir)
		} else if j.memory != "" {
			cmd.Env = append(cmd.Env, "TMPDIR="+j.memory)
		}
		cmd.Env = append(cmd.Env, p.env...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		j.cmds = append(j.cmds, cmd)
	}
	j.begin = monotonic()
	for i, cmd := range j.cmds {
		if err := cmd.Start(); err != nil {
			j.cmds = j.cmds[:i]
			go j.await()
			return nil, errors.Join(fmt.Errorf("cannot start %s: %w", p.name, err), j.close())
		}
	}
	go j.await()
	return j, nil
}

// await reaps the launchers; close waits for it.
func (j *job) await() {
	var all sync.WaitGroup
	for _, cmd := range j.cmds {
		all.Go(func() { _ = cmd.Wait() }) // the code is in cmd.ProcessState
	}
	all.Wait()
	j.end = monotonic()
	close(j.finished)
}

// wait returns the launchers' exit codes, 128+n for a launcher that signal n ended.
func (j *job) wait(ctx context.Context, bound time.Duration) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	select {
	case <-j.finished:
	case <-ctx.Done():
		return nil, fmt.Errorf("launchers still run after %v: %w", bound, ctx.Err())
	}
	var codes []int
	for _, cmd := range j.cmds {
		code := cmd.ProcessState.ExitCode()
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			code = 128 + int(s.Signal())
		}
		codes = append(codes, code)
	}
	return codes, nil
}

// started is a worker's record of its first instruction.
type started struct {
	at  int64 // monotonic ns
	pid int
}

// workers waits until n workers have started.
func (j *job) workers(ctx context.Context, n int, bound time.Duration) ([]started, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		all := j.startedWorkers()
		if len(all) >= n {
			return all, nil
		}
		select {
		case <-tick.C:
		case <-j.finished:
			return nil, fmt.Errorf("launchers ended with %d of %d workers started: %s", len(all), n, j.lastOutput())
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d workers started in %v: %s", len(all), n, bound, j.lastOutput())
		}
	}
}

func (j *job) startedWorkers() []started {
	text, _ := os.ReadFile(j.startedFile()) // the first worker creates the file
	var all []started
	for line := range strings.Lines(string(text)) {
		var s started
		if n, _ := fmt.Sscan(line, &s.at, &s.pid); n == 2 && strings.HasSuffix(line, "\n") {
			all = append(all, s)
		}
	}
	return all
}

// close ends every process of the job and removes its files.
func (j *job) close() error {
	const bound = 20 * time.Second
	left := j.kill()
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); left = j.kill() {
		if left == 0 && j.isFinished() {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if left > 0 || !j.isFinished() {
		return fmt.Errorf("%d processes survive SIGKILL for %v", left, bound)
	}
	// The processes that the launchers left are this process's children now.
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if pid <= 0 || err != nil {
			break
		}
	}
	if j.memory != "" {
		_ = os.RemoveAll(j.memory)
	}
	return os.RemoveAll(j.dir)
}

// below returns the processes of the job and those that they left behind.
func (j *job) below() []process {
	return slices.DeleteFunc(descendants(), func(p process) bool { return slices.Contains(j.others, p.pid) })
}

// kill sends SIGKILL to every process that still runs and returns their number.
func (j *job) kill() int {
	below := j.below()
	for _, p := range below {
		_ = unix.Kill(p.pid, unix.SIGKILL) // fails if the process has ended already
	}
	n := len(below)
	// Slurm's workers are children of slurmd, not of this process. Their argument
	// identifies them.
	for _, w := range j.startedWorkers() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.pid))
		if err == nil && bytes.Contains(text, []byte(j.startedFile())) {
			_ = unix.Kill(w.pid, unix.SIGKILL)
			n++
		}
	}
	return n
}

func (j *job) isFinished() bool {
	select {
	case <-j.finished:
		return true
	default:
		return false
	}
}

func (j *job) startedFile() string { return filepath.Join(j.dir, "started") }
func (j *job) outputFile() string  { return filepath.Join(j.dir, "output") }

// lastOutput returns the end of the launchers' output, for an error.
func (j *job) lastOutput() string {
	text, _ := os.ReadFile(j.outputFile())
	if len(text) > 600 {
		text = text[len(text)-600:]
	}
	return strings.TrimSpace(string(text))
}
