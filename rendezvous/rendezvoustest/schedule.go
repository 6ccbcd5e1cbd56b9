package rendezvoustest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Play plays a job in virtual time in which everything that can go wrong does so
// at random: nodes come late and too many, are killed between any two commands,
// are cut off from each other and from the backend, workers fail, jobs are
// stopped, the backend is away. All comes from the seed. It returns what happened.
func Play(t *testing.T, seed uint64, fleet func() Fleet) (lines []string) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet()
		tm := timing(f.Traits())
		s := &schedule{
			Rig: newRig(t, f, simulate(tm, jitter(seed)), tm), rng: rand.New(rand.NewPCG(seed, 7)), seed: seed,
			cut: map[*Agent]bool{}, stopped: map[*Agent]bool{},
		}
		s.name, s.net = "s", 1
		s.play()
		l := s.runs[s.job.Run]
		l.mu.Lock()
		defer l.mu.Unlock()
		lines = slices.Clone(l.lines)
	})
	return lines
}

type schedule struct {
	*Rig
	rng     *rand.Rand
	seed    uint64
	job     Job
	cut     map[*Agent]bool // at any time
	stopped map[*Agent]bool // was told to stop
}

// some is a random time below d that is nobody else's.
func (s *schedule) some(d time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(d)))/1000*1000 + time.Duration(s.rng.IntN(1000))
}

func (s *schedule) pick() *Agent { return s.agents[s.rng.IntN(len(s.agents))] }

func (s *schedule) play() {
	most := 1 + s.rng.IntN(5)
	s.job = s.Job(1+s.rng.IntN(most), most)
	s.job.Restarts, s.job.Join, s.job.Grow = s.rng.IntN(4), 15*time.Second, s.rng.IntN(2) == 0
	s.job.Endpoints = []int{1, 1, 3}[s.rng.IntN(3)]
	n := max(1, s.job.Min+s.rng.IntN(most-s.job.Min+2))
	for i := range n {
		time.Sleep(s.some(200 * time.Millisecond))
		s.enter(i)
	}
	for range s.rng.IntN(6) {
		time.Sleep(s.some(4 * time.Second))
		s.fault()
	}
	time.Sleep(20 * time.Second) // every cut has healed by then
	s.Within(5*time.Minute, fmt.Sprintf("all agents of seed %d end", s.seed), func() bool {
		return !slices.ContainsFunc(s.agents, func(a *Agent) bool {
			return look(a, func() bool { return !a.crashed && a.outcome == nil })
		})
	})
	s.compare()
	s.Nothing(s.job)
}

func (s *schedule) enter(i int) {
	s.Start(s.job, i, func(a *Agent) {
		a.takes = s.some(600 * time.Millisecond)
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
			a.fuse = func(rendezvous.Command) bool { left--; return left == 0 }
		}
	})
}

func (s *schedule) fault() {
	a, lasts := s.pick(), s.some(10*time.Second)
	away := s.rng.IntN(3) // from all, from the backend, from other agents
	switch s.rng.IntN(6) {
	case 0:
		a.Crash()
	case 1, 2:
		others := But(s.agents, a)
		s.cut[a] = true
		s.part(a, others, away, true)
		time.AfterFunc(lasts, func() { s.part(a, others, away, false) })
	case 3:
		sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[s.rng.IntN(2)]
		s.stopped[a] = true
		a.StopJob(sig)
	case 4:
		s.enter(len(s.agents))
	case 5:
		a.ledger.note("the backend is away for %v", lasts)
		s.Fleet.Halt(true)
		time.Sleep(lasts)
		a.ledger.note("the backend is back")
		s.Fleet.Halt(false)
	}
}

// part cuts an agent off, or mends that.
func (s *schedule) part(a *Agent, others []*Agent, away int, cut bool) {
	a.ledger.note("%s is cut off (%s): %v", a.label, []string{"from all", "from the backend", "from other agents"}[away], cut)
	if away != 2 {
		s.Fleet.Cut(a.Node.ID, cut)
	}
	if away == 1 {
		return
	}
	for _, b := range others {
		s.wires.Cut(a.Node.Control, b.Node.Control, cut)
	}
}

// compare: the members of a job's last world that were there to its end tell the
// same of it.
func (s *schedule) compare() {
	last := map[string]*Agent{} // by job
	for _, a := range s.agents {
		if a.crashed || a.world == nil || s.cut[a] || s.stopped[a] {
			continue
		}
		if b := last[a.world.Job]; b == nil || a.world.Round > b.world.Round {
			last[a.world.Job] = a
		}
	}
	for _, a := range s.agents {
		if a.crashed || a.world == nil || s.cut[a] || s.stopped[a] {
			continue
		}
		if b := last[a.world.Job]; b.world.Round == a.world.Round && told(a.outcome) != told(b.outcome) {
			s.Errorf("seed %d: %s ended with %s, %s with %s", s.seed, a.label, told(a.outcome), b.label, told(b.outcome))
		}
	}
}
