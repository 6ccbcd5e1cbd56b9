package rendezvoustest

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func (a *Agent) start(w rendezvous.World) {
	a.ledger.started(a.Node.ID, w)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.crashed {
		a.ledger.over(a.Node.ID, "it was killed")
		return
	}
	a.world, a.running, a.stopping, a.dying, a.failures = &w, true, false, nil, nil
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

// Fail lets the first worker of this node exit with a code; the others go on.
func (a *Agent) Fail(code int) { a.fail(a.round(), code) }

func (a *Agent) round() int {
	return look(a, func() int {
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

// stopWorkers posts Over when the workers are gone: after takes, or kills from
// the moment at which that is asked for.
func (a *Agent) stopWorkers(c rendezvous.Stop) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.crashed {
		return
	}
	takes := a.takes
	if c.Kill {
		takes = min(a.kills, takes)
	}
	if a.dying != nil {
		if c.Kill && a.dying.Stop() {
			a.ledger.note("%s kills the workers of round %d", a.label, c.Round)
			a.dying.Reset(takes)
		}
		return
	}
	a.ledger.note("%s stops the workers of round %d (kill %v): %s", a.label, c.Round, c.Kill, c.Cause.Line())
	a.stopping = true
	a.dying = time.AfterFunc(takes, func() {
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
