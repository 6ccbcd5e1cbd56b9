package rendezvoustest

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
)

// Agent drives one machine as launch does, with pretended workers.
type Agent struct {
	Node rendezvous.Node

	label   string
	ledger  *Ledger
	machine *drive.Machine
	backend rendezvous.Backend
	end     End
	events  *drive.Queue[rendezvous.Event]
	stop    context.CancelFunc
	ended   chan struct{} // is closed when all its goroutines have ended
	wg      sync.WaitGroup
	behaviour

	mu sync.Mutex
	agentState
}

// behaviour is how an agent and its workers behave.
type behaviour struct {
	stopTime   time.Duration // to stop workers
	killTime   time.Duration // to kill them
	plan       func(rendezvous.World) (after time.Duration, code int, ok bool)
	killBefore func(rendezvous.Command) bool // true: the agent is killed before this command
	killed     func()                        // reports the kill to the backend
	checks     *checker                      // nil: nodes are not compared
}

// agentState is the state of an agent, guarded by its mu.
type agentState struct {
	world       *rendezvous.World // whose workers run, or ran last
	running     bool
	stopTimer   *time.Timer        // until the workers that are being stopped have ended
	failures    []rendezvous.Cause // of workers of this round
	leads       bool               // it has coordinated others
	unconfirmed bool
	outcome     *rendezvous.Outcome
	failed      error // of the backend
	status      *rendezvous.Status
	crashed     bool
	stopping    bool
	thaw        chan struct{} // is closed when the process goes on; nil: it runs
	thawed      time.Time     // when it last did
}

// run is the agent's life. Only it touches the machine.
func (a *Agent) run(ctx context.Context) {
	defer close(a.ended)
	defer a.wg.Wait()
	defer a.stop()
	a.wg.Go(func() { a.end.Serve(ctx) })
	a.wg.Go(func() {
		if err := a.backend.Run(ctx, a.events.Put); err != nil {
			a.ledger.note("%s: its backend fails: %v", a.label, err)
			a.mu.Lock()
			a.failed = err
			a.mu.Unlock()
			a.events.Put(rendezvous.StopJob{Cause: a.cause(rendezvous.KindAgent, err.Error())})
		}
	})
	for e := range drive.Events(ctx, a.machine, a.events) {
		a.waitThawed(ctx)
		if ctx.Err() != nil || a.handle(ctx, a.afterThaw(e)) {
			return
		}
	}
}

// handle feeds one event to the machine. It returns true if this was the last one.
func (a *Agent) handle(ctx context.Context, e rendezvous.Event) (last bool) {
	switch e := e.(type) {
	case rendezvous.Unconfirmed:
		a.ledger.note("%s: unconfirmed %v: %s", a.label, e.On, e.Text)
		a.mu.Lock()
		a.unconfirmed = e.On
		a.mu.Unlock()
	case rendezvous.Sealed:
		a.ledger.note("%s: seal %d: ok %v, refused %v, ended %v %s", a.label, e.Serial, e.OK, e.Refused, e.Ended, e.Text)
	}
	for c := range a.machine.Step(ctx, e) {
		if a.killBefore != nil && a.killBefore(c) {
			a.ledger.note("%s: in front of %T", a.label, c)
			a.Crash()
		}
		if ctx.Err() != nil || locked(a, func() bool { return a.crashed }) {
			return true
		}
		if f, ok := c.(rendezvous.Finish); ok {
			last = true
			a.ledger.finished(a.Node.ID, f.Outcome)
			a.mu.Lock()
			a.outcome = &f.Outcome
			a.mu.Unlock()
		}
		a.do(c)
	}
	return last
}

