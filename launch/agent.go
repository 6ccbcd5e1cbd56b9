package launch

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/control"
	"golang.org/x/sys/unix"
)

// agent is the state of Run. Only the loop touches it.
type agent struct {
	opts     Options
	born     time.Time
	node     rendezvous.Node
	table    *process.Table
	console  *console
	out      *logs.Console
	program  program.Program
	events   *queue
	machine  *rendezvous.Machine
	plane    *control.Plane // nil for a node alone
	stores   *stores
	socket   *socket
	config   workersConfig
	current  *workers
	signals  int                // that asked the job to end
	endWatch context.CancelFunc // of watchArrivals; nil: it does not run
	wg       sync.WaitGroup
}

// UsageError is an error of the command line or of a file that it names: exit
// code 2.
type UsageError struct{ Err error }

func (u *UsageError) Error() string { return u.Err.Error() }
func (u *UsageError) Unwrap() error { return u.Err }

// Run is the life of one agent. It returns gorun's exit code; the error is only
// for what happened before there was a job to report on.
func Run(ctx context.Context, opts Options) (int, error) {
	a := &agent{opts: opts, born: time.Now(), events: newQueue()}
	prefix := "gorun"
	if opts.Local != nil {
		prefix = "gorun[" + opts.Local.Addr + "]"
	}
	a.console = newConsole(opts.Stderr, prefix, opts.quiet())
	if !opts.quiet() {
		for _, n := range opts.Spec.Notes {
			a.console.say("%s", n)
		}
	}
	var err error
	if a.table, err = process.Open(); err != nil {
		return 1, err
	}
	defer a.table.Close()
	if a.out, err = logs.NewConsole(opts.Stdout, opts.Stderr); err != nil {
		return 1, err
	}
	defer a.out.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer a.wg.Wait()
	defer cancel()
	finish, err := a.prepare(ctx)
	defer finish()
	if err != nil {
		return 1, err
	}
	outcome := a.loop(ctx)
	if a.current != nil {
		a.current.sweep()
	}
	a.conclude(outcome)
	return outcome.Code, nil
}

// prepare makes everything that the loop needs; finish undoes it.
func (a *agent) prepare(ctx context.Context) (finish func(), err error) {
	var undo []func()
	finish = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	sp := a.opts.Spec
	a.node = rendezvous.Node{
		ID: rendezvous.NewNodeID(), RunID: sp.RunID, Protocol: rendezvous.Protocol, Version: a.opts.Version,
		Host: hostName(), PID: os.Getpid(), Role: sp.Role, NodeRank: sp.NodeRank, Endpoint: -1,
		Min: sp.MinNodes, Max: sp.MaxNodes,
	}
	if a.node.Workers, err = a.countWorkers(ctx); err != nil {
		return finish, &UsageError{err}
	}
	if err := a.prepareWorkers(); err != nil {
		return finish, err
	}
	if err := a.prepareProgram(ctx, &undo); err != nil {
		return finish, err
	}
	if a.socket, err = openSocket(ctx, func(rank, pid int, msg string) { a.events.put(reportedEvent{rank, msg}) }); err != nil {
		return finish, err
	}
	a.config.socket = a.socket
	a.wg.Go(func() { _ = a.socket.serve(ctx) })
	if err := a.connect(ctx); err != nil {
		return finish, err
	}
	a.config.addr = a.node.Addr
	undo = append(undo, a.stores.end)
	a.watch(ctx)
	return finish, nil
}

