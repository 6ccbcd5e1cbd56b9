package rendezvous

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

var (
	schedules = flag.Int("sim.schedules", 0, "random schedules to play (0: 10,000; with -short or -race fewer)")
	firstSeed = flag.Uint64("sim.seed", 0, "first seed; a failing test names the seed to replay")
)

// TestRandomSchedules plays jobs in which anything may happen at any moment.
// The simulation itself checks that no two worlds share a round, that every
// member has accepted what starts, that rounds do not overlap and that every
// agent ends.
func TestRandomSchedules(t *testing.T) {
	n := *schedules
	if n == 0 {
		n = 10_000
		if testing.Short() || raceEnabled {
			n = 1000
		}
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		playRandom(t, seed)
		if t.Failed() {
			return
		}
	}
}

// random is one schedule that is being drawn.
type random struct {
	*sim
	rng                        *rand.Rand
	cfg                        simConfig
	nodes                      int // agents that are there from the start
	cuts, breaks, freezes, own int // faults of each sort; own: after which an agent may end by what it knows alone
}

func playRandom(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("replay with go test ./rendezvous -run TestRandomSchedules -sim.schedules 1 -sim.seed %d", seed)
		}
	}()
	r := &random{sim: newSim(t, seed), rng: rand.New(rand.NewPCG(seed, 2))}
	rng := r.rng
	n := 1 + rng.IntN(6)
	r.nodes = n
	r.cfg = simConfig{nodes: n, min: 1 + rng.IntN(n), max: n, restarts: rng.IntN(3), endpoints: 1 + rng.IntN(min(n, 3))}
	if rng.IntN(2) == 0 {
		r.cfg.min = n
	}
	if rng.IntN(3) == 0 { // some nodes are more than the job needs, or may still come
		r.cfg.max = 1 + rng.IntN(n+2)
		r.cfg.min = min(r.cfg.min, r.cfg.max)
	}
	r.cfg.endpoints = min(r.cfg.endpoints, r.cfg.max)
	r.cfg.check, r.cfg.grow = seed%2 == 1, rng.IntN(2) == 0
	r.cfg.plan = func(agent, round int) (time.Duration, bool) {
		return time.Duration(rng.IntN(4000)) * time.Millisecond, rng.IntN(6) == 0
	}
	if seed%3 == 2 {
		r.store = newSimStore()
	}
	if rng.IntN(3) == 0 {
		r.dups = 8
	}
	r.swift, r.tardy = true, rng.IntN(3) == 0
	for i := range n {
		a := r.add(r.cfg, i)
		r.after(time.Duration(rng.IntN(3000))*time.Millisecond, func() { r.step(a, Ready{}) })
	}
	r.announce()
	for range rng.IntN(5) {
		r.fault()
	}
	r.swift = r.cuts == 0 && r.freezes == 0
	r.run(20 * time.Minute)
	r.endAlike()
}

// TestCoordinatorLostAtEveryStep crashes the first coordinator after each of its
// commands, in a job that has a spare, a failure and a node that leaves.
func TestCoordinatorLostAtEveryStep(t *testing.T) {
	for _, fence := range []bool{false, true} {
		t.Run(fmt.Sprint("fenced ", fence), func(t *testing.T) {
			for n := 1; n <= 120; n++ {
				s := newSim(t, uint64(n))
				cfg := simConfig{nodes: 5, min: 2, max: 4, restarts: 3, endpoints: 1, grow: true, plan: func(a, r int) (time.Duration, bool) {
					return 300 * time.Millisecond, a == 2 && r == 0
				}}
				if fence {
					s.store, s.fuse = newSimStore(), n
				}
				for i := range cfg.nodes {
					s.boot(s.add(cfg, i))
				}
				if !fence {
					s.agents[0].fuse = n
				}
				s.announce()
				s.after(900*time.Millisecond, func() { s.signal(s.agents[3], syscall.SIGTERM, false) })
				s.swift = true
				s.run(5 * time.Minute)
				(&random{sim: s}).endAlike()
			}
		})
	}
}

// endAlike (promise 5): all agents tell the same outcome, but for those that could not know it.
func (r *random) endAlike() {
	// Agents that are cut off, or whose stream breaks while they cannot answer,
	// end by what they know.
	if r.cuts > 0 || r.own > 0 || r.breaks > 0 && r.freezes > 0 {
		return
	}
	for _, a := range r.agents {
		// Agents that never met the others cannot agree with them, nor can one that had
		// lost its place when the coordinator was lost and its successor ended the job:
		// nobody is left to tell it. It says that nobody came.
		a.wasCut = a.took == "" || !a.crashed && a.m.mem.search.spare && a.outcome.Code == ExitRendezvous
	}
	r.outcomes()
}

