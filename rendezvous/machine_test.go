package rendezvous

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	schedules = flag.Int("schedules", 2000, "random schedules to play")
	firstSeed = flag.Uint64("seed", 0, "first seed; a failing test names the seed to replay")
)

func forever(int, int) (time.Duration, bool) { return time.Second, false }

// outcomes checks that all agents that lived ended alike and returns that outcome.
func (s *sim) outcomes() Outcome {
	s.t.Helper()
	var first *simAgent
	for _, a := range s.agents {
		if a.crashed || a.wasCut {
			continue
		}
		if first == nil {
			first = a
		}
		if a.outcome.Code != first.outcome.Code || causeLine(a.outcome.Cause) != causeLine(first.outcome.Cause) {
			s.fatalf("n%d ended with %d (%s), n%d with %d (%s)", first.id, first.outcome.Code, causeLine(first.outcome.Cause),
				a.id, a.outcome.Code, causeLine(a.outcome.Cause))
		}
	}
	if first == nil {
		return Outcome{}
	}
	return *first.outcome
}

func TestJob(t *testing.T) {
	fails := func(agent int, rounds ...bool) func(int, int) (time.Duration, bool) {
		return func(a, r int) (time.Duration, bool) {
			if a == agent && r < len(rounds) && rounds[r] {
				return 100 * time.Millisecond, true
			}
			return time.Second, false
		}
	}
	tests := []struct {
		name  string
		cfg   simConfig
		fault func(s *sim)
		code  int
		kind  Kind
	}{
		{name: "one node", cfg: simConfig{nodes: 1, min: 1, max: 1, endpoints: 1, plan: forever}},
		{name: "four nodes", cfg: simConfig{nodes: 4, min: 4, max: 4, endpoints: 1, plan: forever}},
		{name: "elastic after the last call", cfg: simConfig{nodes: 3, min: 2, max: 5, endpoints: 1, plan: forever}},
		{name: "worker fails", cfg: simConfig{nodes: 4, min: 4, max: 4, endpoints: 1, plan: fails(2, true)}, code: 5, kind: KindExit},
		{name: "restart mends", cfg: simConfig{nodes: 3, min: 3, max: 3, restarts: 1, endpoints: 1, plan: fails(2, true)}},
		{name: "restarts are counted for the job", cfg: simConfig{nodes: 3, min: 3, max: 3, restarts: 1, endpoints: 1, plan: fails(1, true, true, true)}, code: 4, kind: KindExit},
		{
			name: "member dies", cfg: simConfig{nodes: 3, min: 3, max: 3, endpoints: 1, plan: forever}, code: ExitLost, kind: KindLost,
			fault: func(s *sim) { s.after(500*time.Millisecond, func() { s.crash(s.agents[1]) }) },
		},
		{
			name: "coordinator dies", cfg: simConfig{nodes: 3, min: 3, max: 3, endpoints: 1, plan: forever}, code: ExitLost, kind: KindLost,
			fault: func(s *sim) { s.after(500*time.Millisecond, func() { s.crash(s.agents[0]) }) },
		},
		{
			name: "elastic job outlives its coordinator", cfg: simConfig{nodes: 4, min: 2, max: 4, restarts: 1, endpoints: 1, plan: forever},
			fault: func(s *sim) { s.after(500*time.Millisecond, func() { s.crash(s.agents[0]) }) },
		},
		{
			name: "one missing", cfg: simConfig{nodes: 2, min: 3, max: 3, endpoints: 1, plan: forever}, code: ExitRendezvous, kind: KindRendezvous,
		},
		{
			name: "endpoint missing", cfg: simConfig{nodes: 2, min: 2, max: 2, endpoints: 0, plan: forever}, code: ExitRendezvous, kind: KindRendezvous,
		},
		{
			name: "two of three endpoints", cfg: simConfig{nodes: 3, min: 2, max: 3, endpoints: 3, plan: forever},
			fault: func(s *sim) { s.crash(s.agents[0]) },
		},
		{
			name: "signal while waiting", cfg: simConfig{nodes: 2, min: 3, max: 3, endpoints: 1, plan: forever}, code: 130, kind: KindStopped,
			fault: func(s *sim) { s.after(time.Second, func() { s.signal(s.agents[1], false) }) },
		},
		{
			name: "signal while running", cfg: simConfig{nodes: 2, min: 2, max: 2, restarts: 3, endpoints: 1, plan: forever}, code: 130, kind: KindStopped,
			fault: func(s *sim) { s.after(500*time.Millisecond, func() { s.signal(s.agents[1], true) }) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				s := newSim(t, seed)
				for i := range tt.cfg.nodes {
					s.boot(s.add(tt.cfg, i))
				}
				s.announce()
				if tt.fault != nil {
					tt.fault(s)
				}
				s.run(2 * time.Minute)
				o := s.outcomes()
				if o.Code != tt.code || (o.Cause != nil) != (tt.kind != "") || o.Cause != nil && o.Cause.Kind != tt.kind {
					s.fatalf("seed %d: ended with %d (%s), want %d (%s)", seed, o.Code, causeLine(o.Cause), tt.code, tt.kind)
				}
			}
		})
	}
}

