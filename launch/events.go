package launch

import (
	"cmp"
	"context"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/console"
	"github.com/gorun/gorun/launch/metrics"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/slurm"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
	"github.com/gorun/gorun/rendezvous/preflight"
	"golang.org/x/sys/unix"
)

// These are the agent's events that are not the machine's.
type (
	signalReceived struct{ sig syscall.Signal }
	keeperEnded    struct{} // the keeper has ended
	programBuilt   struct {
		program program.Program
		code    int // exit code if err is not nil
		err     error
	}
	workersPlaced      struct{}                    // the devices are known
	failureReported    struct{ socket.Report }     // a worker has failed
	connectionLost     struct{ socket.Report }     // a worker's connection has ended without a bye
	workersEnded       struct{}                    // the workers have ended; the agent now waits for their GPUs
	gpuFindingReceived struct{ preflight.Finding } // about the GPUs of the running workers
	statusDelayElapsed struct{}                    // opens the status socket if the workers have not started yet
	killWaitDue        struct{}                    // Slurm is to be asked for its KillWait
	killWaitReceived   struct{ wait time.Duration }
	slurmLimitElapsed  struct{} // Slurm kills everything soon
	deathHeld          struct{ rendezvous.Failed }
	stateAsked         struct{ reply chan<- metrics.State }    // the reply has room for one
	workersAsked       struct{ reply chan<- []workers.Worker } // likewise
	// partFailed reports an error after which this node cannot stay in the job.
	partFailed struct {
		kind rendezvous.Kind
		text string
	}
)

// queue is the loop's mailbox.
type queue struct{ *drive.Queue[any] }

func newQueue() *queue { return &queue{drive.NewQueue[any]()} }

// post puts an event of the machine into the queue.
func (q *queue) post(e rendezvous.Event) { q.Put(e) }

// repeatedWithin is the time in which two signals of one kind are one where the
// sender repeats itself: scancel sends SIGTERM to the step, and srun passes on its
// own one to the same tasks.
const repeatedWithin = 2 * time.Second

// signalFilter recognises repeated signals.
type signalFilter struct {
	within time.Duration // 0: no signal is a repetition
	person bool          // true: SIGINT is the Ctrl-C of a person, who may repeat it
	last   map[os.Signal]time.Time
}

// isRepeated reports whether a signal that comes now repeats an earlier one.
func (f *signalFilter) isRepeated(sig os.Signal, now time.Time) bool {
	if f.person && sig == unix.SIGINT {
		return false
	}
	last, seen := f.last[sig]
	if seen && now.Sub(last) < f.within {
		return true
	}
	if f.last == nil {
		f.last = map[os.Signal]time.Time{}
	}
	f.last[sig] = now
	return false
}

// slurmLimit bounds how long this node may take to end once Slurm has asked it to end:
// Slurm kills everything after KillWait.
type slurmLimit struct {
	on       bool          // Slurm started this agent
	step     bool          // by srun; else a person may use the shell of salloc or srun --pty
	asked    bool          // for KillWait
	killWait time.Duration // Slurm's default until the answer is there
	began    time.Time     // when Slurm's first signal came
}

// askKillWait asks Slurm beside the loop, once.
func (a *agent) askKillWait(ctx context.Context) {
	if !a.slurm.on || a.slurm.asked {
		return
	}
	a.slurm.asked = true
	a.wg.Go(func() {
		if wait, err := slurm.AskKillWait(ctx, a.table, a.opts.Env); err == nil { // else Slurm's default is as good as any
			a.events.Put(killWaitReceived{wait})
		}
	})
}

// setSlurmLimit tells the supervisor by when its workers must have ended.
func (a *agent) setSlurmLimit() {
	if a.slurm.began.IsZero() {
		return
	}
	limit := a.slurm.began.Add(slurm.Grace(a.slurm.killWait))
	a.workers.limit = limit
	time.AfterFunc(time.Until(limit), func() { a.events.Put(slurmLimitElapsed{}) })
}

// killAtSlurmLimit kills the workers, so that the report is printed before Slurm kills
// this agent.
func (a *agent) killAtSlurmLimit() {
	r := a.workers.current
	if r == nil || time.Now().Before(a.workers.limit) { // a later answer moved the limit
		return
	}
	if slices.ContainsFunc(r.workers.Workers(), func(w workers.Worker) bool { return w.Exit == nil }) {
		a.console.Announce("Slurm kills this job soon (its KillWait is %v); killing the workers", a.slurm.killWait)
	}
	a.workers.stop(rendezvous.Stop{Round: r.plan.World.Round, Cause: withSignal(a.nodeCause(rendezvous.KindStopped, ""), unix.SIGTERM), Kill: true})
}

