package rendezvoustest

import (
	"slices"
	"syscall"
	"time"
)

// fencing returns the cases that only a Fence can promise to a whole job. See also
// fencePromises.
func fencing() []testCase {
	all := []testCase{
		cutOffCase("a member is cut off from everything", func(c *Agent, as []*Agent) *Agent { return Without(as, c)[0] }),
		cutOffCase("the coordinator is cut off from everything", func(c *Agent, _ []*Agent) *Agent { return c }),
		{name: "a node is cut off from the backend alone", fences: true, cuts: true, play: func(r *Rig) {
			j := r.Job(3, 3)
			j.Restarts = 1
			as := r.Team(j, 3)
			w := r.World(0, as...)
			r.Fleet.Cut(as[2].Node.ID, true)
			r.Await("its membership is not confirmed", func() bool { return locked(as[2], func() bool { return as[2].unconfirmed }) })
			time.Sleep(r.Traits.TTL)
			if v := r.World(0, as...); v.Round != w.Round {
				r.Errorf("round %d ended although all are connected", w.Round)
			}
			r.Fleet.Cut(as[2].Node.ID, false)
			r.Await("its membership is confirmed", func() bool { return locked(as[2], func() bool { return !as[2].unconfirmed }) })
			as[0].Fail(3)
			r.World(w.Round+1, as...)
			r.Success(as...)
			r.AwaitClean(j)
		}},
		{name: "the backend is down while nodes meet", fences: true, halts: true, play: func(r *Rig) {
			j := r.Job(2, 2)
			first := r.Start(j, 0)
			r.Await("the first node coordinates", func() bool { return showsCame([]*Agent{first}, 1) })
			r.Fleet.Halt(true)
			second := r.Start(j, 1)
			time.Sleep(2 * r.Traits.TTL)
			if first.Running() != nil || second.Running() != nil {
				r.Error("a world was sealed without the backend")
			}
			r.Fleet.Halt(false)
			r.World(0, first, second)
			r.Success(first, second)
			r.AwaitClean(j)
		}},
		{name: "the backend is down while workers run", fences: true, halts: true, play: func(r *Rig) {
			j := r.Job(3, 3)
			j.Restarts = 2
			as := r.Team(j, 3)
			w := r.World(0, as...)
			r.Fleet.Halt(true)
			r.Await("no membership is confirmed", func() bool {
				return !slices.ContainsFunc(as, func(a *Agent) bool { return locked(a, func() bool { return !a.unconfirmed }) })
			})
			time.Sleep(2 * r.Traits.TTL)
			if v := r.World(0, as...); v.Round != w.Round {
				r.Errorf("round %d ended although all are connected", w.Round)
			}
			as[1].Fail(3)
			r.Await("the next round waits for the backend", func() bool { return phase(as[0]) == "sealing" })
			time.Sleep(r.Traits.TTL / 2)
			if as[0].Running() != nil {
				r.Error("a round was sealed without the backend")
			}
			r.Fleet.Halt(false)
			r.World(w.Round+1, as...)
			r.Success(as...)
			r.AwaitClean(j)
		}},
		{name: "the backend is down when a job ends", fences: true, halts: true, play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 3)
			r.World(0, as...)
			r.Fleet.Halt(true)
			as[2].StopJob(syscall.SIGINT)
			o := r.End(as...)
			r.Fleet.Halt(false)
			if o.Code != 128+int(syscall.SIGINT) {
				r.Errorf("ended with %s", describe(&o))
			}
			r.AwaitClean(j)
		}},
	}
	return append(all, fencePromises()...)
}

// cutOffCase cuts one agent of four off, from the others and from the backend. Its
// workers take far longer to stop than its membership lasts.
func cutOffCase(name string, pick func(coordinator *Agent, as []*Agent) *Agent) testCase {
	return testCase{name: name, fences: true, cuts: true, play: func(r *Rig) {
		j := r.Job(3, 4)
		j.Restarts, j.Join = 2, 4*r.Timing.Silence
		as := r.Team(j, 4)
		w := r.World(0, as...)
		odd := pick(r.Coordinator(as...), as)
		rest := Without(as, odd)
		odd.mu.Lock()
		odd.stopTime = time.Hour
		odd.mu.Unlock()
		r.Cut([]*Agent{odd}, rest, true)
		r.Fleet.Cut(odd.Node.ID, true)
		v := r.World(w.Round+1, rest...)
		l := odd.ledger
		l.mu.Lock()
		over := l.spans[odd.Node.ID][0].Over
		for _, a := range rest {
			s := l.spans[a.Node.ID]
			if begin := s[len(s)-1].Begin; s[len(s)-1].Round == v.Round && (over.IsZero() || begin.Before(over)) {
				r.Errorf("%s began round %d at %v, the workers that were cut off ended at %v", a.label, v.Round, begin, over)
			}
		}
		l.mu.Unlock()
		r.Success(rest...)
		if o := r.End(odd); o.Code == 0 {
			r.Errorf("the node that was cut off ended with %s", describe(&o))
		}
		r.Fleet.Cut(odd.Node.ID, false)
		r.AwaitClean(j)
	}}
}
