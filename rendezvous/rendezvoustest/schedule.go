package rendezvoustest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/memory"
)

// Play plays a job in virtual time in which everything that can go wrong does so at
// random: nodes come late and too many, are killed between any two commands, freeze,
// are cut off from each other and from the backend, are shown an outdated view,
// messages come twice, streams break, workers fail, nodes do not fit, jobs are
// stopped, the backend is down. All comes from the seed. It returns what happened.
func Play(t *testing.T, seed uint64, fleet func() Fleet) (lines []string) {
	return inSchedule(t, seed, fleet, (*schedule).play)
}

// PlayHealed cuts a job in two parts at random and heals the network while the part
// that had to stop still looks for the job. Then all nodes are in one world again,
// and the job succeeds everywhere.
func PlayHealed(t *testing.T, seed uint64, fleet func() Fleet) {
	inSchedule(t, seed, fleet, (*schedule).playHealed)
}

// PlayLostAt kills the first coordinator before its n-th command, in a job that has a
// spare, a failure and a node that leaves.
func PlayLostAt(t *testing.T, n int, fleet func() Fleet) {
	inSchedule(t, uint64(n), fleet, func(s *schedule) { s.playLostAt(n) })
}

func inSchedule(t *testing.T, seed uint64, fleet func() Fleet, play func(*schedule)) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet()
		tm := timing(f.Traits())
		s := &schedule{rng: rand.New(rand.NewPCG(seed, 7)), seed: seed, cut: map[*Agent]bool{}, stopped: map[*Agent]bool{}}
		o := memory.NetOptions{Delay: jitter(seed), SilentAfter: tm.SilentAfter, Silence: tm.Silence, Dial: tm.Dial}
		if s.rng.IntN(3) == 0 {
			o.Repeat = repeat(seed)
		}
		s.wire = memory.NewNet(o)
		s.Rig = newRig(t, f, simulated{s.wire, new(int)}, tm)
		s.name, s.net, s.poll = "s", 1, 50*time.Millisecond
		play(s)
		l := s.runs[s.job.Run]
		l.mu.Lock()
		defer l.mu.Unlock()
		lines = slices.Clone(l.lines)
	})
	return lines
}

// repeat lets one message of eight come twice, half of those late.
func repeat(seed uint64) func(from, to string, n int) (time.Duration, bool) {
	return func(from, to string, n int) (time.Duration, bool) {
		x := uint64(jitter(seed+1)(from, to, n))
		return time.Duration(x%2) * time.Duration(x%500_000_000), x%8 == 0
	}
}

type schedule struct {
	*Rig
	wire    *memory.Net
	rng     *rand.Rand
	seed    uint64
	job     Job
	cut     map[*Agent]bool // at some time
	stopped map[*Agent]bool // got the order to stop
	breaks  bool            // a stream broke
	freezes bool            // an agent did not answer for a while
	apart   bool            // agents that are no longer together end by what each of them knows
}

// randomTime returns a random time below d that no other event has.
func (s *schedule) randomTime(d time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(d)))/1000*1000 + time.Duration(s.rng.IntN(1000))
}

func (s *schedule) pick() *Agent { return s.agents[s.rng.IntN(len(s.agents))] }

func (s *schedule) ledger() *Ledger { return s.runs[s.job.Run] }

// allowDelays notes that from now on an agent may learn late of a failure.
func (s *schedule) allowDelays() {
	l := s.ledger()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prompt = false
}

func (s *schedule) play() {
	most := 1 + s.rng.IntN(5)
	s.job = s.Job(1+s.rng.IntN(most), most)
	s.job.Restarts, s.job.Join, s.job.Grow = s.rng.IntN(4), 15*time.Second, s.rng.IntN(2) == 0
	s.job.Endpoints = []int{1, 1, 3}[s.rng.IntN(3)]
	if s.rng.IntN(2) == 0 {
		s.job.checks = newChecker(s.seed)
	}
	n := max(1, s.job.Min+s.rng.IntN(most-s.job.Min+2))
	if s.seed%4 == 0 && !s.Traits.Fences {
		s.job.OneName, s.job.Endpoints = true, n
	}
	for i := range n {
		time.Sleep(s.randomTime(200 * time.Millisecond))
		s.startNode(i)
	}
	for range s.rng.IntN(6) {
		time.Sleep(s.randomTime(4 * time.Second))
		s.injectFault()
	}
	time.Sleep(20 * time.Second) // every cut has healed by then
	s.ends()
	s.compare()
	s.AwaitClean(s.job)
}

// ends waits until every agent has ended.
func (s *schedule) ends() {
	s.Within(5*time.Minute, fmt.Sprintf("all agents of seed %d end", s.seed), func() bool {
		return !slices.ContainsFunc(s.agents, func(a *Agent) bool {
			return locked(a, func() bool { return !a.crashed && a.outcome == nil })
		})
	})
}