// prepareWorkers settles what all rounds of workers have in common.
func (a *agent) prepareWorkers() error {
	sp := a.opts.Spec
	c := workersConfig{
		table: a.table, console: a.out, env: a.opts.Env, wd: a.opts.Dir, stdin: a.opts.Stdin,
		host: a.node.Host, node: a.node.ID, runID: sp.RunID, grace: sp.ShutdownTimeout, post: a.events.post,
	}
	var err error
	if c.redirect, err = logs.ParseStd(sp.Redirects); err != nil {
		return &UsageError{fmt.Errorf("--redirects: %w", err)}
	}
	if c.tee, err = logs.ParseStd(sp.Tee); err != nil {
		return &UsageError{fmt.Errorf("--tee: %w", err)}
	}
	dir, err := logs.NewDir(sp.LogDir, sp.RunID)
	if err != nil {
		return &UsageError{err}
	}
	c.folders = newFolders(dir, a.node.Workers)
	a.wg.Go(c.folders.ahead)
	if note := envprop.OMPNote(a.opts.Env, a.node.Workers); note != "" && !a.opts.quiet() {
		a.console.say("%s", note)
	}
	a.config = c
	return nil
}

// prepareProgram looks at the program now and builds it while the nodes meet.
func (a *agent) prepareProgram(ctx context.Context, undo *[]func()) error {
	sp := a.opts.Spec
	plan, err := program.Check(program.Input{
		Program: sp.Program, Args: sp.Args, NoPython: sp.NoPython, Module: sp.Module, Dir: a.opts.Dir,
		Env: a.opts.Env, Run: runner{a.table}.run,
	})
	if err != nil && sp.MaxNodes == 1 {
		return &UsageError{err}
	}
	build := func() {
		if err == nil {
			a.program, err = plan.Build(ctx)
		}
		a.events.put(builtEvent{programCode(plan, err), err})
	}
	*undo = append(*undo, func() {
		if a.program.Cleanup != nil {
			_ = a.program.Cleanup()
		}
	})
	if err != nil || !plan.NeedsBuild() {
		build()
		return nil
	}
	a.wg.Go(build)
	return nil
}

// programCode: a program that is not there is bad input; one that does not
// build has failed.
func programCode(plan program.Plan, err error) int {
	if plan.NeedsBuild() {
		return 1
	}
	return rendezvous.ExitUsage
}

// ready: the program can be started here, or cannot. Only now, not while it was
// built, is this node's address known for sure.
func (a *agent) ready(e builtEvent) rendezvous.Event {
	if e.err == nil {
		return rendezvous.Ready{}
	}
	c := a.self(rendezvous.KindStart, e.err.Error())
	c.ExitCode = e.code
	return rendezvous.Ready{Cause: &c}
}

// watch turns signals and the keeper's death into events.
func (a *agent) watch(ctx context.Context) {
	a.wg.Go(func() {
		keeper := a.opts.Keeper
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-a.opts.Signals:
				a.events.put(signalEvent{s.(syscall.Signal)})
			case <-keeper:
				keeper = nil
				a.events.put(keeperEvent{})
			}
		}
	})
}

// newToken draws what the workers of one world have in common.
func newToken() string { return rand.Text() }

// loop owns the machine: events in, commands out, until the job is decided.
func (a *agent) loop(ctx context.Context) rendezvous.Outcome {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if next := a.machine.Next(); !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		} else {
			timer.Stop()
		}
		var batch []any
		select {
		case <-timer.C:
			batch = []any{rendezvous.Tick{}}
		case <-a.events.ready:
			batch = a.events.take()
		case <-ctx.Done():
			batch = []any{signalEvent{unix.SIGTERM}}
			ctx = context.WithoutCancel(ctx)
		}
		for _, e := range batch {
			if o := a.handle(ctx, e); o != nil {
				return *o
			}
		}
	}
}

// handle feeds one event to the machine and does what it commands.
func (a *agent) handle(ctx context.Context, e any) *rendezvous.Outcome {
	var event rendezvous.Event
	switch e := e.(type) {
	case rendezvous.Event:
		event = e
	case builtEvent:
		event = a.ready(e)
	case signalEvent:
		event = a.signalled(e.sig)
	case keeperEvent:
		c := a.self(rendezvous.KindStopped, "gorun's own first process, the keeper, was killed")
		c.Signal = unix.SIGKILL
		event = rendezvous.StopJob{Cause: c}
	case noteEvent:
		a.console.say("%s", e.text)
	case reportedEvent:
		if a.current != nil {
			a.current.reported(e.rank, e.message)
		}
	case error:
		return &rendezvous.Outcome{Code: rendezvous.ExitRendezvous, Cause: a.ended(e)}
	}
	if event == nil {
		return nil
	}
	var outcome *rendezvous.Outcome
	for _, c := range a.machine.Step(time.Now(), event) {
		if f, ok := c.(rendezvous.Finish); ok {
			outcome = &f.Outcome
			continue
		}
		a.do(ctx, c)
	}
	return outcome
}

