package rendezvoustest

import (
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// elastic returns the cases of spares, growth and shrinking.
func elastic() []testCase {
	return []testCase{
		{name: "last call", play: func(r *Rig) {
			j := r.Job(2, 4)
			as := r.Team(j, 3)
			r.World(0, as...)
			r.Success(as...)
			j = r.Job(2, 3)
			j.LastCall = 20 * time.Second
			as = r.Team(j, 2)
			r.Await("two wait", func() bool { return showsCame(as, 2) })
			as = append(as, r.Start(j, 2)) // full: it waits for no other node
			r.Within(10*time.Second, "the third node ends the last call", func() bool { return as[2].Running() != nil })
			r.World(0, as...)
			r.Success(as...)
			r.AwaitClean(j)
		}},
		{name: "a spare takes the place of a lost node", play: func(r *Rig) {
			j := r.Job(4, 4)
			j.Restarts = 1
			as := r.Team(j, 4)
			w := r.World(0, as...)
			spare := r.Start(j, 4)
			r.Await("the spare knows the job", func() bool { return phase(spare) == "running" })
			if spare.Running() != nil {
				r.Errorf("the spare runs")
			}
			lost := Without(as, r.Coordinator(as...))[1]
			lost.Crash()
			all := append(Without(as, lost), spare)
			v := r.World(w.Round+1, all...)
			for _, a := range as {
				if a != lost && v.Index(a.Node.ID) != w.Index(a.Node.ID) {
					r.Errorf("%s has another rank: %s, before %s", a.label, ranks(v), ranks(w))
				}
			}
			if v.Index(spare.Node.ID) != w.Index(lost.Node.ID) {
				r.Errorf("the spare has not the lost node's rank: %s, before %s", ranks(v), ranks(w))
			}
			r.Success(all...)
			r.AwaitClean(j)
		}},
		{name: "a spare that is not needed", play: func(r *Rig) {
			j := r.Job(2, 2)
			as := r.Team(j, 2)
			r.World(0, as...)
			spare := r.Start(j, 2)
			r.Await("the spare knows the job", func() bool { return phase(spare) == "running" })
			for _, a := range as {
				a.Done()
			}
			if o := r.End(append(as, spare)...); o.Code != 0 {
				r.Errorf("ended with %s", describe(&o))
			}
			r.AwaitClean(j)
		}},
		{name: "grows when a node comes", play: func(r *Rig) {
			j := r.Job(2, 3)
			j.Grow = true
			as := r.Team(j, 2)
			w := r.World(0, as...)
			as = append(as, r.Start(j, 2))
			v := r.World(w.Round+1, as...)
			if v.Restart != 0 || ranks(v) != "[n0 n1 n2]" {
				r.Errorf("restart %d, %s", v.Restart, ranks(v))
			}
			r.Success(as...)
			r.AwaitClean(j)
		}},
		{name: "shrinks", play: func(r *Rig) {
			j := r.Job(2, 4)
			j.Restarts = 2
			as := r.Team(j, 4)
			w := r.World(0, as...)
			lost := Without(as, r.Coordinator(as...))[0]
			lost.Crash()
			rest := Without(as, lost)
			v := r.World(w.Round+1, rest...)
			for i, a := range rest {
				if v.Index(a.Node.ID) != i {
					r.Errorf("the order has changed: %s, before %s", ranks(v), ranks(w))
				}
			}
			r.Success(rest...)
			r.AwaitClean(j)
		}},
		{name: "shrinks below the minimum", play: func(r *Rig) {
			j := r.Job(3, 4)
			j.Restarts, j.Join = 2, 4*time.Second
			as := r.Team(j, 4)
			r.World(0, as...)
			c := r.Coordinator(as...)
			lost := Without(as, c)[:2]
			lost[0].Crash()
			lost[1].Crash()
			o := r.End(Without(as, lost...)...)
			if o.Code != rendezvous.ExitRendezvous || !strings.Contains(o.Cause.Message, "2 of 3:4") {
				r.Errorf("ended with %s", describe(&o))
			}
			r.AwaitClean(j)
		}},
	}
}
