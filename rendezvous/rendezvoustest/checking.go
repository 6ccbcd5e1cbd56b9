package rendezvoustest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// checker plays the part of the agents that compare nodes. It answers after random
// delays, asks back, refuses a world or dismisses a newcomer. It notes what it said,
// so that the ledger knows whether a world was allowed to start. What it does depends
// only on its seed and on what it is asked.
type checker struct {
	seed uint64

	mu        sync.Mutex
	facts     map[rendezvous.NodeID]bool         // the nodes that send facts
	passed    map[string]bool                    // worlds that may be offered, by worldKey
	dismissed map[rendezvous.NodeID]bool         // nodes that may have been sent away
	asked     map[rendezvous.NodeID]map[int]bool // serials of the questions that a node was asked
}

func newChecker(seed uint64) *checker {
	return &checker{
		seed: seed, facts: map[rendezvous.NodeID]bool{}, passed: map[string]bool{},
		dismissed: map[rendezvous.NodeID]bool{}, asked: map[rendezvous.NodeID]map[int]bool{},
	}
}

// draw returns a source of chance for one decision of one node.
func (x *checker) draw(id rendezvous.NodeID, what string, serial int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, id, what, serial)
	return rand.New(rand.NewPCG(x.seed, h.Sum64()))
}

func worldKey(w *rendezvous.World) string {
	return fmt.Sprintf("%s/%d/%d/%s", w.Job, w.Term, w.Round, w.Coordinator)
}

// given returns the environment of a member's workers in this world.
func given(w *rendezvous.World, i int) []byte { return fmt.Appendf(nil, "%s %d", worldKey(w), i) }

func factsOf(id rendezvous.NodeID) string { return fmt.Sprintf("%q", id) }

func envOf(id rendezvous.NodeID) string { return "env of " + string(id) }

// gatherFacts lets an agent gather its facts some time after its start. One agent in eight
// gathers none.
func (x *checker) gatherFacts(a *Agent) {
	rng := x.draw(a.Node.ID, "facts", 0)
	if a.Node.Facts = rng.IntN(8) > 0; !a.Node.Facts {
		return
	}
	x.mu.Lock()
	x.facts[a.Node.ID] = true
	x.mu.Unlock()
	time.AfterFunc(randomBelow(rng, 1500*time.Millisecond), func() {
		a.events.Put(rendezvous.Facts{Body: json.RawMessage(factsOf(a.Node.ID)), Env: []byte(envOf(a.Node.ID))})
	})
}

// compare answers a Compare, after it has checked that the machine passed on what
// each member said.
func (x *checker) compare(a *Agent, c rendezvous.Compare) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, m := range c.World.Members {
		if f := c.Facts[i]; f != nil && string(f) != factsOf(m.ID) || x.facts[m.ID] && !c.WorldRuns && f == nil {
			a.ledger.breach("%s compares %s as the facts of %s", a.label, f, m.ID)
		}
		if e := c.Envs[i]; (c.Facts[i] != nil) != (e != nil) || e != nil && string(e) != envOf(m.ID) {
			a.ledger.breach("%s compares %q as the environment of %s", a.label, e, m.ID)
		}
		if c.Answers != nil && c.Answers[i] != nil && (string(c.Answers[i]) != factsOf(m.ID) || !x.asked[m.ID][c.Serial-1]) {
			a.ledger.breach("%s compares %s as the answer of %s to question %d", a.label, c.Answers[i], m.ID, c.Serial-1)
		}
	}
	rng := x.draw(a.Node.ID, "compare", c.Serial)
	e := rendezvous.Compared{Serial: c.Serial}
	cause := a.cause(rendezvous.KindPreflight, "unfit")
	refusal := rendezvous.Outcome{Code: rendezvous.ExitPreflight, Cause: &cause, Failures: []rendezvous.Cause{cause}}
	switch n := rng.IntN(20); {
	case len(c.New) > 0 && n < 4:
		id := c.World.Members[c.New[0]].ID
		a.ledger.note("%s dismisses %s", a.label, id)
		if id != a.Node.ID { // the machine never dismisses its own node
			x.dismissed[id] = true
		}
		e.Outcome, e.Only = &refusal, []rendezvous.NodeID{id}
	case c.WorldRuns:
	case n == 4:
		a.ledger.note("%s refuses the world of round %d", a.label, c.World.Round)
		e.Outcome = &refusal
	case c.Questions < 2 && n < 10:
		for _, m := range c.World.Members {
			e.Ask = append(e.Ask, json.RawMessage(factsOf(m.ID)))
		}
	default:
		x.passed[worldKey(&c.World)] = true
		for i := range c.World.Members {
			e.Env = append(e.Env, given(&c.World, i))
		}
	}
	time.AfterFunc(randomBelow(rng, 300*time.Millisecond), func() { a.events.Put(e) })
}

// ask answers a question. One in fifty is never answered.
func (x *checker) ask(a *Agent, c rendezvous.Ask) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.asked[a.Node.ID] == nil {
		x.asked[a.Node.ID] = map[int]bool{}
	}
	x.asked[a.Node.ID][c.Serial] = true
	if rng := x.draw(a.Node.ID, "ask", c.Serial); rng.IntN(50) > 0 {
		time.AfterFunc(randomBelow(rng, time.Second), func() { a.events.Put(rendezvous.Answered(c)) })
	}
}

// started notes a world that starts without having been found fit, or with
// another environment than was given to this node.
func (x *checker) started(a *Agent, c rendezvous.Start) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.passed[worldKey(&c.World)] {
		a.ledger.breach("%s starts round %d, which was not checked", a.label, c.World.Round)
	}
	if want := given(&c.World, c.Index); string(c.Env) != string(want) {
		a.ledger.breach("%s starts round %d with the environment %q", a.label, c.World.Round, c.Env)
	}
}

func randomBelow(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit)))
}
