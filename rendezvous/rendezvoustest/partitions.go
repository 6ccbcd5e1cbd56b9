package rendezvoustest

import (
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// partitions returns the cases of cuts of the network between nodes.
func partitions() []testCase {
	// divided runs a job of five agents and cuts two of them off.
	divided := func(r *Rig, j Job, withLeader bool) (w rendezvous.World, as, few, many []*Agent) {
		as = r.Team(j, 5)
		w = r.World(0, as...)
		c := r.Coordinator(as...)
		few = Without(as, c)[:2]
		if withLeader {
			few = []*Agent{c, Without(as, c)[0]}
		}
		many = Without(as, few...)
		r.Divide(few, many, true)
		return w, as, few, many
	}
	stopped := func(r *Rig, few []*Agent) {
		r.Await("the smaller part has stopped its workers", func() bool { return few[0].Running() == nil && few[1].Running() == nil })
	}
	apart := func(name string, withLeader bool) testCase {
		return testCase{name: name, play: func(r *Rig) {
			j := r.Job(2, 5)
			j.Restarts, j.Join = 2, 4*r.Timing.Silence
			w, _, few, many := divided(r, j, withLeader)
			v := r.World(w.Round+1, many...)
			stopped(r, few)
			r.Success(many...)
			r.Divide(few, many, false)
			for _, a := range few {
				if o := r.End(a); o.Code == 0 || a.Running() != nil {
					r.Errorf("%s of the smaller part ended with %s", a.label, describe(&o))
				}
			}
			if v.Job != w.Job {
				r.Errorf("job %s became %s", w.Job, v.Job)
			}
			r.AwaitClean(j)
		}}
	}
	healed := func(name string, withLeader bool) testCase {
		return testCase{name: name, play: func(r *Rig) {
			j := r.Job(2, 5)
			j.Restarts, j.Join, j.Grow = 5, 10*r.Timing.Silence, true
			w, as, few, many := divided(r, j, withLeader)
			v := r.World(w.Round+1, many...)
			stopped(r, few)
			r.Divide(few, many, false)
			r.World(v.Round+1, as...)
			r.Success(as...)
			r.AwaitClean(j)
		}}
	}
	return []testCase{
		apart("the coordinator is in the larger part", false),
		apart("the coordinator is in the smaller part", true),
		healed("a healed cut, the coordinator was in the larger part", false),
		healed("a healed cut, the coordinator was in the smaller part", true),
		{name: "a cut that heals in time", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 3)
			w := r.World(0, as...)
			c := r.Coordinator(as...)
			others := Without(as, c)
			r.Cut([]*Agent{c}, others, true)
			others[0].Done() // learns of it late
			time.Sleep(r.Timing.SilentAfter / 2)
			r.Cut([]*Agent{c}, others, false)
			r.Success(as...)
			if len(c.Outcome().Rounds) != 1 || c.Outcome().Rounds[0].World.Round != w.Round {
				r.Errorf("%d rounds", len(c.Outcome().Rounds))
			}
			r.AwaitClean(j)
		}},
		{name: "cut while the world is proposed", play: func(r *Rig) {
			j := r.Job(2, 3)
			j.LastCall = 200 * time.Millisecond
			as := []*Agent{r.Start(j, 0), r.Start(j, 1), r.Start(j, 2, unready)}
			r.Await("the slow node is waited for", func() bool { return phase(as[0]) == "accepting" || phase(as[1]) == "accepting" })
			c := r.Coordinator(as...)
			if c == as[2] {
				r.Skip("the slow node coordinates")
			}
			slow, fast := as[2:], as[:2]
			r.Divide(slow, fast, true)
			as[2].Ready()
			r.World(0, fast...)
			r.Divide(slow, fast, false)
			r.Await("the slow node waits for a place", func() bool { return phase(as[2]) == "running" })
			r.Success(fast...)
			if o := r.End(as[2]); o.Code != 0 && o.Code != rendezvous.ExitRendezvous {
				r.Errorf("the slow node ended with %s", describe(&o))
			}
			r.AwaitClean(j)
		}},
	}
}

// refusing returns the cases in which a node cannot take part, learns why, and harms
// no other node.
func refusing() []testCase {
	refuse := func(name, want string, shape func(*Agent)) testCase {
		return testCase{name: name, play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 2)
			r.Await("both wait", func() bool { return showsCame(as, 2) })
			odd := r.Start(j, 7, shape)
			o := r.End(odd)
			if o.Code != rendezvous.ExitRendezvous || !strings.Contains(o.Cause.Message, want) {
				r.Errorf("ended with %s, which does not say %q", describe(&o), want)
			}
			as = append(as, r.Start(j, 2))
			r.World(0, as...)
			r.Success(as...)
			r.AwaitClean(j)
		}}
	}
	return []testCase{
		refuse("another protocol", "speaks protocol", func(a *Agent) { a.Node.Protocol++ }),
		refuse("another --nnodes", "--nnodes", func(a *Agent) { a.Node.Min, a.Node.Max = 1, 5 }),
		{name: "one node rank twice", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 2, func(a *Agent) { a.Node.NodeRank = int(a.label[1] - '0') })
			r.Await("both wait", func() bool { return showsCame(as, 2) })
			odd := r.Start(j, 7, func(a *Agent) { a.Node.NodeRank = 1 })
			if o := r.End(odd); o.Code != rendezvous.ExitRendezvous || !strings.Contains(o.Cause.Message, "is taken by n1") {
				r.Errorf("ended with %s", describe(&o))
			}
			as = append(as, r.Start(j, 2))
			r.World(0, as...)
			r.Success(as...)
		}},
	}
}