// ended is the cause of a backend that gave up.
func (a *agent) ended(err error) *rendezvous.Cause {
	c := a.self(rendezvous.KindRendezvous, err.Error())
	return &c
}

func (a *agent) do(ctx context.Context, c rendezvous.Command) {
	switch c := c.(type) {
	case rendezvous.Dial:
		a.plane.Dial(ctx, c.Addr)
	case rendezvous.Send:
		a.plane.Send(c.Conn, c.Msg)
	case rendezvous.Close:
		a.plane.Close(c.Conn)
	case rendezvous.Start:
		if w := c.World; w.Restart > 0 && !a.opts.quiet() {
			a.console.say("restart %d of %d: %d workers on %d nodes", w.Restart, w.MaxRestarts, w.Size, len(w.Members))
		}
		a.socket.begin()
		cfg := a.config
		cfg.program = a.program
		a.current = &workers{cfg: cfg, world: c.World, group: c.Index}
		a.current.start()
		if c.Index == 0 && !a.opts.quiet() { // this node serves the store
			watch, end := context.WithCancel(ctx)
			a.endWatch = end
			w, server := a.current, a.stores.server
			a.wg.Go(func() { a.watchArrivals(watch, w, server) })
		}
	case rendezvous.Stop:
		a.stop(ctx, c)
	case rendezvous.Show:
		a.console.status(c.Status)
	case rendezvous.Note:
		if !a.opts.quiet() {
			a.console.say("%s", c.Text)
		}
	}
}

// stop ends the workers beside the loop, which stays free for a second signal.
func (a *agent) stop(ctx context.Context, c rendezvous.Stop) {
	w := a.current
	if !a.opts.quiet() && !c.Kill {
		a.console.say("%s; stopping the workers", c.Cause.Line())
	}
	if a.endWatch != nil {
		a.endWatch()
		a.endWatch = nil
		if text := w.arrivals().missing(a.stores.server.Clients()); text != "" {
			a.console.say("when it failed, %s", text)
		}
	}
	a.wg.Go(func() {
		a.socket.abort(c.Cause)
		w.stop(c.Signal, c.Kill, func() string {
			if host, _, _ := net.SplitHostPort(w.world.Store); w.group != 0 || host == "" {
				return a.stores.offer // nobody used it
			}
			next, err := a.stores.renew(context.WithoutCancel(ctx))
			if err != nil {
				a.events.put(fmt.Errorf("cannot open a store for the next round: %w", err))
			}
			return next
		})
	})
}

// signalled: the first signal ends the job, a second one at once; USR1 and USR2
// are the workers'.
func (a *agent) signalled(sig syscall.Signal) rendezvous.Event {
	switch sig {
	case unix.SIGWINCH:
		if a.current != nil {
			a.current.resize()
		}
		return nil
	case unix.SIGUSR1, unix.SIGUSR2:
		if a.current != nil {
			a.current.signal(sig)
		}
		return nil
	}
	a.signals++
	c := a.self(rendezvous.KindStopped, "")
	c.Signal = sig
	return rendezvous.StopJob{Cause: c, Kill: a.signals > 1}
}

// self is a cause that concerns this node as a whole.
func (a *agent) self(k rendezvous.Kind, text string) rendezvous.Cause {
	c := rendezvous.Cause{
		Kind: k, Node: a.node.ID, Host: a.node.Host, Addr: a.node.Addr, GroupRank: -1, Rank: -1, LocalRank: -1,
		Message: text, Time: time.Now(),
	}
	if a.machine != nil && a.machine.World() != nil {
		c.GroupRank = a.machine.World().Index(a.node.ID)
	}
	return c
}
