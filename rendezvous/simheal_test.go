package rendezvous

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestHealedSchedules cuts a job in two parts at random and heals the network
// while the part that had to stop still looks for the job: then all nodes are in
// one world again, and the job succeeds everywhere.
func TestHealedSchedules(t *testing.T) {
	n := *schedules
	if n == 0 {
		n = 2000
		if testing.Short() || raceEnabled {
			n = 300
		}
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		playHealed(t, seed)
		if t.Failed() {
			t.Logf("replay with go test ./rendezvous -run TestHealedSchedules -sim.schedules 1 -sim.seed %d", seed)
			return
		}
	}
}

func playHealed(t *testing.T, seed uint64) {
	s := newSim(t, seed)
	r := &random{sim: s, rng: rand.New(rand.NewPCG(seed, 3))}
	rng := r.rng
	n := 2 + rng.IntN(5)
	ends := s.now.Add(2 * time.Minute)
	cfg := simConfig{nodes: n, min: 1 + rng.IntN(n), max: n, restarts: 10, endpoints: 1 + rng.IntN(min(n, 3)), grow: true}
	cfg.plan = func(int, int) (time.Duration, bool) { return ends.Sub(s.now), false }
	if seed%3 == 2 {
		s.store = newSimStore()
	}
	for i := range n {
		s.boot(s.add(cfg, i))
	}
	s.announce()
	cut := time.Duration(3_000+rng.IntN(4_000)) * time.Millisecond
	s.after(cut, func() {
		var group []*simAgent
		for _, i := range rng.Perm(n)[:1+rng.IntN(n-1)] {
			group = append(group, s.agents[i])
		}
		s.part(group)
		if s.store == nil {
			return
		}
		lost := rng.IntN(3) // who cannot reach the store, if anybody
		for _, a := range s.agents {
			if lost == 0 && a.side == 0 || lost == 1 && a.side != 0 {
				r.sever(a)
			}
		}
	})
	s.after(cut+time.Duration(rng.IntN(30_000))*time.Millisecond, r.mend)
	s.run(5 * time.Minute)
	last := s.agents[0].m.World()
	for _, a := range s.agents {
		if a.outcome.Code != 0 || a.m.World() == nil || a.m.World().Digest() != last.Digest() || len(last.Members) != n {
			s.fatalf("n%d of %d ends with %d: %s", a.id, n, a.outcome.Code, causeLine(a.outcome.Cause))
		}
	}
}