func (a *Agent) do(c rendezvous.Command) {
	switch c := c.(type) {
	case rendezvous.Send:
		a.noteSent(c.Msg)
	case rendezvous.Start:
		if a.checks != nil {
			a.checks.started(a, c)
		}
		a.start(c.World)
	case rendezvous.Compare:
		a.checks.compare(a, c)
	case rendezvous.Ask:
		a.checks.ask(a, c)
	case rendezvous.Stop:
		a.stopWorkers(c)
	case rendezvous.Show:
		a.mu.Lock()
		a.status = c.Status
		a.mu.Unlock()
	case rendezvous.Note:
		a.ledger.note("%s notes: %s", a.label, c.Text)
		if c.Kind == "internal" {
			a.ledger.breach("%s: %s", a.label, c.Text)
		}
	case rendezvous.Vacate:
		a.ledger.note("%s vacates round %d", a.label, c.Round)
	case rendezvous.Unseal:
		a.ledger.note("%s unseals round %d", a.label, c.Round)
	case rendezvous.Seal:
		a.ledger.note("%s wants seal %d: round %d (term %d) with %d nodes", a.label, c.Serial, c.World.Round, c.World.Term, len(c.World.Members))
	}
}

func (a *Agent) noteSent(msg rendezvous.Message) {
	switch msg.Type {
	case rendezvous.MsgAccept:
		a.ledger.accepted(a.Node.ID, msg.Digest)
	case rendezvous.MsgStatus, rendezvous.MsgPropose, rendezvous.MsgCommit:
		a.mu.Lock()
		a.leads = true
		a.mu.Unlock()
	}
}

// cause makes a Cause that concerns this node.
func (a *Agent) cause(k rendezvous.Kind, text string) rendezvous.Cause {
	return rendezvous.Cause{
		Kind: k, Node: a.Node.ID, Host: a.Node.Host, Addr: a.Node.Addr, GroupRank: -1, Rank: -1, LocalRank: -1, Message: text, Time: time.Now(),
	}
}

// Ready says that the program can be started here.
func (a *Agent) Ready() { a.events.Put(rendezvous.Ready{}) }

// StopJob sends the agent a signal.
func (a *Agent) StopJob(sig syscall.Signal) { a.signal(sig, false) }

func (a *Agent) signal(sig syscall.Signal, kill bool) {
	a.ledger.note("%s gets %s (kill %v)", a.label, rendezvous.SignalName(sig), kill)
	c := a.cause(rendezvous.KindStopped, "")
	c.Signal = sig
	a.events.Put(rendezvous.StopJob{Cause: c, Kill: kill})
}

// Freeze stops the agent's process for a while, as SIGSTOP or a swapping machine
// does. Its workers go on, and what happens to it waits.
func (a *Agent) Freeze(d time.Duration, net interface{ Freeze(addr string, on bool) }) {
	a.mu.Lock()
	again := a.crashed || a.outcome != nil || a.thaw != nil
	if !again {
		a.thaw = make(chan struct{})
	}
	a.mu.Unlock()
	if again {
		return
	}
	a.ledger.note("%s freezes for %v", a.label, d)
	a.ledger.freeze(a.Node.ID, time.Now().Add(d))
	net.Freeze(a.Node.Control, true)
	time.AfterFunc(d, func() {
		a.ledger.note("%s thaws", a.label)
		a.mu.Lock()
		close(a.thaw)
		a.thaw, a.thawed = nil, time.Now()
		a.mu.Unlock()
		net.Freeze(a.Node.Control, false)
	})
}

func (a *Agent) waitThawed(ctx context.Context) {
	if thaw := locked(a, func() chan struct{} { return a.thaw }); thaw != nil {
		select {
		case <-thaw:
		case <-ctx.Done():
		}
	}
}

// afterThaw returns an event as the agent takes it after its process was stopped. Package
// control knows then that a stream's end proves nothing.
func (a *Agent) afterThaw(e rendezvous.Event) rendezvous.Event {
	c, ok := e.(rendezvous.Closed)
	if ok && locked(a, func() bool { return !a.thawed.IsZero() && time.Since(a.thawed) < time.Second }) {
		c.Clean, c.Silent = false, true
		return c
	}
	return e
}

// Crash kills the agent. Its keeper ends its workers.
func (a *Agent) Crash() {
	a.mu.Lock()
	again := a.crashed || a.outcome != nil
	a.crashed = a.crashed || !again
	a.running = false
	a.mu.Unlock()
	if again {
		return
	}
	a.ledger.note("%s is killed", a.label)
	a.killed()
	a.end.Kill() // before Serve ends the streams in order
	a.stop()
	a.ledger.mu.Lock()
	a.ledger.ended[a.Node.ID] = true
	a.ledger.mu.Unlock()
	a.ledger.over(a.Node.ID, "it was killed")
}

