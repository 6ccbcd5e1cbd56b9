package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Keeper is the small process above one or more agents. It starts them, passes
// signals on, waits for orphans (it may be PID 1 of a container), and when an
// agent ends, in whatever way, kills what that agent left. It opens the table
// of its process, so the process does nothing else.
type Keeper struct {
	// Agents are started in order, each in a process group of its own (a
	// terminal's Ctrl-C reaches the keeper alone) and with the lifeline as
	// descriptor LifelineFD; their ExtraFiles follow from LifelineFD+1. They
	// should be subreapers (have a Table open), else what they leave while they
	// live cannot be told from what another one left.
	Agents []Spec
	// Signals are passed on, each once to each living agent (not to its group),
	// once all agents take them ([Lifeline.Listens]) or should; usually
	// [Forwarded] through signal.Notify.
	Signals <-chan os.Signal
	// OnExit, if set, is called from Run for each agent that has ended, after
	// what it left is gone; killed counts the processes that had to be killed
	// for that. Of agents that end at the same time, any may get the count.
	OnExit func(agent int, e Exit, killed int)
}

// Forwarded returns the signals that a keeper passes on: SIGTERM, SIGINT, SIGHUP,
// SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH (a terminal tells only the keeper's process
// group of its size), without those that this process's caller ignores on purpose
// (SIGHUP under nohup, SIGINT of a shell's background job): to listen to one would
// end that. Call it before signal.Notify.
func Forwarded() []os.Signal {
	all := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
	var on []os.Signal
	for _, sig := range all {
		if !signal.Ignored(sig) {
			on = append(on, sig)
		}
	}
	return on
}

// Run starts the agents and returns when all have ended and nothing is left of
// them. When ctx is done it kills them. The error is about the keeper's own work
// (an agent that cannot be started, a process that does not die); how an agent
// ended is OnExit's.
func (k *Keeper) Run(ctx context.Context) error {
	table, err := Open()
	if err != nil {
		return err
	}
	defer table.Close()
	theirs, ours, err := newLifeline()
	if err != nil {
		return err
	}
	defer ours.Close()

	agents := make([]*Process, len(k.Agents))
	for i, spec := range k.Agents {
		spec.Group = true
		spec.ExtraFiles = append([]*os.File{theirs}, spec.ExtraFiles...)
		if agents[i], err = table.Start(spec); err != nil {
			theirs.Close()
			_, stopErr := table.Stop(ctx, StopOptions{}, agents[:i]...)
			return errors.Join(err, stopErr)
		}
	}
	theirs.Close()
	listen := make(chan struct{})
	go func() { // ends with ours
		if _, err := io.ReadFull(ours, make([]byte, len(agents))); err == nil {
			close(listen)
		}
	}()
	return k.watch(ctx, table, agents, listen)
}

// newLifeline makes the two ends.
func newLifeline() (theirs, ours *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make the lifeline: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "lifeline"), os.NewFile(uintptr(fds[1]), "lifeline"), nil
}

// listenTimeout is how long a keeper holds signals back for agents that do not
// say that they take them.
const listenTimeout = 2 * time.Second

// watch returns when all agents have ended and their leftovers with them. listen
// is closed when all take signals.
func (k *Keeper) watch(ctx context.Context, table *Table, agents []*Process, listen <-chan struct{}) error {
	type end struct {
		agent, killed int
		err           error
	}
	ends := make(chan end, len(agents))
	for i, p := range agents {
		go func() { // ends, because the kernel reports the agent's end and Stop has a deadline
			<-p.Done()
			killed, err := table.Stop(ctx, StopOptions{}, p)
			ends <- end{i, killed, err}
		}()
	}
	var errs []error
	signals, cancelled := k.Signals, ctx.Done()
	var held []syscall.Signal
	pass := func() {
		for _, sig := range held {
			for _, p := range agents {
				p.signalAlone(sig) // one that has ended needs no signal
			}
		}
		held = nil
	}
	late := time.After(listenTimeout)
	for left := len(agents); left > 0; {
		select {
		case sig, open := <-signals:
			if !open {
				signals = nil
			}
			if s, ok := sig.(syscall.Signal); ok {
				held = append(held, s)
			}
			if listen == nil {
				pass()
			}
		case <-listen:
			listen = nil
			pass()
		case <-late:
			listen = nil
			pass()
		case e := <-ends:
			left--
			if e.err != nil {
				errs = append(errs, e.err)
			}
			if k.OnExit != nil {
				k.OnExit(e.agent, agents[e.agent].Exit(), e.killed)
			}
		case <-cancelled:
			cancelled = nil
			for _, p := range agents {
				p.Signal(syscall.SIGKILL)
			}
		}
	}
	return errors.Join(errs...)
}