func (s *schedule) startNode(i int) {
	s.Start(s.job, i, func(a *Agent) {
		a.stopTime = s.randomTime(600 * time.Millisecond)
		luck := rand.New(rand.NewPCG(s.seed, uint64(len(s.agents)+100)))
		a.plan = func(rendezvous.World) (time.Duration, int, bool) {
			after, code := time.Duration(luck.Int64N(int64(6*time.Second))), 0
			if luck.IntN(6) == 0 {
				code = 1 + luck.IntN(100)
			}
			return after, code, true
		}
		if s.rng.IntN(8) == 0 {
			left := s.rng.IntN(80)
			a.killBefore = func(rendezvous.Command) bool { left--; return left == 0 }
		}
	})
}

func (s *schedule) injectFault() {
	a, lasts := s.pick(), s.randomTime(10*time.Second)
	switch s.rng.IntN(11) {
	case 0:
		a.Crash()
		if i := s.index(a); s.rng.IntN(3) == 0 && (s.Traits.Fences || i >= s.job.Endpoints) { // at an endpoint that would be a new job
			time.Sleep(s.randomTime(3 * time.Second))
			s.startNode(i)
		}
	case 1, 2:
		s.allowDelays()
		cutFrom := s.rng.IntN(3) // from all, from the backend, from other agents
		others := Without(s.agents, a)
		s.cut[a] = true
		s.separate(a, others, cutFrom, true)
		time.AfterFunc(lasts, func() { s.separate(a, others, cutFrom, false) })
	case 3:
		sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[s.rng.IntN(2)]
		s.stopped[a] = true
		a.signal(sig, s.rng.IntN(4) == 0)
		if s.rng.IntN(3) == 0 {
			time.AfterFunc(s.randomTime(time.Second), func() { a.signal(sig, true) })
		}
	case 4:
		s.startNode(len(s.agents))
	case 5:
		s.allowDelays()
		a.ledger.note("the backend is down for %v", lasts)
		s.Fleet.Halt(true)
		time.Sleep(lasts)
		a.ledger.note("the backend is back")
		s.Fleet.Halt(false)
	case 6: // less than the others wait
		s.freezes = true
		s.freeze(a, lasts/20)
	case 7: // silent for too long is cut off
		s.apart = true
		s.freeze(a, 2*lasts)
	case 8:
		b := s.pick()
		a.ledger.note("the streams between %s and %s break", a.label, b.label)
		s.breaks = true
		s.wire.Reset(a.Node.Control, b.Node.Control)
		s.wire.Reset(b.Node.Control, a.Node.Control)
	case 9:
		agents := slices.Clone(s.agents)
		s.split()
		time.AfterFunc(lasts, func() { s.healNetwork(agents) })
	case 10:
		s.showOldPeers(a)
	}
}

// index returns the number of the node for which an agent was started.
func (s *schedule) index(a *Agent) (i int) {
	_, _ = fmt.Sscanf(a.label, "n%d", &i)
	return i
}

func (s *schedule) freeze(a *Agent, d time.Duration) {
	s.allowDelays()
	a.Freeze(d, s.wire)
	s.Fleet.Cut(a.Node.ID, true)
	time.AfterFunc(d+time.Microsecond, func() { s.Fleet.Cut(a.Node.ID, false) })
}

// split cuts the network in two. The backend is on either side, on both or on none.
func (s *schedule) split() {
	s.allowDelays()
	s.apart = true
	with, without := s.rng.IntN(4) != 0, s.rng.IntN(4) == 0
	group := map[*Agent]bool{}
	for _, i := range s.rng.Perm(len(s.agents))[:1+s.rng.IntN(len(s.agents))] {
		group[s.agents[i]] = true
	}
	s.ledger().note("the network is cut: %d agents on one side", len(group))
	for _, a := range s.agents {
		here := group[a]
		for _, b := range s.agents {
			if here && !group[b] {
				s.wires.Cut(a.Node.Control, b.Node.Control, true)
			}
		}
		if s.Traits.Fences && (here && !with || !here && without) {
			s.Fleet.Cut(a.Node.ID, true)
		}
	}
}

// healNetwork makes one network of all agents again.
func (s *schedule) healNetwork(agents []*Agent) {
	s.ledger().note("the network is whole again")
	for i, a := range agents {
		s.Fleet.Cut(a.Node.ID, false)
		for _, b := range agents[i+1:] {
			s.wires.Cut(a.Node.Control, b.Node.Control, false)
			time.Sleep(time.Microsecond) // no two agents notice at one moment, so that a schedule can be replayed
		}
	}
}

