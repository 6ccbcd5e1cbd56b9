package rendezvoustest

import (
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// failing: how a job ends, and how it goes on.
func failing() []trial {
	all := []trial{
		{name: "a worker fails", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 3)
			r.World(0, as...)
			as[1].Fail(7)
			if o := r.End(as...); o.Code != 7 || o.Cause.Rank != 1 {
				r.Errorf("ended with %s", told(&o))
			}
			r.Nothing(j)
		}},
		{name: "restart keeps ranks", play: func(r *Rig) {
			j := r.Job(4, 4)
			j.Restarts = 2
			as := r.Team(j, 4)
			w := r.World(0, as...)
			for restart := 1; restart <= 2; restart++ {
				as[restart].Fail(3)
				v := r.World(w.Round+1, as...)
				if ranks(v) != ranks(w) || v.Restart != restart || v.Job != w.Job {
					r.Errorf("after the restart: %s (restart %d of %s), before: %s of %s", ranks(v), v.Restart, v.Job, ranks(w), w.Job)
				}
				w = v
			}
			as[3].Fail(9)
			if o := r.End(as...); o.Code != 9 || len(o.Rounds) != 3 {
				r.Errorf("ended with %s after %d rounds", told(&o), len(o.Rounds))
			}
			r.Nothing(j)
		}},
		{name: "a node is lost", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 3)
			w := r.World(0, as...)
			lost := But(as, r.Coordinator(as...))[0]
			lost.Crash()
			if o := r.End(But(as, lost)...); o.Cause == nil || o.Cause.Kind != rendezvous.KindLost || o.Cause.GroupRank != w.Index(lost.Node.ID) {
				r.Errorf("ended with %s", told(&o))
			}
			r.Nothing(j)
		}},
		{name: "stop while nodes are missing", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 2)
			r.Await("both wait", func() bool { return waits(as[:1], 2) && waits(as[1:], 2) })
			as[1].StopJob(syscall.SIGINT)
			if o := r.End(as...); o.Code != 128+int(syscall.SIGINT) {
				r.Errorf("ended with %s", told(&o))
			}
			r.Nothing(j)
		}},
	}
	for i := range 3 {
		all = append(all, trial{name: fmt.Sprintf("stop at node %d", i), play: func(r *Rig) {
			j := r.Job(3, 3)
			j.Restarts, j.Takes = 5, 200*time.Millisecond
			as := r.Team(j, 3)
			r.World(0, as...)
			as[i].StopJob(syscall.SIGTERM)
			if o := r.End(as...); o.Code != 128+int(syscall.SIGTERM) || o.Cause.Node != as[i].Node.ID {
				r.Errorf("ended with %s", told(&o))
			}
			r.Nothing(j)
		}})
	}
	return all
}
