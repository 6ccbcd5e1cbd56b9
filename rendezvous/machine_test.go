package rendezvous

import (
	"syscall"
	"testing"
	"time"
)

func forever(int, int) (time.Duration, bool) { return time.Second, false }

// outcomes checks that all agents of a job that lived ended alike and returns
// that outcome, of one job.
func (s *sim) outcomes() Outcome {
	s.t.Helper()
	first := map[string]*simAgent{} // by job; "" for those that never had a part in one
	for _, a := range s.agents {
		if a.crashed || a.wasCut || a.left || s.checks.dismissed[a.node.ID] {
			continue
		}
		o := first[a.took]
		if o == nil {
			first[a.took], o = a, a
		}
		if a.outcome.Code != o.outcome.Code || causeLine(a.outcome.Cause) != causeLine(o.outcome.Cause) {
			s.fatalf("n%d ended with %d (%s), n%d with %d (%s)", o.id, o.outcome.Code, causeLine(o.outcome.Cause),
				a.id, a.outcome.Code, causeLine(a.outcome.Cause))
		}
	}
	for _, a := range s.agents {
		if first[a.took] == a {
			return *a.outcome
		}
	}
	return Outcome{}
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
			fault: func(s *sim) { s.after(time.Second, func() { s.signal(s.agents[1], syscall.SIGINT, false) }) },
		},
		{
			name: "signal while running", cfg: simConfig{nodes: 2, min: 2, max: 2, restarts: 3, endpoints: 1, plan: forever}, code: 130, kind: KindStopped,
			fault: func(s *sim) { s.after(500*time.Millisecond, func() { s.signal(s.agents[1], syscall.SIGINT, true) }) },
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

func (s *sim) signal(a *simAgent, sig syscall.Signal, kill bool) {
	if a.crashed || a.outcome != nil {
		return
	}
	s.logf("n%d gets %s (kill %v)", a.id, SignalName(sig), kill)
	a.told = a.told || sig == syscall.SIGTERM
	c := a.m.here(KindStopped, "")
	c.Signal, c.Time = sig, a.clock(s)
	s.step(a, StopJob{Cause: c, Kill: kill})
}
