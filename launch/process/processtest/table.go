// Package processtest has a process table for tests. Its processes exist only in
// the test, which decides when and how they end.
package processtest

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/process"
)

// Process is a process of a Table.
type Process struct {
	pid  int
	done chan struct{}
	once sync.Once
	exit process.Exit

	mu      sync.Mutex
	signals []syscall.Signal
	dying   *process.Exit
}

// Pid returns 100 for the first process of a round, 101 for the second, ...
func (p *Process) Pid() int { return p.pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit waits for the end of the process.
func (p *Process) Exit() process.Exit { <-p.done; return p.exit }

// Signal records a signal.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signals = append(p.signals, sig)
	return nil
}

// Signals returns the recorded signals.
func (p *Process) Signals() []syscall.Signal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.signals)
}

// Die makes the kernel begin to end the process, until End.
func (p *Process) Die(code int, sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dying = &process.Exit{Code: code, Signal: sig}
}

// Dying returns what Die has said, with the time of the first Dying.
func (p *Process) Dying() (process.Exit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dying == nil || p.dying.Success() {
		return process.Exit{}, false
	}
	if p.dying.At.IsZero() {
		p.dying.At = time.Now()
	}
	return *p.dying, true
}

// End ends the process a moment from now, so not at the time of another event.
func (p *Process) End(code int, sig syscall.Signal) {
	time.Sleep(time.Millisecond)
	p.once.Do(func() {
		p.exit = process.Exit{Code: code, Signal: sig, At: time.Now()}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dying != nil {
			p.exit.Code, p.exit.Signal = p.dying.Code, p.dying.Signal
			if !p.dying.At.IsZero() {
				p.exit.At = p.dying.At
			}
		}
		close(p.done)
	})
}

// Table starts Processes, round after round. P is the interface that the tested
// package has for a process.
type Table[P any] struct {
	Refuse      func(i int) error // error of the start of process i; nil: all start
	StopErr     error             // error of Stop, which then ends no process
	IgnoresTERM bool              // only SIGKILL ends the processes

	mu     sync.Mutex
	rounds [][]process.Spec
	procs  []*Process // of the last round
	stops  []process.StopOptions
	killed chan struct{} // closed by the first Stop without grace
}

// NewTable returns a table without processes.
func NewTable[P any]() *Table[P] { return &Table[P]{killed: make(chan struct{})} }

// StartAll starts a round. After a refusal it starts no further process.
func (t *Table[P]) StartAll(specs []process.Spec) ([]P, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rounds, t.procs = append(t.rounds, specs), nil
	all := make([]P, len(specs))
	for i := range specs {
		if t.Refuse != nil {
			if err := t.Refuse(i); err != nil {
				return all, err
			}
		}
		p := &Process{pid: 100 + i, done: make(chan struct{})}
		t.procs = append(t.procs, p)
		all[i] = any(p).(P)
	}
	return all, nil
}

// Stop ends processes: with SIGTERM, or with SIGKILL after the grace period.
func (t *Table[P]) Stop(o process.StopOptions, procs []P) error {
	t.mu.Lock()
	t.stops = append(t.stops, o)
	if o.Grace == 0 {
		select {
		case <-t.killed:
		default:
			close(t.killed)
		}
	}
	t.mu.Unlock()
	if t.StopErr != nil {
		return t.StopErr
	}
	sig := syscall.SIGTERM
	if o.Grace == 0 || t.IgnoresTERM {
		sig = syscall.SIGKILL
	}
	if t.IgnoresTERM && o.Grace > 0 {
		select {
		case <-t.killed:
		case <-time.After(o.Grace):
		}
	}
	for _, p := range procs {
		any(p).(*Process).End(-1, sig)
	}
	return nil
}

// Rounds returns the number of rounds that were started.
func (t *Table[P]) Rounds() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rounds)
}

// Specs returns what the last round was started with.
func (t *Table[P]) Specs() []process.Spec {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.rounds[len(t.rounds)-1])
}

// Processes returns the processes of the last round.
func (t *Table[P]) Processes() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.procs)
}

// Stops returns the options of every Stop.
func (t *Table[P]) Stops() []process.StopOptions {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.stops)
}
