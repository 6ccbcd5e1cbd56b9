package rendezvous

import (
	"fmt"
	"testing"
	"time"
)

// TestTroubleEndsTheJobAlike: what one agent cannot get over ends the job on
// every node, with one cause and one code, whatever restarts are left.
func TestTroubleEndsTheJobAlike(t *testing.T) {
	fails := func(a, _ int) (time.Duration, bool) {
		if a == 2 {
			return 400 * time.Millisecond, true
		}
		return time.Second, false
	}
	tests := []struct {
		name string
		cfg  simConfig
		at   time.Duration // of the trouble
		kind Kind
		code int // that the job ends with
		by   Kind
	}{
		{"while waiting", simConfig{nodes: 3, min: 4, max: 4, restarts: 3, endpoints: 1, plan: forever}, 500 * time.Millisecond, KindAgent, 1, KindAgent},
		{"while running", simConfig{nodes: 3, min: 3, max: 3, restarts: 3, endpoints: 1, plan: forever}, 500 * time.Millisecond, KindAgent, 1, KindAgent},
		{"a stranger's endpoint", simConfig{nodes: 3, min: 4, max: 4, endpoints: 1, plan: forever}, 500 * time.Millisecond, KindRendezvous, ExitRendezvous, KindRendezvous},
		{"after a failure", simConfig{nodes: 3, min: 3, max: 3, restarts: 3, endpoints: 1, plan: fails}, 0, KindAgent, 2 + 3, KindExit},
	}
	for _, tt := range tests {
		for victim := range 2 {
			t.Run(fmt.Sprintf("%s at n%d", tt.name, victim), func(t *testing.T) {
				for seed := range uint64(20) {
					s := newSim(t, seed)
					for i := range tt.cfg.nodes {
						s.boot(s.add(tt.cfg, i))
					}
					s.announce()
					trouble := func() {
						a := s.agents[victim]
						s.step(a, StopJob{Cause: a.m.here(tt.kind, "no port is left")})
					}
					if tt.at > 0 {
						s.after(tt.at, trouble)
					} else { // as soon as the first failure stops the workers
						var wait func()
						wait = func() {
							if s.agents[victim].m.mem.work.state == workStopping {
								trouble()
							} else if s.agents[victim].outcome == nil {
								s.after(time.Millisecond, wait)
							}
						}
						s.after(time.Millisecond, wait)
					}
					s.run(2 * time.Minute)
					if o := s.outcomes(); o.Code != tt.code || o.Cause == nil || o.Cause.Kind != tt.by {
						s.fatalf("seed %d: ended with %d (%s)", seed, o.Code, causeLine(o.Cause))
					}
				}
			})
		}
	}
}