// locked returns what f reads of an agent, under its lock.
func locked[T any](a *Agent, f func() T) T {
	a.mu.Lock()
	defer a.mu.Unlock()
	return f()
}

// Outcome returns how the job ended here, nil while it has not.
func (a *Agent) Outcome() *rendezvous.Outcome {
	return locked(a, func() *rendezvous.Outcome { return a.outcome })
}

// Running returns the world whose workers run here, nil if none do.
func (a *Agent) Running() *rendezvous.World {
	return locked(a, func() *rendezvous.World {
		if !a.running {
			return nil
		}
		return a.world
	})
}

func (a *Agent) String() string {
	return locked(a, func() string {
		switch {
		case a.crashed:
			return a.label + " was killed"
		case a.outcome != nil:
			return a.label + " ended with " + describe(a.outcome)
		case a.running:
			return fmt.Sprintf("%s runs round %d of %d nodes", a.label, a.world.Round, len(a.world.Members))
		case a.status != nil:
			return fmt.Sprintf("%s waits: %+v", a.label, *a.status)
		}
		return a.label + " waits"
	})
}

func (a *Agent) start(w rendezvous.World) {
	a.ledger.started(a.Node.ID, w)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.crashed {
		a.ledger.over(a.Node.ID, "it was killed")
		return
	}
	a.world, a.running, a.stopping, a.stopTimer, a.failures = &w, true, false, nil, nil
	if a.plan == nil {
		return
	}
	if after, code, ok := a.plan(w); ok {
		time.AfterFunc(after, func() {
			switch {
			case code != 0:
				a.fail(w.Round, code)
			default:
				a.done(w.Round)
			}
		})
	}
}

// Done lets all workers of this node succeed.
func (a *Agent) Done() { a.done(a.round()) }

// Fail lets the first worker of this node exit with a code. The others go on.
func (a *Agent) Fail(code int) { a.fail(a.round(), code) }

func (a *Agent) round() int {
	return locked(a, func() int {
		if a.world == nil {
			return -1
		}
		return a.world.Round
	})
}

// works reports whether the workers of a round do what they like.
func (a *Agent) works(round int) bool {
	return a.running && !a.stopping && !a.crashed && a.world.Round == round
}

func (a *Agent) done(round int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.works(round) {
		return
	}
	a.running = false
	a.ledger.over(a.Node.ID, "all ended with 0")
	a.events.Put(rendezvous.Done{Round: round})
}

func (a *Agent) fail(round, code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.works(round) {
		return
	}
	a.ledger.note("%s: a worker of round %d exits with %d", a.label, round, code)
	i := a.world.Index(a.Node.ID)
	c := a.cause(rendezvous.KindExit, fmt.Sprintf("boom %d", code))
	c.GroupRank, c.Rank, c.LocalRank, c.ExitCode, c.PID = i, a.world.Members[i].FirstRank, 0, code, 100+i
	a.failures = append(a.failures, c)
	a.ledger.mustStop(*a.world, mustStopWithin)
	a.events.Put(rendezvous.Failed{Round: round, Cause: c})
}

// mustStopWithin is longer than the workers of a schedule take to stop.
const mustStopWithin = 2 * time.Second

// stopWorkers posts Over when the workers have ended: after stopTime, or after killTime
// from the moment at which a kill is asked for.
func (a *Agent) stopWorkers(c rendezvous.Stop) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.crashed {
		return
	}
	takes := a.stopTime
	if c.Kill {
		takes = min(a.killTime, takes)
	}
	if a.stopTimer != nil {
		if c.Kill && a.stopTimer.Stop() {
			a.ledger.note("%s kills the workers of round %d", a.label, c.Round)
			a.stopTimer.Reset(takes)
		}
		return
	}
	a.ledger.note("%s stops the workers of round %d (kill %v): %s", a.label, c.Round, c.Kill, c.Cause.Line())
	a.stopping = true
	a.stopTimer = time.AfterFunc(takes, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.crashed {
			return
		}
		a.running = false
		a.ledger.over(a.Node.ID, "they were stopped")
		a.events.Put(rendezvous.Over{Round: c.Round, Failures: a.failures, Store: a.Node.Store})
	})
}
