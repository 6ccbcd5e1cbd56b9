package e2e_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

var (
	chaosTime = flag.Duration("chaos.time", 0, "how long TestChaos breaks jobs (10 s, with CI=true 60 s)")
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of TestChaos's first job (random; with CI=true 1000)")
)

// chaosLimit bounds the time in which a job ends once nothing is broken any more. It
// has room to meet, to miss etcd and to stop, on a busy machine.
const chaosLimit = 90 * time.Second

// TestChaos checks that whatever is killed, stopped or cut, a job ends and leaves no
// process behind. It never has two worlds in one round, or workers of two rounds on a
// node. All agents that survive report the same cause.
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	switch {
	case seed != 0:
	case os.Getenv("CI") == "true": // CI begins with a fixed seed, so that only a change can fail it; a laptop tries others
		seed = 1000
	default:
		seed = rand.Uint64N(1e9)
	}
	span := *chaosTime
	switch {
	case span > 0:
	case os.Getenv("CI") == "true":
		span = time.Minute
	default:
		span = 10 * time.Second
	}
	var cluster *etcdtest.Cluster
	for end := time.Now().Add(span); time.Now().Before(end) && !t.Failed(); seed++ {
		p := newPlan(seed)
		if p.etcd && cluster == nil {
			c, err := etcdtest.Launch(t.TempDir(), etcdtest.Options{Members: 3})
			need(t, err == nil, fmt.Sprint(err))
			t.Cleanup(c.Close)
			cluster = c
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Log(p)
			newChaosJob(t, p, cluster).runPlan()
		})
	}
	if cluster != nil && !t.Failed() {
		eventually(t, 2*longWait, "nothing is left in etcd", func() bool { return len(keysIn(t, cluster)) == 0 })
	}
}

// plan describes a job and how the test breaks it.
type plan struct {
	rnd      *rand.Rand
	etcd     bool
	lan      bool // true: the hosts have links that can be cut
	min, max int  // number of nodes
	hosts    int  // number of hosts; those beyond max are spares
	workers  int  // workers of each node
	restarts int
	stubborn bool // true: workers ignore SIGTERM
	actions  int
}

func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := plan{rnd: r, etcd: r.IntN(2) == 0, lan: r.IntN(3) > 0 && os.Getuid() == 0, max: 2 + r.IntN(3), workers: 1 + r.IntN(2), stubborn: r.IntN(4) == 0}
	p.min = p.max
	if r.IntN(2) == 0 {
		p.min = max(1, p.max-1-r.IntN(2))
	}
	p.hosts, p.restarts, p.actions = p.max+r.IntN(3), r.IntN(10), 2+r.IntN(8)
	return p
}

func (p plan) String() string {
	backend, where := "gossip", "loopback"
	if p.etcd {
		backend = "etcd"
	}
	if p.lan {
		where = "lan"
	}
	return fmt.Sprintf("%s, %s, %d to %d nodes on %d hosts, %d workers, %d restarts, %d actions, stubborn %v", backend, where, p.min, p.max, p.hosts, p.workers, p.restarts, p.actions, p.stubborn)
}

// runPlan runs the job from its start to its end, and checks the result.
func (a *chaosJob) runPlan() {
	for h := 1; h <= a.hosts; h++ {
		a.start(h)
		if a.rnd.IntN(2) == 0 {
			a.waitUpTo(time.Second / 2)
		}
	}
	a.waitUpTo(3 * time.Second)
	for range a.actions {
		a.disturb()
		a.waitUpTo(2 * time.Second)
	}
	for len(a.undoActions) > 0 { // continue what was stopped, join what was cut
		a.waitUpTo(time.Second)
	}
	a.note("the disturbance is over")
	a.waitUpTo(3 * time.Second)
	a.touch("go")
	deadline := time.Now().Add(chaosLimit)
	for _, p := range a.all {
		p.wait(time.Until(deadline))
	}
	a.checkEnd()
}

// checkEnd asserts what must hold after the job has ended.
func (a *chaosJob) checkEnd() {
	a.checkWorldsAgree()
	for _, o := range readNotes[overlap](a.dir, "overlap.*") {
		switch {
		case o.New.Round == o.Old.Round:
			a.Errorf("two worlds in one round: %v", o)
		case o.New.Node == o.Old.Node:
			a.Errorf("two rounds on a node: %v", o)
		case !a.hasStopped && (a.plan.etcd || !a.hasCut):
			a.Errorf("two rounds at once: %v", o)
		}
	}
	for _, p := range a.all {
		a.Logf("%s started %v: exit code %d, %s; %s", p.name, p.startedAt.Round(time.Millisecond), p.code, p.faults, p.lastLine())
		if !slices.Contains([]int{0, 5, 75, 137}, p.code) && p.faults == "" {
			a.Errorf("%s: exit code %d", p.name, p.code)
		}
	}
	if gap := a.longestPause(); gap > time.Second { // then nodes may have lost each other without a cut
		a.Logf("this machine stood still for %v: the causes of the nodes are not compared", gap)
		return
	}
	for _, same := range a.groupByJob() {
		same = slices.DeleteFunc(same, func(p *chaosAgent) bool { return p.faults != "" }) // agents that the test did nothing to
		for i, p := range same {
			switch first := same[0]; {
			case i > 0 && first.code != p.code:
				a.Errorf("%s ended with %d, %s with %d", first.name, first.code, p.name, p.code)
			case i > 0 && p.code != 0 && first.lastLine() != p.lastLine():
				a.Errorf("%s says:\n%s\n%s says:\n%s", first.name, first.lastLine(), p.name, p.lastLine())
			}
		}
	}
}

// groupByJob groups the agents by job. When a job has ended, agents that start later make
// another one. An agent that never had a place is in no group.
func (a *chaosJob) groupByJob() [][]*chaosAgent {
	var jobs [][]*chaosAgent
	var worlds []map[string]bool
	for _, p := range a.all {
		mine, members := map[string]bool{}, []*chaosAgent{p}
		for line := range strings.Lines(p.out.String()) {
			if _, token, ok := strings.Cut(strings.TrimSpace(line), ", world "); ok {
				mine[token] = true
			}
		}
		if len(mine) == 0 {
			continue
		}
		for i := len(jobs) - 1; i >= 0; i-- {
			common := false
			for token := range worlds[i] {
				common = common || mine[token]
			}
			if common {
				maps.Copy(mine, worlds[i])
				members = append(jobs[i], members...)
				jobs, worlds = slices.Delete(jobs, i, i+1), slices.Delete(worlds, i, i+1)
			}
		}
		jobs, worlds = append(jobs, members), append(worlds, mine)
	}
	return jobs
}

// watchMachine measures the longest time for which the machine let no process run.
func watchMachine(t *testing.T) func() time.Duration {
	var most atomic.Int64
	go func() {
		const every = 50 * time.Millisecond
		tick := time.NewTicker(every)
		defer tick.Stop()
		for last := time.Now(); t.Context().Err() == nil; {
			<-tick.C
			now := time.Now()
			most.Store(max(most.Load(), int64(now.Sub(last)-every)))
			last = now
		}
	}()
	return func() time.Duration { return time.Duration(most.Load()) }
}
