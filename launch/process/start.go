package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Spec describes a process to start.
type Spec struct {
	// Path is the program's file: absolute, or relative to Dir. It is not searched
	// in $PATH.
	Path string
	// Args is the argument vector with the program's name; nil: {Path}.
	Args []string
	// Env is the whole environment as KEY=VALUE; nil: this process's own.
	Env []string
	// Dir is the working directory; "": this process's own.
	Dir string

	// Stdin, Stdout and Stderr become descriptors 0, 1 and 2; nil: /dev/null. The
	// caller still owns them and closes its copies.
	Stdin, Stdout, Stderr *os.File
	// ExtraFiles become descriptors 3, 4, ...; a nil one is /dev/null.
	ExtraFiles []*os.File

	// Session starts a new session (and process group) without a terminal.
	Session bool
	// Group starts a new process group in this process's session.
	Group bool
	// Death, if not 0, is the signal that the kernel sends to the process when the
	// thread that started it ends (PR_SET_PDEATHSIG), which is when this process
	// ends.
	Death syscall.Signal
	// Around, if set, calls start once, on the thread on which it was called. The
	// process inherits what Around sets on that thread (a CPU mask, a memory
	// policy). Around returns what start returned, or why it did not call start.
	Around func(start func() error) error
}

// Start starts a process. It returns once the program is running: a program that
// cannot be executed is an error here, not an exit code.
//
// Start holds the lock from fork to registration. So the table knows a process that
// ends at once, and takes no new process for a leftover.
func (t *Table) Start(s Spec) (*Process, error) {
	started, err := t.StartAll([]Spec{s})
	return started[0], err
}

// StartAll starts several processes. After a failed start it starts no
// further process. It returns the processes in the order of their Specs, nil for each
// that was not started. It reports no process's end before all have been tried.
func (t *Table) StartAll(all []Spec) ([]*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	started := make([]*Process, len(all))
	if t.closed {
		return started, fmt.Errorf("cannot start %s: %w", all[0].Path, os.ErrClosed)
	}
	pids, err := make([]int, len(all)), error(nil)
	done := make(chan struct{})
	t.starts <- func() {
		defer close(done)
		for i := 0; i < len(all) && err == nil; i++ {
			pids[i], err = t.start(all[i])
		}
	}
	<-done // Close waits, because the lock is held
	select {
	case <-t.parent:
	default:
		close(t.parent)
	}
	for i, pid := range pids {
		if pid > 0 {
			started[i] = &Process{table: t, pid: pid, leader: all[i].Session || all[i].Group, done: make(chan struct{})}
			t.living[pid] = started[i]
			t.deaths.watch(pid)
		}
	}
	return started, err
}

// starter starts processes until Close. From the first process on it runs on a
// thread of its own, because Death comes when the thread that started a process
// ends.
func (t *Table) starter() {
	for first := true; ; first = false {
		select {
		case start := <-t.starts:
			if first {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread() // after Close the runtime may use the thread
			}
			start()
		case <-t.quit:
			return
		}
	}
}

// start starts one process and returns its pid.
func (t *Table) start(s Spec) (int, error) {
	if s.Args == nil {
		s.Args = []string{s.Path}
	}
	if s.Env == nil {
		s.Env = os.Environ()
	}
	files := append([]*os.File{s.Stdin, s.Stdout, s.Stderr}, s.ExtraFiles...)
	fds := make([]uintptr, len(files))
	for i, f := range files {
		if f == nil {
			f = t.null
		}
		fds[i] = f.Fd()
	}
	attr := syscall.ProcAttr{
		Dir:   s.Dir,
		Env:   s.Env,
		Files: fds,
		Sys: &syscall.SysProcAttr{
			Setsid:    s.Session,
			Setpgid:   s.Group && !s.Session, // the leader of a session leads a group anyway
			Pdeathsig: s.Death,
		},
	}
	pid, err := fork(s, &attr)
	runtime.KeepAlive(files)
	if err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", s.Path, err)
	}
	return pid, nil
}

// fork starts the program. The table owns every process that runs, so an error of
// Around never loses a pid.
func fork(s Spec, attr *syscall.ProcAttr) (pid int, err error) {
	start := func() (err error) {
		if pid, err = syscall.ForkExec(s.Path, s.Args, attr); err != nil {
			return explain(s, err)
		}
		return nil
	}
	if s.Around == nil {
		err = start()
	} else {
		err = s.Around(start)
	}
	if pid <= 0 && err == nil {
		err = errors.New("it was not called to start")
	}
	if pid > 0 {
		err = nil
	}
	return pid, err
}

// explain adds to an error of fork, chdir or execve what the error number alone
// does not say. execve(2) and fork(2) define the meanings.
func explain(s Spec, err error) error {
	if s.Dir != "" {
		if info, e := os.Stat(s.Dir); e != nil {
			return fmt.Errorf("its working directory: %w", e)
		} else if !info.IsDir() {
			return fmt.Errorf("its working directory: %s is not a directory", s.Dir)
		}
	}
	var hint string
	switch {
	case errors.Is(err, syscall.ENOENT):
		if _, e := os.Stat(s.Path); e == nil {
			hint = "the file is there, but the interpreter in its first line (or its dynamic loader) is not"
		}
	case errors.Is(err, syscall.EACCES):
		hint = "is it a program, with the execute permission (chmod +x) and not on a noexec mount?"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "neither a program for this machine nor a script that begins with #!"
	case errors.Is(err, syscall.E2BIG):
		hint = "the arguments and the environment together are too large"
	case errors.Is(err, syscall.EAGAIN):
		hint = "the limit of processes is reached (ulimit -u, or pids.max of the container)"
	case errors.Is(err, syscall.EMFILE):
		hint = "the limit of open files is reached; raise it (ulimit -n)"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}
