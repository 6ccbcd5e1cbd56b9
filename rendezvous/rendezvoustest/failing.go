package rendezvoustest

import (
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// failing returns the cases of how a job ends, and how it goes on.
func failing() []testCase {
	all := []testCase{
		{name: "a worker fails", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 3)
			r.World(0, as...)
			as[1].Fail(7)
			if o := r.End(as...); o.Code != 7 || o.Cause.Rank != 1 {
				r.Errorf("ended with %s", describe(&o))
			}
			r.AwaitClean(j)
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
				r.Errorf("ended with %s after %d rounds", describe(&o), len(o.Rounds))
			}
			r.AwaitClean(j)
		}},
		{name: "a node is lost", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 3)
			w := r.World(0, as...)
			lost := Without(as, r.Coordinator(as...))[0]
			lost.Crash()
			if o := r.End(Without(as, lost)...); o.Cause == nil || o.Cause.Kind != rendezvous.KindLost || o.Cause.GroupRank != w.Index(lost.Node.ID) {
				r.Errorf("ended with %s", describe(&o))
			}
			r.AwaitClean(j)
		}},
		{name: "the coordinator's node is lost", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 3)
			r.World(0, as...)
			lost := r.Coordinator(as...)
			lost.Crash()
			if o := r.End(Without(as, lost)...); o.Cause == nil || o.Cause.Kind != rendezvous.KindLost || o.Code != rendezvous.ExitLost {
				r.Errorf("ended with %s", describe(&o))
			}
		}},
		{name: "no node serves an endpoint", endpoints: true, play: func(r *Rig) {
			j := r.Job(2, 2)
			j.Join = 3 * time.Second
			for _, a := range []*Agent{r.Start(j, 1), r.Start(j, 2)} {
				if o := r.End(a); o.Code != rendezvous.ExitRendezvous {
					r.Errorf("ended with %s", describe(&o))
				}
			}
		}},
		{name: "one of three endpoints is not served", endpoints: true, play: func(r *Rig) {
			j := r.Job(2, 3)
			j.Endpoints = 3
			as := []*Agent{r.Start(j, 1), r.Start(j, 2)}
			r.World(0, as...)
			r.Success(as...)
		}},
		{name: "stop while nodes are missing", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 2)
			r.Await("both wait", func() bool { return showsCame(as[:1], 2) && showsCame(as[1:], 2) })
			as[1].StopJob(syscall.SIGINT)
			if o := r.End(as...); o.Code != 128+int(syscall.SIGINT) {
				r.Errorf("ended with %s", describe(&o))
			}
			r.AwaitClean(j)
		}},
	}
	for i := range 3 {
		all = append(all, testCase{name: fmt.Sprintf("stop at node %d", i), play: func(r *Rig) {
			j := r.Job(3, 3)
			j.Restarts, j.StopTime = 5, 200*time.Millisecond
			as := r.Team(j, 3)
			r.World(0, as...)
			as[i].StopJob(syscall.SIGTERM)
			if o := r.End(as...); o.Code != 128+int(syscall.SIGTERM) || o.Cause.Node != as[i].Node.ID {
				r.Errorf("ended with %s", describe(&o))
			}
			r.AwaitClean(j)
		}})
	}
	for _, c := range []trouble{
		{"trouble while nodes are missing", rendezvous.KindAgent, 1, false, rendezvous.KindAgent},
		{"trouble while workers run", rendezvous.KindAgent, 0, false, rendezvous.KindAgent},
		{"another job's endpoint", rendezvous.KindRendezvous, 1, false, rendezvous.KindRendezvous},
		{"trouble after a failure", rendezvous.KindAgent, 0, true, rendezvous.KindExit},
	} {
		for target := range 2 {
			all = append(all, testCase{name: fmt.Sprintf("%s at node %d", c.name, target), play: func(r *Rig) { c.play(r, target) }})
		}
	}
	return all
}

// trouble is an event from which one agent cannot recover. It ends the job on every
// node, with one cause and one code, whatever restarts are left.
type trouble struct {
	name    string
	kind    rendezvous.Kind
	missing int  // nodes that the job waits for when the trouble comes
	fails   bool // the trouble comes while a failure stops the workers
	by      rendezvous.Kind
}

func (c trouble) play(r *Rig, target int) {
	j := r.Job(3+c.missing, 3+c.missing)
	j.Restarts, j.StopTime = 3, 300*time.Millisecond
	as := r.Team(j, 3)
	code := rendezvous.ExitRendezvous
	if c.missing > 0 {
		r.Await("all wait", func() bool { return showsCame(as, 3) })
	} else {
		r.World(0, as...)
	}
	if c.fails {
		as[2].Fail(5)
		r.Await("its workers are being stopped", func() bool { return locked(as[target], func() bool { return as[target].stopping }) })
		code = 5
	} else if c.kind == rendezvous.KindAgent {
		code = 1
	}
	as[target].events.Put(rendezvous.StopJob{Cause: as[target].cause(c.kind, "no port is left")})
	if o := r.End(as...); o.Code != code || o.Cause == nil || o.Cause.Kind != c.by {
		r.Errorf("ended with %s", describe(&o))
	}
}