// showOldPeers shows an agent a wrong view for a while: fewer agents, or lost ones as
// well. A fence is never wrong.
func (s *schedule) showOldPeers(a *Agent) {
	if s.Traits.Fences {
		return
	}
	a.ledger.note("%s is shown old peers", a.label)
	peers := func(keep func(*Agent) bool) rendezvous.Peers {
		p := rendezvous.Peers{Candidates: s.candidates()}
		for _, o := range s.agents {
			if o == a || keep(o) {
				p.All = append(p.All, rendezvous.Peer{ID: o.Node.ID, Name: o.Node.Name(), Control: o.Node.Control, Endpoint: o.Node.Endpoint})
			}
		}
		return p
	}
	old := peers(func(*Agent) bool { return s.rng.IntN(3) > 0 })
	for range 1 + s.rng.IntN(3) {
		time.AfterFunc(s.randomTime(time.Second), func() { a.events.Put(old) })
	}
	time.Sleep(1100 * time.Millisecond)
	a.events.Put(peers(func(o *Agent) bool { return locked(o, func() bool { return !o.crashed && o.outcome == nil }) }))
}

// candidates returns how many nodes the job's name stands for; 0: it has none.
func (s *schedule) candidates() (n int) {
	if !s.job.OneName {
		return 0
	}
	for _, a := range s.agents {
		if locked(a, func() bool { return !a.crashed && a.outcome == nil }) {
			n++
		}
	}
	return n
}

// separate cuts an agent off, or reconnects it.
func (s *schedule) separate(a *Agent, others []*Agent, cutFrom int, cut bool) {
	a.ledger.note("%s is cut off (%s): %v", a.label, []string{"from all", "from the backend", "from other agents"}[cutFrom], cut)
	if cutFrom != 2 {
		s.Fleet.Cut(a.Node.ID, cut)
	}
	if cutFrom == 1 {
		return
	}
	for _, b := range others {
		s.wires.Cut(a.Node.Control, b.Node.Control, cut)
	}
}

// compare checks that the members of a job's last world that stayed to its end report
// the same outcome.
func (s *schedule) compare() {
	if s.apart || s.breaks && s.freezes {
		return
	}
	last := map[string]*Agent{} // by job
	for _, a := range s.agents {
		if a.crashed || a.world == nil || s.cut[a] || s.stopped[a] || s.dismissed(a) {
			continue
		}
		if b := last[a.world.Job]; b == nil || a.world.Round > b.world.Round {
			last[a.world.Job] = a
		}
	}
	for _, a := range s.agents {
		if a.crashed || a.world == nil || s.cut[a] || s.stopped[a] || s.dismissed(a) {
			continue
		}
		if b := last[a.world.Job]; b.world.Round == a.world.Round && describe(a.outcome) != describe(b.outcome) {
			s.Errorf("seed %d: %s ended with %s, %s with %s", s.seed, a.label, describe(a.outcome), b.label, describe(b.outcome))
		}
	}
}

// dismissed reports whether an agent may have been dismissed as unfit.
func (s *schedule) dismissed(a *Agent) bool {
	return s.job.checks != nil && s.job.checks.dismissed[a.Node.ID]
}

// playHealed does the work of PlayHealed.
func (s *schedule) playHealed() {
	n := 2 + s.rng.IntN(5)
	s.job = s.Job(1+s.rng.IntN(n), n)
	s.job.Restarts, s.job.Grow, s.job.Endpoints = 10, true, 1+s.rng.IntN(min(n, 3))
	ends := time.Now().Add(2 * time.Minute)
	for i := range n {
		s.Start(s.job, i, func(a *Agent) {
			a.plan = func(rendezvous.World) (time.Duration, int, bool) { return time.Until(ends), 0, true }
		})
	}
	time.Sleep(3*time.Second + s.randomTime(4*time.Second))
	s.split()
	time.Sleep(s.randomTime(25 * time.Second))
	s.healNetwork(s.agents)
	s.ends()
	last := s.agents[0].world
	for _, a := range s.agents {
		if a.outcome.Code != 0 || a.world == nil || a.world.Digest() != last.Digest() || len(a.world.Members) != n {
			s.Errorf("seed %d: %s of %d nodes", s.seed, a, n)
		}
	}
}

// playLostAt does the work of PlayLostAt.
func (s *schedule) playLostAt(n int) {
	s.job = s.Job(2, 4)
	s.job.Restarts, s.job.Grow = 3, true
	var once sync.Mutex
	var first *Agent
	for i := range 5 {
		s.Start(s.job, i, func(a *Agent) {
			left := n
			a.plan = func(w rendezvous.World) (time.Duration, int, bool) {
				code := 0
				if i == 2 && w.Round == 0 {
					code = 5
				}
				return 300 * time.Millisecond, code, true
			}
			a.killBefore = func(c rendezvous.Command) bool {
				once.Lock()
				defer once.Unlock()
				if _, leads := c.(rendezvous.Lead); first == nil && (leads || !s.Traits.Fences && i == 0) {
					first = a
				}
				if first == a {
					left--
				}
				return left == 0
			}
		})
	}
	time.Sleep(900 * time.Millisecond)
	s.stopped[s.agents[3]] = true
	s.agents[3].StopJob(syscall.SIGTERM)
	s.ends()
	s.compare()
}
