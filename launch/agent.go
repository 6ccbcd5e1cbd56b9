package launch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/secret"
	"golang.org/x/sys/unix"
)

// agent is the state of Run. Only the loop touches it.
type agent struct {
	opts    Options
	born    time.Time
	node    rendezvous.Node
	given   secret.Secret // of whoever may ask how jobs stand
	secret  secret.Secret // of this run
	table   *process.Table
	console *console
	out     *logs.Console
	build   build
	events  *queue
	machine *drive.Machine
	pool    *accept.Pool // of the connections to all ports and sockets of this agent
	session *meet.Session
	socket  *socket.Server
	output  output
	current *round         // nil: no worker was started yet
	check   *check.Checker // nil: nodes are not compared
	placing *placing
	look    gpuWatch
	request envprop.Request // what the user asks of the workers' environment here
	refused map[string]bool // notes of values of other nodes that were told of
	toldOMP bool
	unshown error     // why a dry run has nothing to show
	signals int       // that asked the job to end
	killAt  time.Time // when the workers that are being stopped get SIGKILL
	status  statusServer
	wg      sync.WaitGroup
}

// UsageError is an error of the command line or of a file that it names.
type UsageError = spec.UsageError

// Run is the life of one agent. It returns gorun's exit code; the error is only
// for what happened before there was a job to report on; --report has it too.
func Run(ctx context.Context, opts Options) (code int, err error) {
	a := &agent{opts: opts, born: time.Now(), events: newQueue()}
	prefix := "gorun"
	if opts.Local != nil {
		prefix = "gorun[" + opts.Local.Addr + "]"
	}
	if a.out, err = logs.NewConsole(opts.Stdout, opts.Stderr); err != nil {
		return 1, err
	}
	defer a.out.Close()
	terminal := opts.Stderr
	if opts.Local != nil { // one of several agents that share it
		terminal = nil
	}
	a.console = &console{term.NewConsole(a.out.Remarks(), prefix, terminal), opts.quiet()}
	go a.console.Run()
	defer a.console.Close()
	for _, n := range opts.Spec.Notes {
		a.console.announce("%s", n)
	}
	defer func() {
		if err == nil || opts.quiet() {
			return
		}
		if err := ReportError(a.opts.Spec, a.born, err); err != nil {
			a.console.say("%v", err)
		}
	}()
	if a.table, err = process.Open(); err != nil {
		return 1, err
	}
	defer a.table.Close()
	process.RaiseFiles()
	a.pool = accept.NewPool(accept.Bounds{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer opts.Scratch.Remove()
	defer a.wg.Wait()
	var end error
	defer func() { cancel(end) }()
	finish, err := a.prepare(ctx)
	defer finish()
	var outcome rendezvous.Outcome
	if stop, ok := errors.AsType[*stopped](err); ok {
		outcome = rendezvous.Outcome{Code: stop.cause.Code(), Cause: &stop.cause}
	} else if err != nil {
		return 1, err
	} else {
		outcome = a.loop(ctx)
		if !outcome.Parting {
			end = meet.ErrOver
		}
	}
	if a.current != nil {
		a.current.workers.Close()
	}
	a.console.SayHeld()
	if a.unshown != nil && outcome.Code == 0 {
		return 1, a.unshown
	}
	a.conclude(outcome)
	return outcome.Code, nil
}

// loop owns the machine: events in, commands out, until the job is decided.
func (a *agent) loop(ctx context.Context) rendezvous.Outcome {
	for {
		for e := range drive.Events(ctx, a.machine, a.events.Queue) {
			if o := a.handle(ctx, e); o != nil {
				return *o
			}
		}
		ctx = context.WithoutCancel(ctx) // the job still has to end in order
		if o := a.handle(ctx, signalEvent{unix.SIGTERM}); o != nil {
			return *o
		}
	}
}
