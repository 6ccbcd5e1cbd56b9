package rendezvous

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// checker plays the part of the agents that compare nodes: it answers when it
// likes, asks back, refuses a world or dismisses a newcomer, and sees to it that
// nothing starts without its word.
type checker struct {
	rng       *rand.Rand
	passed    map[string]bool // "term/round/coordinator" of the worlds that may be offered
	dismissed map[NodeID]bool
	asked     map[NodeID]map[int]bool // questions that a node was asked
}

func newChecker(seed uint64) *checker {
	return &checker{
		rng: rand.New(rand.NewPCG(seed, 3)), passed: map[string]bool{}, dismissed: map[NodeID]bool{}, asked: map[NodeID]map[int]bool{},
	}
}

func worldKey(w *World) string { return fmt.Sprintf("%d/%d/%s", w.Term, w.Round, w.Coordinator) }

// tellFacts lets an agent gather its facts some time after its start.
func (s *sim) tellFacts(a *simAgent) {
	if a.node.Facts {
		s.after(time.Duration(s.checks.rng.IntN(1500))*time.Millisecond, func() {
			s.step(a, Facts{Body: json.RawMessage(fmt.Sprintf("%q", a.node.ID)), Env: []byte("env of " + a.node.ID)})
		})
	}
}

func (s *sim) compare(a *simAgent, c Compare) {
	x := s.checks
	for i, p := range c.World.Members {
		facts := false
		for _, o := range s.agents {
			facts = facts || o.node.ID == p.ID && o.node.Facts
		}
		if want := fmt.Sprintf("%q", p.ID); c.Facts[i] != nil && string(c.Facts[i]) != want || facts && !c.Late && c.Facts[i] == nil {
			s.fatalf("n%d compares %s as the facts of %s", a.id, c.Facts[i], p.ID)
		}
		if want := "env of " + string(p.ID); (c.Facts[i] != nil) != (c.Envs[i] != nil) || c.Envs[i] != nil && string(c.Envs[i]) != want {
			s.fatalf("n%d compares %q as the environment of %s", a.id, c.Envs[i], p.ID)
		}
		if c.Answers != nil && c.Answers[i] != nil && (string(c.Answers[i]) != fmt.Sprintf("%q", p.ID) || !x.asked[p.ID][c.Serial-1]) {
			s.fatalf("n%d compares %s as the answer of %s to question %d", a.id, c.Answers[i], p.ID, c.Serial-1)
		}
	}
	e := Compared{Serial: c.Serial}
	cause := a.m.here(KindPreflight, "unfit")
	cause.Time = time.Unix(0, 0)
	verdict := Outcome{Code: ExitPreflight, Cause: &cause, Failures: []Cause{cause}}
	switch n := x.rng.IntN(20); {
	case len(c.New) > 0 && n < 4:
		id := c.World.Members[c.New[0]].ID
		s.logf("n%d dismisses %s", a.id, id)
		if id != a.node.ID { // the machine never dismisses its own node
			x.dismissed[id] = true
		}
		e.Outcome, e.Only = &verdict, []NodeID{id}
	case c.Late:
	case n == 4:
		s.logf("n%d refuses the world of round %d", a.id, c.World.Round)
		e.Outcome = &verdict
	case c.Questions < maxQuestions && n < 10:
		for _, p := range c.World.Members {
			e.Ask = append(e.Ask, json.RawMessage(fmt.Sprintf("%q", p.ID)))
		}
	default:
		x.passed[worldKey(&c.World)] = true
		for i := range c.World.Members {
			e.Env = append(e.Env, given(&c.World, i))
		}
	}
	s.after(time.Duration(x.rng.IntN(300))*time.Millisecond, func() { s.step(a, e) })
}

func (s *sim) ask(a *simAgent, c Ask) {
	x := s.checks
	if x.asked[a.node.ID] == nil {
		x.asked[a.node.ID] = map[int]bool{}
	}
	x.asked[a.node.ID][c.Serial] = true
	if x.rng.IntN(50) == 0 {
		return // never answers
	}
	s.after(time.Duration(x.rng.IntN(1000))*time.Millisecond, func() { s.step(a, Answered(c)) })
}

// given is what the workers of a member get: the member's of this world alone.
func given(w *World, i int) []byte { return fmt.Appendf(nil, "%s %d", worldKey(w), i) }

// checkExamined: what starts was found fit, and every member has its own
// environment, and the hash of every other.
func (s *sim) checkExamined(a *simAgent, w *World) {
	if !s.agents[slices.IndexFunc(s.agents, func(o *simAgent) bool { return o.node.ID == w.Coordinator })].m.cfg.Check {
		return
	}
	if !s.checks.passed[worldKey(w)] {
		s.fatalf("n%d starts round %d, which was not checked", a.id, w.Round)
	}
	for i, m := range w.Members {
		if m.Env != envHash(given(w, i)) {
			s.fatalf("n%d starts round %d with environment %q for node %d", a.id, w.Round, m.Env, i)
		}
	}
	if env := a.m.mem.work.env; string(env) != string(given(w, w.Index(a.node.ID))) {
		s.fatalf("n%d starts round %d with the environment %q", a.id, w.Round, env)
	}
}
