package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Keeper is the small process above one or more agents. It starts them, passes
// signals on and waits for orphans (it may be PID 1 of a container). When an agent
// ends, in whatever way, it kills what the agent left. It opens the table of its
// process, so the process must do nothing else.
type Keeper struct {
	// Agents are started in order. Each is in a process group of its own, so a
	// terminal's Ctrl-C reaches only the keeper. Each has the lifeline as
	// descriptor LifelineFD; its ExtraFiles follow from LifelineFD+1. Run closes the
	// keeper's copies of them, so that a pipe ends with the agents that have it. Agents should
	// be subreapers (have a Table open). Otherwise the keeper cannot distinguish
	// what different living agents leave.
	Agents []Spec
	// Signals are passed on, each once to each living agent (not to its group). The
	// keeper holds them back until all agents take signals ([Lifeline.SendReady]) or
	// should do so. Usually they are [Forwarded] through signal.Notify.
	Signals <-chan os.Signal
	// OnExit, if set, is called by Run for each agent that has ended, after
	// everything that the agent left has ended, too. killed is the number of
	// processes that had to be killed for that. Of agents that end at the same
	// time, any may get the count.
	OnExit func(agent int, e Exit, killed int)
}

// Forwarded returns the signals that a keeper passes on: SIGTERM, SIGINT, SIGHUP,
// SIGQUIT, SIGUSR1, SIGUSR2, those of more and SIGWINCH (a terminal reports its size only to the
// keeper's process group). It leaves out the signals that this process's caller
// ignores on purpose (SIGHUP under nohup, SIGINT of a shell's background job),
// because listening to a signal would end that. Call it before signal.Notify.
func Forwarded(more ...syscall.Signal) []os.Signal {
	all := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
	for _, sig := range more {
		if !slices.Contains(all, os.Signal(sig)) {
			all = append(all, sig)
		}
	}
	var on []os.Signal
	for _, sig := range all {
		if !signal.Ignored(sig) {
			on = append(on, sig)
		}
	}
	return on
}

// Run starts the agents. It returns when all agents, and everything that they left,
// have ended. It kills them when ctx ends. The error is about the keeper's own work
// (an agent that cannot be started, a process that does not end). OnExit gets how
// an agent ended.
func (k *Keeper) Run(ctx context.Context) error {
	table, err := Open()
	if err != nil {
		return err
	}
	defer table.Close()
	agentEnd, keeperEnd, err := newLifeline()
	if err != nil {
		return err
	}
	defer keeperEnd.Close()
	defer k.closeFiles()

	agents := make([]*Process, len(k.Agents))
	for i, spec := range k.Agents {
		spec.Group = true
		spec.ExtraFiles = append([]*os.File{agentEnd}, spec.ExtraFiles...)
		if agents[i], err = table.Start(spec); err != nil {
			agentEnd.Close()
			_, stopErr := table.Stop(ctx, StopOptions{}, agents[:i]...)
			return errors.Join(err, stopErr)
		}
	}
	agentEnd.Close()
	k.closeFiles()
	listen, codes := make(chan struct{}), make([]chan int, len(agents))
	for i := range codes {
		codes[i] = make(chan int, 1)
	}
	go readLifeline(keeperEnd, listen, codes) // ends when keeperEnd is closed
	return k.watch(ctx, table, kept{agents, codes}, listen)
}

// closeFiles closes the keeper's copies of the agents' files.
func (k *Keeper) closeFiles() {
	for _, spec := range k.Agents {
		for _, f := range spec.ExtraFiles {
			_ = f.Close() // agents share files, so it may be closed already
		}
	}
}

// newLifeline returns the two ends of a lifeline.
func newLifeline() (agentEnd, keeperEnd *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make the lifeline: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "lifeline"), os.NewFile(uintptr(fds[1]), "lifeline"), nil
}

// listenTimeout is how long a keeper holds back signals for agents that do not say
// that they take signals.
const listenTimeout = 2 * time.Second

// endTimeout is how long an agent that has sent its exit code has until it has ended.
const endTimeout = 5 * time.Second

// kept is the agents of a keeper, and what they send.
type kept struct {
	agents []*Process
	codes  []chan int
}

// stop waits for the end of an agent and ends what it left. An agent that has sent its exit
// code and does not end is killed and has ended with that code, even where SIGKILL does not
// end it.
func (k kept) stop(ctx context.Context, table *Table, i int) (e Exit, killed int, err error) {
	p := k.agents[i]
	select {
	case <-p.Done():
	case code := <-k.codes[i]:
		select {
		case <-p.Done():
		case <-time.After(endTimeout):
			killed, err = table.Stop(ctx, StopOptions{Signal: syscall.SIGKILL}, p)
			return Exit{Code: code}, killed, err
		}
	}
	killed, err = table.Stop(ctx, StopOptions{}, p)
	return p.Exit(), killed, err
}

// watch returns when all agents and their leftovers have ended. listen is closed
// when all agents take signals.
func (k *Keeper) watch(ctx context.Context, table *Table, all kept, listen <-chan struct{}) error {
	type end struct {
		agent, killed int
		exit          Exit
		err           error
	}
	agents := all.agents
	ends := make(chan end, len(agents))
	for i := range agents {
		go func() { // it ends, because an agent ends or sends that it does, and Stop has a deadline
			e, killed, err := all.stop(ctx, table, i)
			ends <- end{i, killed, e, err}
		}()
	}
	var errs []error
	signals, cancelled := k.Signals, ctx.Done()
	var held []syscall.Signal
	pass := func() {
		for _, sig := range held {
			for _, p := range agents {
				p.signalAlone(sig) // an agent that has ended needs no signal
			}
		}
		held = nil
	}
	listenElapsed := time.After(listenTimeout)
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
		case <-listenElapsed:
			listen = nil
			pass()
		case e := <-ends:
			left--
			if e.err != nil {
				errs = append(errs, e.err)
			}
			if k.OnExit != nil {
				k.OnExit(e.agent, e.exit, e.killed)
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