// fault draws something that happens to an agent, its links or the store.
func (r *random) fault() {
	rng := r.rng
	a := r.agents[rng.IntN(r.nodes)]
	at := time.Duration(rng.IntN(6_000_000)) * time.Microsecond
	do := func(f func()) { r.after(at, f) }
	span := func(limit time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(limit))) }
	switch rng.IntN(26) {
	case 0, 1, 2:
		do(func() { r.crash(a) })
	case 3, 4: // in the middle of telling the others something
		do(func() { a.fuse = 1 + rng.IntN(8) })
	case 5:
		do(func() { r.split([]*simAgent{a}) })
		r.cuts++
	case 6:
		do(func() { r.split(r.agents[:1+rng.IntN(r.nodes)]) })
		if rng.IntN(2) == 0 {
			r.after(at+span(30*time.Second), r.mend)
		}
		r.cuts++
	case 7, 8:
		do(func() { r.freeze(a, span(2*time.Second)) })
		r.freezes++
	case 9:
		do(func() { r.freeze(a, span(20*time.Second)) })
		r.cuts++ // silent for too long is cut off
	case 10, 11:
		do(func() { r.reset(a) })
		r.breaks++
	case 12, 13:
		do(func() { r.join(r.cfg, max(a.id, r.cfg.endpoints)) })
	case 14: // the node's agent is started anew; at an endpoint that would be a new job
		do(func() {
			r.crash(a)
			if a.crashed && a.node.Endpoint < 0 {
				r.after(span(3*time.Second), func() { r.join(r.cfg, a.id) })
			}
		})
	case 15, 16:
		again := rng.IntN(3) == 0
		do(func() {
			r.signal(a, syscall.SIGTERM, false)
			if again {
				r.after(span(time.Second), func() { r.signal(a, syscall.SIGTERM, true) })
			}
		})
	case 17, 18:
		do(func() { r.signal(a, syscall.SIGINT, rng.IntN(2) == 0) })
	case 19: // less than any wait
		do(func() { r.leap(a, span(time.Second)) })
	case 20:
		do(func() { r.leap(a, span(time.Minute)) })
		r.own++
	case 21, 22:
		do(func() { r.misinform(a) })
	case 23, 24:
		if r.store != nil {
			do(func() { r.halt(span(20 * time.Second)) })
			r.cuts++
		}
	case 25:
		if r.store != nil {
			do(func() { r.sever(a) })
			r.cuts++
			if rng.IntN(2) == 0 {
				r.after(at+span(20*time.Second), func() { a.client.cut = false })
			}
		}
	}
}

// sever cuts an agent from the store alone.
func (r *random) sever(a *simAgent) {
	r.logf("n%d is cut from the store", a.id)
	a.client.cut = true
}

// split cuts the network; the store is on either side, on both or on none.
func (r *random) split(group []*simAgent) {
	r.part(group)
	if r.store == nil {
		return
	}
	with, without := r.rng.IntN(4) != 0, r.rng.IntN(4) == 0
	for _, a := range r.agents {
		here := a.side != 0
		if here && with || !here && without {
			r.sever(a)
		}
	}
}

func (r *random) mend() {
	r.heal()
	for _, a := range r.agents {
		if a.client != nil {
			a.client.cut = false
		}
	}
}

// misinform shows an agent something else than there is, for a while: what was
// true long ago, less than there is, the same again.
func (r *random) misinform(a *simAgent) {
	if r.store != nil || a.crashed || a.outcome != nil {
		return
	}
	r.logf("n%d is shown old peers", a.id)
	var ps []Peer
	for _, o := range r.agents {
		if o == a || r.rng.IntN(3) > 0 {
			ps = append(ps, Peer{ID: o.node.ID, Name: o.node.Name(), Control: o.node.Control, Endpoint: o.node.Endpoint})
		}
	}
	for range 1 + r.rng.IntN(3) {
		r.after(time.Duration(r.rng.IntN(1000))*time.Millisecond, func() { r.step(a, Peers{All: ps}) })
	}
	r.after(1100*time.Millisecond, func() { r.step(a, Peers{All: r.peers()}) })
}
