package launch

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

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
	runtime.LockOSThread() // workers die with the thread that starts them, this one
	a := &agent{opts: opts, born: time.Now(), events: newQueue()}
	prefix := "gorun"
	if opts.Local != nil {
		prefix = "gorun[" + opts.Local.Addr + "]"
	}
	a.console = newConsole(opts.Stderr, prefix, opts.quiet())
	out := newPatient(opts.Stderr)
	go out.run()
	defer out.finish()
	a.console.w = out
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
	a.config.folders.clean()
	return outcome.Code, nil
}

// ready: the program can be started here, or cannot. Only now, not while it was
// built, is this node's address known for sure.
func (a *agent) ready(e builtEvent) rendezvous.Event {
	if e.err == nil {
		return rendezvous.Ready{}
	}
	c := a.self(rendezvous.KindStart, e.err.Error())
	c.ExitCode = e.code
	if a.opts.Spec.MaxNodes > 1 {
		a.console.say("%v; the other nodes are told when they are here", e.err)
	}
	return rendezvous.Ready{Cause: &c}
}

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