// stopping adds to a status when the workers get SIGKILL.
func (a *agent) stopping(s rendezvous.Status) *rendezvous.Status {
	signals := a.signals
	if a.slurm.step {
		signals = console.NoHint // srun has the terminal
	}
	return console.Stopping(s, time.Until(a.workers.killTime()), signals)
}

// heldDeath is how long the death of a worker by SIGTERM waits for a SIGTERM to this
// agent. Slurm may send its SIGTERM to all processes of a step, and then no worker has
// failed.
const heldDeath = 250 * time.Millisecond

// holdDeath reports whether a failure waits. It comes back as a deathHeld.
func (a *agent) holdDeath(f rendezvous.Failed) bool {
	if !a.slurm.on || a.signals > 0 || f.Cause.Kind != rendezvous.KindSignal || f.Cause.Signal != unix.SIGTERM {
		return false
	}
	time.AfterFunc(heldDeath, func() { a.events.Put(deathHeld{f}) })
	return true
}

// watchSignals turns signals and the end of the keeper into events.
func (a *agent) watchSignals(ctx context.Context) {
	var filter signalFilter
	if a.opts.Spec.Surroundings.IsSlurm() {
		filter.within, filter.person = repeatedWithin, term.IsTerminal(a.opts.Stdin)
	}
	a.wg.Go(func() {
		keeper := a.opts.Keeper
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-a.opts.Signals:
				if !filter.isRepeated(s, time.Now()) {
					a.events.Put(signalReceived{s.(syscall.Signal)})
				}
			case <-keeper:
				keeper = nil
				a.events.Put(keeperEnded{})
			}
		}
	})
}

// endsJob reports whether a signal ends the job. The other signals are for the
// workers.
func (b *base) endsJob(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGWINCH, unix.SIGUSR1, unix.SIGUSR2:
		return slices.Contains(b.opts.Spec.Signals, sig)
	}
	return true
}

// endsAtOnce reports whether a signal that ends the job leaves the workers no time. As
// under torchrun that is so for each signal that --signals-to-handle does not name.
func (b *base) endsAtOnce(sig syscall.Signal) bool {
	handled := b.opts.Spec.Signals
	return len(handled) > 0 && !slices.Contains(handled, sig)
}

// handleSignal ends the job at the first signal, and at once at a second one.
func (a *agent) handleSignal(ctx context.Context, sig syscall.Signal) rendezvous.Event {
	if !a.endsJob(sig) {
		a.workers.signal(sig)
		return nil
	}
	a.signals++
	if a.slurm.on && a.signals == 1 && (sig == unix.SIGTERM || a.slurm.step) {
		a.slurm.began = time.Now()
		a.askKillWait(ctx)
		a.setSlurmLimit()
	}
	return rendezvous.StopJob{Cause: withSignal(a.nodeCause(rendezvous.KindStopped, ""), sig), Kill: a.signals > 1 || a.endsAtOnce(sig)}
}

// abandon ends this agent without a message to the other nodes. For them the node
// is lost, as if all of it had been killed: that may happen at the next moment
// (docker kill). Run kills the node's workers before its connections end.
func (a *agent) abandon() *rendezvous.Outcome {
	c := a.keeperCause()
	a.console.Announce("%s; killing the workers of this node", c.Line())
	return &rendezvous.Outcome{Code: c.Code(), Cause: &c, Failures: []rendezvous.Cause{c}}
}

// nodeCause returns a cause that concerns this node as a whole.
func (a *agent) nodeCause(k rendezvous.Kind, text string) rendezvous.Cause {
	c := a.base.nodeCause(k, text)
	if w := a.machine.World(); w != nil {
		c.GroupRank = w.Index(a.node.ID)
	}
	return c
}

// nodeCause returns a cause that concerns this node as a whole, before it is in a world.
func (b *base) nodeCause(k rendezvous.Kind, text string) rendezvous.Cause {
	return rendezvous.Cause{
		Kind: k, Node: b.node.ID, Host: cmp.Or(b.node.Host, hostName()), Addr: b.node.Addr, GroupRank: -1, Rank: -1, LocalRank: -1,
		Message: text, Time: time.Now(),
	}
}

// keeperCause returns the cause for an agent whose keeper was killed. The agent
// ends, because nothing would clean up after it.
func (b *base) keeperCause() rendezvous.Cause {
	return b.nodeCause(rendezvous.KindLost, "gorun's own first process, the keeper, was killed")
}

// withSignal returns the cause with its signal set.
func withSignal(c rendezvous.Cause, sig syscall.Signal) rendezvous.Cause {
	c.Signal = sig
	return c
}
