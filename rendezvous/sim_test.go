package rendezvous

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// sim runs machines over a simulated network in virtual time. Everything that
// may differ between runs comes from rng, so a seed replays its schedule.
type sim struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Time
	queue  []simEvent
	agents []*simAgent
	conns  Conn
	pipes  map[Conn]*pipe // both ends' Conn → the pipe
	log    []string

	accepts map[string]map[NodeID]bool // world digest → who sent accept
	started map[int]string             // round → digest of the world that was started
	worlds  []World                    // that were started, in that order
	stuck   []func()                   // messages that a cut holds up
}

type simEvent struct {
	at  time.Time
	seq int
	do  func()
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
	took    bool    // took part in a round
	running *World
	outcome *Outcome
	stopped bool
	done    bool // its workers ended with 0
	plan    func(round int) (after time.Duration, fail bool)
	wake    time.Time
}

type pipe struct {
	a, b   *simAgent
	ca, cb Conn
	ready  [2]time.Time // earliest arrival of the next message, by direction
	closed bool
}

func newSim(t *testing.T, seed uint64) *sim {
	return &sim{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(0, 0), pipes: map[Conn]*pipe{},
		accepts: map[string]map[NodeID]bool{}, started: map[int]string{},
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

func (s *sim) after(d time.Duration, do func()) {
	s.queue = append(s.queue, simEvent{s.now.Add(d), len(s.queue), do})
}

func (s *sim) delay() time.Duration { return time.Duration(1+s.rng.IntN(3000)) * time.Microsecond }

type simConfig struct {
	nodes, min, max, restarts, endpoints int
	plan                                 func(agent, round int) (time.Duration, bool)
}

func (s *sim) add(c simConfig, i int) *simAgent {
	ep := -1
	if i < c.endpoints {
		ep = i
	}
	id := len(s.agents) // i again: a node whose agent is started anew
	n := Node{
		ID: NodeID(fmt.Sprintf("id%02d", id)), RunID: "r", Protocol: Protocol, Host: fmt.Sprintf("n%d", i), Addr: fmt.Sprintf("10.0.0.%d", i+1),
		Control: fmt.Sprintf("c%d", id), Store: fmt.Sprintf("s%d", id), Workers: 1 + i%2, NodeRank: -1, Endpoint: ep, Min: c.min, Max: c.max,
	}
	a := &simAgent{id: id, node: n, plan: func(r int) (time.Duration, bool) { return c.plan(i, r) }}
	a.m = New(Config{
		Self: n, MaxRestarts: c.restarts, Endpoints: c.endpoints, Where: "here", Takeover: true,
		Join: 30 * time.Second, LastCall: time.Second, Rejoin: 5 * time.Second, Retry: 50 * time.Millisecond,
		Token: func() string { return "t" },
	}, s.now)
	s.agents = append(s.agents, a)
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
	for _, c := range a.m.Step(s.now, e) {
		s.do(a, c)
		if a.fuse > 0 {
			if a.fuse--; a.fuse == 0 {
				s.crash(a)
				return
			}
		}
	}
	if next := a.m.Next(); a.outcome == nil && !next.IsZero() && (a.wake.IsZero() || next.Before(a.wake) || !a.wake.After(s.now)) {
		a.wake = next
		s.after(max(0, next.Sub(s.now)), func() {
			if a.wake.Equal(next) {
				a.wake = time.Time{}
			}
			s.step(a, Tick{})
		})
	}
}

func (s *sim) do(a *simAgent, c Command) {
	switch c := c.(type) {
	case Dial:
		s.dial(a, c.Addr)
	case Send:
		s.send(a, c.Conn, c.Msg)
	case Close:
		s.hangUp(a, c.Conn, true, "closed")
	case Start:
		s.start(a, c.World)
	case Stop:
		s.stop(a, c)
	case Finish:
		s.logf("n%d finishes with %d: %v", a.id, c.Outcome.Code, causeLine(c.Outcome.Cause))
		if a.running != nil && !a.done {
			s.fatalf("n%d finished while its workers run", a.id)
		}
		o := c.Outcome
		a.outcome = &o
		for _, p := range s.pipesOf(a) {
			s.breakPipe(p, a, true, "finished")
		}
	case Note:
		s.logf("n%d notes: %s", a.id, c.Text)
	}
}

func causeLine(c *Cause) string {
	if c == nil {
		return "success"
	}
	return c.Line()
}

func (s *sim) dial(a *simAgent, addr string) { s.dialUntil(a, addr, s.now.Add(2*time.Second)) }

func (s *sim) dialUntil(a *simAgent, addr string, end time.Time) {
	i := slices.IndexFunc(s.agents, func(o *simAgent) bool { return o.node.Control == addr })
	b := s.agents[i]
	switch {
	case a == b:
		s.fatalf("n%d dials itself", a.id)
	case a.side != b.side || b.frozen:
		if s.now.Before(end) {
			s.after(10*time.Millisecond, func() { s.dialUntil(a, addr, end) })
			return
		}
		s.step(a, DialFailed{Addr: addr, Text: "timed out"})
	case b.crashed || b.outcome != nil:
		s.after(s.delay(), func() { s.step(a, DialFailed{Addr: addr, Refused: true, Text: "refused"}) })
	default:
		s.conns += 2
		p := &pipe{a: a, b: b, ca: s.conns - 1, cb: s.conns}
		s.pipes[p.ca], s.pipes[p.cb] = p, p
		d := s.delay()
		p.ready[1] = s.now.Add(d)
		s.after(d, func() { s.step(a, Dialed{Addr: addr, Conn: p.ca}) })
	}
}

func (s *sim) pipesOf(a *simAgent) []*pipe {
	var out []*pipe
	for c := Conn(1); c <= s.conns; c += 2 {
		if p := s.pipes[c]; p != nil && !p.closed && (p.a == a || p.b == a) {
			out = append(out, p)
		}
	}
	return out
}

func (s *sim) send(a *simAgent, c Conn, msg Message) {
	p := s.pipes[c]
	if p == nil || p.closed {
		return
	}
	if msg.Type == MsgAccept {
		if s.accepts[msg.Digest] == nil {
			s.accepts[msg.Digest] = map[NodeID]bool{}
		}
		s.accepts[msg.Digest][a.node.ID] = true
	}
	to, conn, dir := p.b, p.cb, 0
	if a == p.b {
		to, conn, dir = p.a, p.ca, 1
	}
	at := s.now.Add(s.delay())
	if at.Before(p.ready[dir]) { // streams keep their order
		at = p.ready[dir]
	}
	p.ready[dir] = at
	held := false
	var arrive func()
	arrive = func() {
		switch {
		case held && p.closed: // given up
		case p.a.side == p.b.side:
			s.step(to, Received{Conn: conn, Msg: msg})
		default: // it is sent again until it arrives
			held = true
			s.stuck = append(s.stuck, arrive)
		}
	}
	s.after(at.Sub(s.now), arrive)
}

func (s *sim) hangUp(a *simAgent, c Conn, clean bool, text string) {
	if p := s.pipes[c]; p != nil && !p.closed {
		s.breakPipe(p, a, clean, text)
	}
}

// breakPipe ends a stream; the side that is not by hears of it after what was sent.
func (s *sim) breakPipe(p *pipe, by *simAgent, clean bool, text string) {
	p.closed = true
	other, conn, dir := p.b, p.cb, 0
	if by == p.b {
		other, conn, dir = p.a, p.ca, 1
	}
	at := s.now.Add(s.delay())
	if at.Before(p.ready[dir]) {
		at = p.ready[dir]
	}
	s.after(at.Sub(s.now), func() {
		if p.a.side == p.b.side {
			s.step(other, Closed{Conn: conn, Clean: clean, Text: text})
			return
		}
		s.after(simSilence, func() { s.step(other, Closed{Conn: conn, Silent: true, Text: "silent"}) })
	})
}

func (s *sim) start(a *simAgent, w World) {
	d := w.Digest()
	s.logf("n%d starts round %d %s with %d nodes", a.id, w.Round, d[:6], len(w.Members))
	if old, ok := s.started[w.Round]; ok && old != d {
		s.fatalf("two worlds in round %d", w.Round)
	}
	s.started[w.Round] = d
	if a.running != nil {
		s.fatalf("n%d starts round %d while round %d runs there", a.id, w.Round, a.running.Round)
	}
	for _, mb := range w.Members {
		if mb.ID != w.Coordinator && !s.accepts[d][mb.ID] {
			s.fatalf("n%d starts round %d, which %s has not accepted", a.id, w.Round, mb.ID)
		}
		for _, o := range s.agents {
			late := a.thawed && o.running != nil && w.Round < o.running.Round // it hears now what was true long ago
			if o.node.ID == mb.ID && !o.crashed && o.running != nil && !o.done && o.running.Round != w.Round && !late {
				s.fatalf("round %d starts on n%d while round %d runs on n%d", w.Round, a.id, o.running.Round, o.id)
			}
		}
	}
	s.checkSplit(w, d)
	a.running, a.stopped, a.done, a.took = &w, false, false, true
	after, fail := a.plan(w.Round)
	s.after(after, func() {
		if a.running == nil || a.running.Round != w.Round || a.stopped || a.crashed {
			return
		}
		if fail {
			s.logf("n%d: a worker of round %d fails", a.id, w.Round)
			c := a.m.here(KindExit, "boom")
			c.Rank, c.ExitCode, c.Time = w.Members[w.Index(a.node.ID)].FirstRank, 3+a.id, s.now
			s.step(a, Failed{Round: w.Round, Cause: c})
			return
		}
		a.done = true
		s.step(a, Done{Round: w.Round})
	})
}

func (s *sim) stop(a *simAgent, c Stop) {
	a.stopped = true
	s.after(time.Duration(s.rng.IntN(200))*time.Millisecond, func() {
		if a.running != nil && a.running.Round == c.Round {
			a.running = nil
			s.step(a, Over{Round: c.Round, Failures: a.m.mem.failures, Store: a.node.Store})
		}
	})
}

func (s *sim) crash(a *simAgent) {
	if a.crashed || a.outcome != nil {
		return
	}
	s.logf("n%d crashes (round %v)", a.id, a.running != nil)
	a.crashed, a.running = true, nil // its keeper kills its workers
	for _, p := range s.pipesOf(a) {
		s.breakPipe(p, a, false, "connection reset")
	}
	s.announce()
}

// announce tells every agent whom the backend sees.
func (s *sim) announce() {
	ps := s.peers()
	for _, a := range s.agents {
		s.after(s.delay(), func() { s.step(a, Peers{All: ps}) })
	}
}

// run plays the queue until it is empty or the virtual time is over.
func (s *sim) run(limit time.Duration) {
	end := s.now.Add(limit)
	for seq := 0; len(s.queue) > 0; seq++ {
		i := 0
		for j := range s.queue {
			if s.queue[j].at.Before(s.queue[i].at) {
				i = j
			}
		}
		e := s.queue[i]
		s.queue = append(s.queue[:i], s.queue[i+1:]...) // keeps insertion order among equals
		if e.at.After(end) {
			break
		}
		s.now = e.at
		e.do()
	}
	for _, a := range s.agents {
		if !a.crashed && a.outcome == nil {
			s.fatalf("n%d has not finished after %v", a.id, limit)
		}
	}
}
