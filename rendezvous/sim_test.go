package rendezvous

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// sim runs machines over a simulated network in virtual time. Everything that
// may differ between runs comes from rng, so a seed replays its schedule.
type sim struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Time
	queue  simQueue
	queued int // events, ever
	agents []*simAgent
	conns  Conn
	pipes  map[Conn]*pipe // both ends' Conn → the pipe
	log    []string

	accepts map[string]map[NodeID]bool // world digest → who sent accept
	started map[string]string          // round → digest of the world that was started
	worlds  []World                    // that were started, in that order
	stuck   []func()                   // messages that a cut holds up
	fuse    int                        // of the first agent that leads
	tokens  int
	dups    int  // one of so many messages arrives twice; 0: none
	tardy   bool // some events reach the machine with a time that has passed
	swift   bool // nothing that keeps an agent from hearing of a failure happens
	checks  *checker
	store   *simStore // nil: the backend is no fence
}

type simAgent struct {
	id      int
	node    Node
	m       *Machine
	crashed bool
	side    int // packets between agents of different sides vanish
	wasCut  bool
	frozen  bool    // its events wait
	thawed  bool    // it was frozen once
	held    []Event // while it is frozen
	fuse    int     // commands until it crashes, 0: never
	took    string  // the job of the last round that it took part in
	left    bool    // was let go while it waited for a place; the job goes on
	running *World
	outcome *Outcome
	stopped bool
	done    bool // its workers ended with 0
	plan    func(round int) (after time.Duration, fail bool)
	wake    time.Time     // by its own clock
	ahead   time.Duration // of its own clock
	told    bool          // SIGTERM: it may leave a job that goes on
	woken   time.Time     // when it thawed
	client  *simClient    // of the store; nil without one
}

// clock is the agent's own time.
func (a *simAgent) clock(s *sim) time.Time { return s.now.Add(a.ahead) }

func newSim(t *testing.T, seed uint64) *sim {
	return &sim{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(0, 0), pipes: map[Conn]*pipe{},
		accepts: map[string]map[NodeID]bool{}, started: map[string]string{}, checks: newChecker(seed),
	}
}

func (s *sim) logf(f string, a ...any) {
	s.log = append(s.log, fmt.Sprintf("%8.3f ", s.now.Sub(time.Unix(0, 0)).Seconds())+fmt.Sprintf(f, a...))
}

func (s *sim) fatalf(f string, a ...any) {
	s.t.Helper()
	for _, l := range s.log {
		s.t.Log(l)
	}
	s.t.Fatalf(f, a...)
}

func (s *sim) delay() time.Duration { return time.Duration(1+s.rng.IntN(3000)) * time.Microsecond }

type simConfig struct {
	nodes, min, max, restarts, endpoints int
	check                                bool // nodes are compared; some tell no facts
	grow                                 bool
	plan                                 func(agent, round int) (time.Duration, bool)
}

func (s *sim) add(c simConfig, i int) *simAgent {
	ep := -1
	if i < c.endpoints && s.store == nil {
		ep = i
	}
	id := len(s.agents) // i again: a node whose agent is started anew
	n := Node{
		ID: NodeID(fmt.Sprintf("id%02d", id)), RunID: "r", Protocol: Protocol, Host: fmt.Sprintf("n%d", i), Addr: fmt.Sprintf("10.0.0.%d", i+1),
		Control: fmt.Sprintf("c%d", id), Store: fmt.Sprintf("s%d", id), Workers: 1 + i%2, NodeRank: -1, Endpoint: ep, Min: c.min, Max: c.max,
		Facts: c.check && s.checks.rng.IntN(8) > 0,
	}
	a := &simAgent{id: id, node: n, plan: func(r int) (time.Duration, bool) { return c.plan(i, r) }}
	a.m = New(Config{
		Self: n, Check: c.check, MaxRestarts: c.restarts, Endpoints: c.endpoints, Where: "here", Takeover: true,
		Fenced: s.store != nil, Grow: c.grow,
		Timeouts: Timeouts{Join: 30 * time.Second, LastCall: time.Second, Rejoin: 5 * time.Second, Retry: 50 * time.Millisecond},
		Token:    func() string { s.tokens++; return fmt.Sprint("t", s.tokens) },
	}, s.now)
	s.agents = append(s.agents, a)
	s.tellFacts(a)
	if s.store != nil {
		s.connect(a)
	}
	return a
}

func (s *sim) peers() []Peer {
	var ps []Peer
	for _, a := range s.agents {
		if !a.crashed {
			ps = append(ps, Peer{ID: a.node.ID, Name: a.node.Name(), Control: a.node.Control, Endpoint: a.node.Endpoint})
		}
	}
	return ps
}

// step feeds one event to an agent and carries its commands out.
func (s *sim) step(a *simAgent, e Event) {
	if a.crashed || a.outcome != nil {
		return
	}
	if a.frozen {
		a.held = append(a.held, e)
		return
	}
	at := a.clock(s)
	if s.tardy && s.rng.IntN(20) == 0 {
		at = at.Add(-time.Duration(s.rng.IntN(3000)) * time.Millisecond) // an event that waited somewhere
	}
	for _, c := range a.m.Step(at, e) {
		s.do(a, c)
		if a.fuse > 0 {
			if a.fuse--; a.fuse == 0 {
				s.crash(a)
				return
			}
		}
	}
	s.rouse(a)
}

func (s *sim) do(a *simAgent, c Command) {
	switch c := c.(type) {
	case Dial:
		s.dial(a, c.Addr)
	case Send:
		s.send(a, c.Conn, c.Msg)
	case Close:
		s.hangUp(a, c.Conn, true, "closed")
	case Compare:
		s.compare(a, c)
	case Ask:
		s.ask(a, c)
	case Start:
		s.start(a, c.World)
	case Stop:
		s.stop(a, c)
	case Seal:
		s.seal(a, c)
	case GiveUp:
		a.client.serial = 0
	case Lead:
		a.fuse, s.fuse = a.fuse+s.fuse, 0
		a.client.leads = true
		s.confirm(a)
	case Vacate:
		a.client.vacated = max(a.client.vacated, c.Round)
		s.confirm(a)
	case Unseal:
		s.unseal(a, c)
	case Finish:
		s.logf("n%d finishes with %d: %v", a.id, c.Outcome.Code, causeLine(c.Outcome.Cause))
		if a.running != nil && !a.done {
			s.fatalf("n%d finished while its workers run", a.id)
		}
		o := c.Outcome
		a.outcome = &o
		if why := o.Cause; why != nil && a.told && why.Kind == KindStopped && why.Node == a.node.ID && a.node.Min < a.node.Max {
			a.left = true
		}
		if s.store != nil {
			s.resign(a)
		}
		for _, p := range s.pipesOf(a) {
			s.breakPipe(p, a, true, "finished")
		}
	case Note:
		s.logf("n%d notes: %s", a.id, c.Text)
		if c.Kind == "internal" { // a seat, the round or the workers went where they cannot go
			s.fatalf("n%d: %s", a.id, c.Text)
		}
	}
}

func causeLine(c *Cause) string {
	if c == nil {
		return "success"
	}
	return c.Line()
}

// announce tells every agent whom the backend sees.
func (s *sim) announce() {
	if s.store != nil {
		return // it tells everyone itself
	}
	ps := s.peers()
	for _, a := range s.agents {
		s.after(s.delay(), func() { s.step(a, Peers{All: ps}) })
	}
}