func (s *sim) boot(a *simAgent) {
	s.after(s.delay(), func() { s.step(a, Ready{}) })
}

func (s *sim) signal(a *simAgent, kill bool) {
	s.logf("n%d gets SIGINT", a.id)
	c := a.m.here(KindStopped, "")
	c.Signal, c.Time = 2, s.now
	s.step(a, StopJob{Cause: c, Kill: kill})
}

// TestRandomSchedules plays jobs in which anything may happen at any moment.
// The simulation itself checks that no two worlds share a round, that every
// member has accepted what starts, that rounds do not overlap and that every
// agent ends.
func TestRandomSchedules(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*schedules); seed++ {
		playRandom(t, seed)
		if t.Failed() {
			return
		}
	}
}

func playRandom(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("replay with -run TestRandomSchedules -seed %d -schedules 1", seed)
		}
	}()
	rng := rand.New(rand.NewPCG(seed, 2))
	n := 1 + rng.IntN(6)
	cfg := simConfig{nodes: n, min: 1 + rng.IntN(n), max: n, restarts: rng.IntN(3), endpoints: 1 + rng.IntN(min(n, 3))}
	if rng.IntN(2) == 0 {
		cfg.min = n
	}
	cfg.plan = func(agent, round int) (time.Duration, bool) {
		return time.Duration(rng.IntN(4000)) * time.Millisecond, rng.IntN(6) == 0
	}
	s := newSim(t, seed)
	for i := range n {
		a := s.add(cfg, i)
		s.after(time.Duration(rng.IntN(3000))*time.Millisecond, func() { s.step(a, Ready{}) })
	}
	s.announce()
	cuts, breaks, freezes := 0, 0, 0
	for range rng.IntN(4) {
		i := rng.IntN(n)
		a := s.agents[i]
		at := time.Duration(rng.IntN(6_000_000)) * time.Microsecond
		switch rng.IntN(16) {
		case 0, 1, 2:
			s.after(at, func() { s.crash(a) })
		case 3, 4: // in the middle of telling the others something
			s.after(at, func() { a.fuse = 1 + rng.IntN(8) })
		case 5:
			s.after(at, func() { s.isolate(a) })
			cuts++
		case 6:
			s.after(at, func() { s.part(s.agents[:1+rng.IntN(n)]) })
			if rng.IntN(2) == 0 {
				s.after(at+time.Duration(rng.IntN(30_000))*time.Millisecond, s.heal)
			}
			cuts++
		case 7, 8:
			s.after(at, func() { s.freeze(a, time.Duration(rng.IntN(2000))*time.Millisecond) })
			freezes++
		case 9:
			s.after(at, func() { s.freeze(a, time.Duration(rng.IntN(20_000))*time.Millisecond) })
			cuts++ // silent for too long is cut off
		case 10, 11:
			s.after(at, func() { s.reset(a) })
			breaks++
		case 12:
			s.after(at, func() { s.join(cfg, max(i, cfg.endpoints)) })
		case 13: // the node's agent is started anew; at an endpoint that would be a new job
			s.after(at, func() {
				s.crash(a)
				if !a.crashed || a.node.Endpoint >= 0 {
					return
				}
				s.after(time.Duration(rng.IntN(3000))*time.Millisecond, func() { s.join(cfg, i) })
			})
		default:
			s.after(at, func() { s.signal(a, rng.IntN(2) == 0) })
		}
	}
	s.run(20 * time.Minute)
	// Agents that are cut off, or whose stream breaks while they cannot answer,
	// end by what they know.
	if cuts == 0 && (breaks == 0 || freezes == 0) {
		for _, a := range s.agents {
			a.wasCut = !a.took // agents that never met the others cannot agree with them
		}
		s.outcomes()
	}
}
