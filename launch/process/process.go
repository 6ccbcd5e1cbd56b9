package process

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that a [Table] started. Its methods may be called from
// any goroutine.
type Process struct {
	table   *Table
	pid     int
	leader  bool // leads a process group of its own
	done    chan struct{}
	exit    Exit      // written before done is closed
	dyingAt time.Time // when Dying first said that it ends; zero: it has not; the table's lock guards it
}

// Pid returns the pid. After Done it may belong to another process.
func (p *Process) Pid() int { return p.pid }

// Done is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended; it waits for Done.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Signal sends sig to the process's group, or to the process alone if it leads no
// group. It returns [os.ErrProcessDone] after the process has ended, even if others
// of its group still run. [Table.Stop] ends those.
func (p *Process) Signal(sig syscall.Signal) error { return p.send(p.target(), sig) }

// signalAlone sends sig to the process, not to its group.
func (p *Process) signalAlone(sig syscall.Signal) error { return p.send(p.pid, sig) }

// target returns the target for kill(2): the group, or the process if it leads no
// group.
func (p *Process) target() int {
	if p.leader {
		return -p.pid
	}
	return p.pid
}

func (p *Process) send(target int, sig syscall.Signal) error {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if p.table.living[p.pid] != p {
		return os.ErrProcessDone
	}
	if err := syscall.Kill(target, sig); err != nil {
		return fmt.Errorf("cannot send %s to process %d: %w", signalName(sig), p.pid, err)
	}
	return nil
}

// Exit says how a process ended.
type Exit struct {
	Code       int            // exit code, 0 to 255; -1: killed by Signal
	Signal     syscall.Signal // the signal that killed it; 0: none
	CoreDumped bool
	At         time.Time // when the table saw the end; a process that ended before another has an earlier time
}

func exitOf(ws syscall.WaitStatus, at time.Time) Exit {
	if ws.Signaled() {
		return Exit{Code: -1, Signal: ws.Signal(), CoreDumped: ws.CoreDump(), At: at}
	}
	return Exit{Code: ws.ExitStatus(), At: at}
}

// Success reports whether the process ended by itself with code 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == 0 }

// Status returns what a shell reports in $?: the exit code, or 128 plus the signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// String describes the end: "exited with code 3", "was killed by SIGSEGV (core
// dumped)".
func (e Exit) String() string {
	switch {
	case e.Signal == 0:
		return fmt.Sprintf("exited with code %d", e.Code)
	case e.CoreDumped:
		return "was killed by " + signalName(e.Signal) + " (core dumped)"
	default:
		return "was killed by " + signalName(e.Signal)
	}
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}
