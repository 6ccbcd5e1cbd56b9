package rendezvoustest

import (
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
)

// Rig is the place where one case is played.
type Rig struct {
	testing.TB
	Fleet  Fleet
	Traits Traits
	Timing Timing

	wires  Wiring
	net    int // of this rig's addresses 127.net.RUN.NODE
	poll   time.Duration
	name   string
	seq    int // of agents
	jobs   int
	runs   map[string]*Ledger
	agents []*Agent
	ctx    context.Context
}

// Job is the configuration that all agents of a run share.
type Job struct {
	Run       string // run id
	Min, Max  int
	Restarts  int
	Endpoints int // nodes that serve an endpoint, where the backend has endpoints; 1 for 0
	// OneName makes one name stand for all nodes, where the backend can show that. The
	// first Endpoints nodes serve it.
	OneName  bool
	Join     time.Duration
	LastCall time.Duration
	Grow     bool
	StopTime time.Duration // to stop workers

	checks *checker // compares the nodes; nil: they are not compared
	number int      // of the rig's jobs
}

// host returns the address of each node of a job, one of its own.
func (j Job) host(r *Rig) func(int) string {
	return func(i int) string { return fmt.Sprintf("127.%d.%d.%d", r.net, j.number, 1+i) }
}

func newRig(t testing.TB, f Fleet, wires Wiring, tm Timing) *Rig {
	r := &Rig{
		TB: t, Fleet: f, Traits: f.Traits(), Timing: tm, wires: wires, net: 64 + mrand.IntN(128), poll: 2 * time.Millisecond,
		name: strings.ToLower(rand.Text()[:8]), runs: map[string]*Ledger{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.ctx = ctx
	t.Cleanup(func() {
		cancel()
		for _, a := range r.agents {
			<-a.ended
		}
		for run, l := range r.runs {
			l.mu.Lock()
			for _, b := range l.broken {
				t.Errorf("%s: %s", run, b)
			}
			if t.Failed() {
				t.Logf("run %s:\n%s", run, strings.Join(l.lines, "\n"))
			}
			l.mu.Unlock()
		}
	})
	return r
}

// Job makes a job of n to m nodes with an id of its own.
func (r *Rig) Job(least, most int) Job {
	r.jobs++
	return Job{Run: fmt.Sprintf("%s-%d", r.name, r.jobs), number: r.jobs, Min: least, Max: most, Join: 30 * time.Second, LastCall: 500 * time.Millisecond, StopTime: 20 * time.Millisecond}
}

// Start starts the agent of the i-th node of a job. It waits for Ready if it must.
// shape may change the node before.
func (r *Rig) Start(j Job, i int, shape ...func(*Agent)) *Agent {
	r.Helper()
	l := r.runs[j.Run]
	if l == nil {
		l = newLedger(r.Traits.Fences)
		r.runs[j.Run] = l
	}
	r.seq++
	host := j.host(r)(i)
	a := &Agent{
		Node: rendezvous.Node{
			ID: rendezvous.NodeID(fmt.Sprintf("%s%03d", r.name, r.seq)), RunID: j.Run, Protocol: rendezvous.Protocol, Version: "test",
			Host: fmt.Sprintf("n%d", i), Addr: host, Store: host + ":2", Workers: 1, NodeRank: -1, Endpoint: -1, Min: j.Min, Max: j.Max,
		},
		label: fmt.Sprintf("n%d", i), ledger: l, events: drive.NewQueue[rendezvous.Event](), ended: make(chan struct{}),
		behaviour: behaviour{stopTime: j.StopTime, killTime: 5 * time.Millisecond},
	}
	a.events.Put(rendezvous.Ready{})
	for _, f := range shape {
		f(a)
	}
	if a.checks = j.checks; a.checks != nil {
		a.checks.gatherFacts(a)
	}
	end, err := r.wires.Attach(host, a.events.Put)
	if err != nil {
		r.Fatal(err)
	}
	a.end, a.Node.Control = end, end.Addr()
	if a.backend, err = r.Fleet.Open(Seat{Node: &a.Node, Index: i, Endpoints: max(1, j.Endpoints), OneName: j.OneName, Host: j.host(r)}); err != nil {
		r.Fatal(err)
	}
	fence, fences := a.backend.(rendezvous.Fence)
	if fences != r.Traits.Fences {
		r.Fatalf("the backend fences: %v", fences)
	}
	a.killed = func() { r.Fleet.Kill(a.Node.ID) }
	l.mu.Lock()
	l.labels[a.Node.ID] = a.label
	l.mu.Unlock()
	l.note("%s starts (%s)", a.label, a.Node.Control)
	jobs, endpoints := 0, max(1, j.Endpoints)
	if j.OneName {
		endpoints = 1
	}
	m := rendezvous.New(rendezvous.Config{
		Self: a.Node, MaxRestarts: j.Restarts, Endpoints: endpoints, Where: "here", Takeover: true, Fenced: fences, Grow: j.Grow, Check: j.checks != nil,
		Timeouts: rendezvous.Timeouts{Join: j.Join, LastCall: j.LastCall, Rejoin: r.Timing.Rejoin, Retry: 50 * time.Millisecond},
		Token:    func() string { jobs++; return fmt.Sprintf("%s.%d", a.Node.ID, jobs) },
	}, time.Now())
	a.machine = &drive.Machine{Machine: m, Streams: end, Fence: fence, Post: a.events.Put, Wait: &a.wg}
	ctx, cancel := context.WithCancel(r.ctx)
	a.stop = cancel
	r.agents = append(r.agents, a)
	go a.run(ctx)
	return a
}

// Team starts the first n nodes of a job, in this order.
func (r *Rig) Team(j Job, n int, shape ...func(*Agent)) []*Agent {
	r.Helper()
	var as []*Agent
	for i := range n {
		as = append(as, r.Start(j, i, shape...))
	}
	return as
}

// Cut cuts the streams between two groups, or lets them go on.
func (r *Rig) Cut(as, bs []*Agent, cut bool) {
	for _, a := range as {
		a.ledger.note("%s is cut off from %d others: %v", a.label, len(bs), cut)
		for _, b := range bs {
			r.wires.Cut(a.Node.Control, b.Node.Control, cut)
		}
	}
}

// Divide is Cut, and cuts the first group off from the backend as well, where the
// fleet can do that.
func (r *Rig) Divide(as, bs []*Agent, cut bool) {
	r.Cut(as, bs, cut)
	for _, a := range as {
		if r.Traits.Cuts {
			r.Fleet.Cut(a.Node.ID, cut)
		}
	}
}

// Await waits for a condition.
func (r *Rig) Await(what string, ok func() bool) {
	r.Helper()
	r.Within(r.Timing.Limit, what, ok)
}

// Within waits for a condition for some time.
func (r *Rig) Within(limit time.Duration, what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(r.poll) {
		if time.Now().After(end) {
			var lines []string
			for _, a := range r.agents {
				lines = append(lines, a.String())
			}
			r.Fatalf("not within %v: %s\n%s", limit, what, strings.Join(lines, "\n"))
		}
	}
}

// World waits until exactly these agents run one world of a round from least on.
func (r *Rig) World(least int, as ...*Agent) rendezvous.World {
	r.Helper()
	var w *rendezvous.World
	r.Await(fmt.Sprintf("a world of %d nodes in round %d or later", len(as), least), func() bool {
		w = as[0].Running()
		return w != nil && w.Round >= least && len(w.Members) == len(as) && !slices.ContainsFunc(as, func(a *Agent) bool {
			o := a.Running()
			return o == nil || o.Digest() != w.Digest() || w.Index(a.Node.ID) < 0
		})
	})
	return *w
}

// End waits until all these agents have ended, with the same outcome.
func (r *Rig) End(as ...*Agent) rendezvous.Outcome {
	r.Helper()
	r.Await("the end", func() bool {
		return !slices.ContainsFunc(as, func(a *Agent) bool { return a.Outcome() == nil })
	})
	first := as[0].Outcome()
	for _, a := range as {
		if o := a.Outcome(); o.Code != first.Code || describe(o) != describe(first) {
			r.Errorf("%s ended with %s, %s with %s", as[0].label, describe(first), a.label, describe(o))
		}
	}
	return *first
}

// Success lets all workers succeed and waits for the end.
func (r *Rig) Success(as ...*Agent) {
	r.Helper()
	for _, a := range as {
		a.Done()
	}
	if o := r.End(as...); o.Code != 0 {
		r.Errorf("ended with %s, not with success", describe(&o))
	}
}

// Coordinator returns the agent among these that coordinates the world or, before the
// first world, makes the others wait.
func (r *Rig) Coordinator(as ...*Agent) *Agent {
	r.Helper()
	var c *Agent
	r.Await("a coordinator", func() bool {
		for _, a := range as {
			w := a.Running()
			leads := locked(a, func() bool { return a.leads })
			if w == nil && leads || w != nil && w.Coordinator == a.Node.ID {
				c = a
				return true
			}
		}
		return false
	})
	return c
}

// Without returns all of these agents without some.
func Without(as []*Agent, without ...*Agent) []*Agent {
	return slices.DeleteFunc(slices.Clone(as), func(a *Agent) bool { return slices.Contains(without, a) })
}

// AwaitClean waits until the backend has forgotten the run.
func (r *Rig) AwaitClean(j Job) { r.Helper(); r.awaitClean(j, 0) }

// awaitClean is AwaitClean with more time.
func (r *Rig) awaitClean(j Job, longer time.Duration) {
	r.Helper()
	var left []string
	r.Within(r.Traits.TTL*3+5*time.Second+longer, "nothing is left in the backend", func() bool {
		var err error
		left, err = r.Fleet.Leftovers(j.Run)
		if err != nil {
			left = []string{err.Error()}
		}
		return len(left) == 0
	})
}
