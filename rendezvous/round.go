package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// roundState says how far the coordinator is with a round. See the package comment
// for the diagram.
type roundState int

const (
	roundRecovering roundState = iota // the survivors of a lost coordinator come back
	roundForming                      // enough nodes are awaited
	roundChecking                     // the chosen nodes are compared
	roundProposing                    // every acceptance is awaited
	roundSealing                      // the fence is awaited
	roundRunning                      // every member has accepted: the workers run
	roundStopping                     // the end of every worker is awaited
	roundDecided                      // every node is to get the outcome
)

// String is the phase that a Status and a View show.
func (s roundState) String() string {
	return [...]string{"recovering", "forming", "checking", "accepting", "sealing", "running", "stopping", "ending"}[s]
}

// roundTransitions has the states that may follow each state.
var roundTransitions = [...][]roundState{
	roundRecovering: {roundStopping, roundDecided},
	roundForming:    {roundChecking, roundProposing, roundDecided},
	roundChecking:   {roundForming, roundProposing, roundDecided},
	roundProposing:  {roundForming, roundSealing, roundRunning, roundDecided},
	roundSealing:    {roundForming, roundSealing, roundRunning, roundDecided},
	roundRunning:    {roundStopping, roundDecided},
	roundStopping:   {roundForming, roundDecided},
	roundDecided:    {},
}

// round is the coordinator's present round.
type round struct {
	state    roundState
	world    *World // proposed or running
	digest   string // of the world that was proposed
	failures []failure
	hang     *failure // the round hangs, and goes on; nil: it does not
	ends     []End
	began    time.Time // of the workers
	killed   bool      // the workers' grace period was cut short
	deadline time.Time // of the state
	lastCall time.Time // when forming ends without the missing nodes
	growAt   time.Time // when a running elastic job takes in the newcomers
}

// transition takes the round to another state. It refuses what is impossible: an
// error of gorun's own.
func (r *round) transition(to roundState) error {
	if !slices.Contains(roundTransitions[r.state], to) {
		return fmt.Errorf("internal error: a round cannot go from %s to %s", r.state, to)
	}
	r.state = to
	return nil
}

// isOffering reports whether a world is on its way to be sealed.
func (r *round) isOffering() bool {
	return r.state == roundChecking || r.state == roundProposing || r.state == roundSealing
}

// hasWorkers reports whether workers of the world may live.
func (r *round) hasWorkers() bool { return r.state == roundRunning || r.state == roundStopping }

// failure is a Cause with the time at which it happened by the coordinator's clock.
type failure struct {
	Cause
	at time.Time
}

// add keeps failures once each. The later message about a failure has more, such as
// the end of stderr.
func (r *round) add(now time.Time, fs ...Cause) {
	for _, f := range fs {
		f = f.bounded()
		same := func(o failure) bool {
			return o.Kind == f.Kind && o.Node == f.Node && o.Rank == f.Rank
		}
		at := now.Add(-max(0, f.Age))
		if i := slices.IndexFunc(r.failures, same); i >= 0 {
			r.failures[i].Cause = f
			continue
		}
		r.failures = append(r.failures, failure{f, at})
	}
	if len(r.failures) > maxFailures {
		slices.SortStableFunc(r.failures, func(a, b failure) int {
			if a.Consequence != b.Consequence {
				return map[bool]int{false: -1, true: 1}[a.Consequence]
			}
			return a.at.Compare(b.at)
		})
		r.failures = r.failures[:maxFailures]
	}
}

// withHang returns the round's failures, the hang that came before them included.
func (r *round) withHang() []failure {
	if r.hang == nil {
		return r.failures
	}
	return append([]failure{*r.hang}, r.failures...)
}

// causes returns the failures among which the round's cause is. Workers that waited in
// vain end by a time limit of their library, so a hang before that is the cause. It is
// not the cause of an order or of a lost node.
func (r *round) causes() []failure {
	if len(r.failures) == 0 || slices.ContainsFunc(r.failures, func(f failure) bool { return !f.ofWorker() }) {
		return r.failures
	}
	return r.withHang()
}

// firstCause returns the round's cause: the earliest failure that is not a consequence of
// another one, by the time in the error files and else by the ends. A change of the nodes
// and a witness are not failures.
func (r *round) firstCause() Cause {
	weight := func(f failure) int {
		switch {
		case f.Kind == KindWitness:
			return 4
		case f.changesNodes():
			return 3
		case f.Consequence:
			return 2
		case f.PeerClosed:
			return 1
		default:
			return 0
		}
	}
	return slices.MinFunc(r.causes(), func(a, b failure) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), CompareErrorTimes(&a.Cause, &b.Cause), a.at.Compare(b.at))
	}).Cause
}

// abortOrder returns the failure by which the whole job was ordered to end, nil if it
// was not.
func (r *round) abortOrder() *Cause {
	for i := range r.failures {
		if r.failures[i].Kind == KindAborted {
			return &r.failures[i].Cause
		}
	}
	return nil
}

// recordRound keeps what a report needs of the round that ends now.
func (c *coordinator) recordRound(cause *Cause) {
	w := *c.round.world
	w.Members = make([]Member, len(c.round.world.Members))
	for i, m := range c.round.world.Members {
		w.Members[i] = Member{ID: m.ID, Host: m.Host, Addr: m.Addr, Workers: m.Workers, Role: m.Role, FirstRank: m.FirstRank, RoleRank: m.RoleRank}
	}
	c.job.records = shorten(append(c.job.records, Record{World: w, Started: c.round.began, Ended: c.m.now, Ends: c.round.ends, Cause: cause}))
}

// shorten drops from the earlier rounds what would be too much for an outcome.
func shorten(rs []Record) []Record {
	rs = rs[max(0, len(rs)-maxRounds):]
	size, texts := 0, budget(maxTexts)
	for i := range slices.Backward(rs) {
		r := &rs[i]
		if size += len(r.World.Members) + len(r.Ends); size > maxInFull {
			r.World.Members, r.Ends, r.Shortened = nil, nil, true
		}
		if r.Cause != nil {
			cause := texts.spend(*r.Cause)
			r.Cause = &cause
		}
	}
	return rs
}

// budget is the number of bytes that texts may still have.
type budget int

// spend returns the cause as it is while the budget lasts, then without what its
// worker printed.
func (b *budget) spend(c Cause) Cause {
	size := len(c.Message) + len(c.Traceback)
	for _, l := range slices.Concat(c.Tail, c.Logs) {
		size += len(l)
	}
	if *b -= budget(size); *b < 0 {
		c.Message, c.Traceback, c.Tail, c.Logs = clip(c.Message), "", nil, nil
	}
	return c
}
