// Package launch is the agent of one node: a loop that takes events, steps the
// rendezvous's state machine, and hands the machine's commands to parts. The parts
// find the other nodes (meet), compare all nodes (check), start and stop workers
// (workers), watch their GPUs (gpuwatch) and answer gorun status (status).
//
// Invariants: only the loop touches the machine and the agent's fields. Everything
// else runs beside the loop and sends it events. A command that may take long runs
// beside the loop, so the loop always receives signals. Run returns after
// everything that it started has ended.
package launch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/console"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/meet"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/recorder"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/preflight"
	"golang.org/x/sys/unix"
)

// base holds what all parts of an agent share.
type base struct {
	opts      Options
	started   time.Time
	node      rendezvous.Node // has its addresses once the session is open
	console   *console.Console
	events    *queue
	table     *process.Table // owns all child processes of this agent
	pool      *accept.Pool   // counts the connections to all ports and sockets
	looping   atomic.Bool    // the loop runs
	phase     string         // what the job waits for, as shown last; "": nothing
	recorders recorder.Node  // of the workers' collectives
	wg        sync.WaitGroup // waits for everything that runs beside the loop
}

// agent is the loop of one node.
type agent struct {
	*base
	secrets   secrets
	env       environment
	build     build
	placement *place.Placement
	check     checker // nil: nodes are not compared
	session   *meet.Session
	workers   *supervisor
	machine   *drive.Machine
	status    *status.Service
	hangs     hangs
	signals   int // number of signals that asked the job to end
	slurm     slurmLimit
}

// checker is the part of a [check.Checker] that the loop uses.
type checker interface {
	Start(ctx context.Context, node rendezvous.Node, trust check.Trust)
	Compare(ctx context.Context, c rendezvous.Compare)
	Answer(ctx context.Context, c rendezvous.Ask)
	Torch() string
	GoNCCL() string
}

// UsageError is an error in the command line or in a file that it names.
type UsageError = spec.UsageError

// Run runs one agent from its start to its end. It returns gorun's exit code. It
// returns an error only for what happened before there was a job to report on;
// --report has that error too.
func Run(ctx context.Context, opts Options) (code int, err error) {
	b := &base{opts: opts, started: time.Now(), events: newQueue(), pool: accept.NewPool(accept.Bounds{})}
	prefix := "gorun"
	if opts.Local != nil {
		prefix = "gorun[" + opts.Local.Addr + "]"
	} else if opts.leavesJobLinesToFirst() { // all nodes print to one place
		prefix = "gorun[" + hostName() + "]"
	}
	out, err := logs.NewConsole(opts.Stdout, opts.Stderr)
	if err != nil {
		return 1, err
	}
	defer out.Close()
	terminal := opts.Stderr
	if opts.Local != nil { // several agents share the terminal
		terminal = nil
	}
	b.console = &console.Console{Console: term.NewConsole(out.Stderr(), prefix, terminal), OtherPrints: opts.leavesJobLinesToFirst(), Alone: !opts.shares()}
	go b.console.Run()
	defer b.console.Close()
	for _, n := range opts.Spec.Notes {
		b.console.Announce("%s", n)
	}
	defer func() {
		if err == nil || opts.shares() {
			return
		}
		if err := ReportError(b.opts.Spec, b.started, err); err != nil {
			b.console.Say("%v", err)
		}
	}()
	if b.table, err = process.Open(); err != nil {
		return 1, err
	}
	defer b.table.Close()
	defer opts.Scratch.Remove()
	a := &agent{base: b, env: environment{base: b}, workers: newSupervisor(b, out)}
	return a.run(ctx)
}

// run prepares the agent, runs the loop and reports how the job ended. When it
// returns, everything beside the loop has ended.
func (a *agent) run(ctx context.Context) (code int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer a.wg.Wait()
	var end error
	defer func() { cancel(end) }()
	defer a.workers.removeFolders()
	defer a.workers.closeTasks()
	var outcome rendezvous.Outcome
	err = a.prepare(ctx)
	if stop, ok := errors.AsType[*stopped](err); ok {
		outcome = rendezvous.Outcome{Code: stop.cause.Code(), Cause: &stop.cause}
	} else if err != nil {
		return 1, err
	} else {
		outcome = a.loop(ctx)
		if !outcome.OnlyThisNode {
			end = meet.ErrOver
		}
	}
	a.workers.close()
	a.console.SayHeld()
	if err := a.workers.showErr; err != nil && outcome.Code == 0 {
		return 1, err
	}
	if code := a.opts.Spec.RequeueExitCode; code > 0 && outcome.Cause != nil && outcome.Cause.IsTransient() {
		a.console.Announce("another try may help: exit code %d instead of %d (--requeue-exit-code)", code, outcome.Code)
		outcome.Code = code
	}
	a.conclude(outcome)
	return outcome.Code, nil
}

// loop feeds events to the machine until the job's outcome is decided.
func (a *agent) loop(ctx context.Context) rendezvous.Outcome {
	a.looping.Store(true)
	for {
		for e := range drive.Events(ctx, a.machine, a.events.Queue) {
			if o := a.handle(ctx, e); o != nil {
				return *o
			}
		}
		ctx = context.WithoutCancel(ctx) // the job still has to end in order
		if o := a.handle(ctx, signalReceived{unix.SIGTERM}); o != nil {
			return *o
		}
	}
}

// handle handles one event. It returns the outcome once that is decided.
func (a *agent) handle(ctx context.Context, e any) (outcome *rendezvous.Outcome) {
	var event rendezvous.Event // for the machine; nil: there is none
	switch e := e.(type) {
	case rendezvous.Failed:
		if !a.holdDeath(e) {
			event = e
		}
	case deathHeld:
		event = e.Failed
	case rendezvous.Event:
		event = e
	case programBuilt:
		a.build.result = &e
		event = a.readyEvent()
	case workersPlaced:
		a.printPlacementNotes(a.placement.Plan().Notes, a.placement.Plan().Warnings)
		event = a.readyEvent()
	case signalReceived:
		event = a.handleSignal(ctx, e.sig)
	case keeperEnded:
		return a.abandon()
	case partFailed:
		event = rendezvous.StopJob{Cause: a.nodeCause(e.kind, e.text)}
	case failureReported:
		a.workers.reportFailure(e.Report)
	case connectionLost:
		a.workers.lookAt(e.Report)
	case workersEnded:
		a.workers.killAt = time.Now()
	case gpuFindingReceived:
		a.addFinding(e.Finding)
	case killWaitDue:
		a.askKillWait(ctx)
	case killWaitReceived:
		a.slurm.killWait = e.wait
		a.setSlurmLimit()
	case slurmLimitElapsed:
		a.killAtSlurmLimit()
	case statusDelayElapsed:
		a.status.Open(ctx, a.node)
	case stateAsked:
		e.reply <- a.state()
	case workersAsked:
		all, _ := a.workers.listWorkers()
		e.reply <- all
	case status.Call:
		var done func()
		event, done = a.reply(e)
		defer done()
	}
	if event == nil {
		return nil
	}
	for c := range a.machine.Step(ctx, event) {
		if f, ok := c.(rendezvous.Finish); ok {
			outcome = &f.Outcome
		}
		a.do(ctx, c)
	}
	return outcome
}

// do hands a command of the machine to the part that carries it out.
func (a *agent) do(ctx context.Context, c rendezvous.Command) {
	switch c := c.(type) {
	case rendezvous.Admit:
		a.session.Store.AllowClients(c.Clients)
	case rendezvous.Start:
		a.start(ctx, c)
	case rendezvous.Stop:
		a.hangs.node.End()
		a.workers.stop(c)
	case rendezvous.Investigate:
		a.hangs.inquiry.Investigate(c.Round)
	case rendezvous.Show:
		if c.Status != nil && c.Status.Phase == "stopping" {
			c.Status = a.stopping(*c.Status)
		}
		a.console.Status(c.Status)
		a.phase = ""
		if c.Status != nil {
			a.phase = c.Status.Phase
		}
	case rendezvous.Compare:
		a.check.Compare(ctx, c)
	case rendezvous.Ask:
		a.answer(ctx, c)
	case rendezvous.Report:
		a.report(ctx, c)
	case rendezvous.Present:
		a.status.AnswerQueries(c.Question, c.View)
	case rendezvous.Note:
		a.console.AnnounceRarely(c.Kind, c.Text)
	}
}

// start starts this node's workers of a world. In a dry run it shows what they
// would get.
func (a *agent) start(ctx context.Context, c rendezvous.Start) {
	if w := c.World; w.Restart > 0 {
		a.console.Announce("restart %d of %d: %d workers on %d nodes", w.Restart, w.MaxRestarts, w.Size, len(w.Members))
	}
	a.status.SetJob(c.World.Job)
	a.session.MarkJoined()
	began := time.Now()
	env, err := a.env.round(c)
	p := a.workers.plan(c, a.build.program, env)
	a.equipRecorder(p)
	a.nameNCCL(p)
	planned := time.Since(began)
	p.Err = cmp.Or(err, p.Err)
	if a.opts.Spec.Dry != nil {
		a.workers.show(ctx, p, &a.build)
		return
	}
	former := a.workers.current
	a.workers.start(ctx, p)
	a.watchRecorders(p)
	a.hangs.begin(c.World.Round, a.workers.current.workers)
	a.logStart(former, planned)
	a.status.Open(ctx, a.node)
	a.env.noteThreads(p)
}

// answer answers the coordinator's questions about this node's facts.
func (a *agent) answer(ctx context.Context, c rendezvous.Ask) {
	if a.check == nil { // this node sent no facts, so no node can know its addresses
		a.events.post(rendezvous.Answered{Serial: c.Serial, Body: []byte("{}")})
		return
	}
	a.check.Answer(ctx, c)
}

// addFinding prints a finding about the running job and keeps it for gorun status.
func (a *agent) addFinding(f preflight.Finding) {
	a.console.Say("%s", f.Text)
	if f.ID != "" {
		a.status.AddFinding(f)
	}
}
