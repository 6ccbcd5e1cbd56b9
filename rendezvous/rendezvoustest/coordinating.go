package rendezvoustest

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// coordinating returns the cases in which the coordinator ends, at every stage.
func coordinating() []testCase {
	return []testCase{
		coordinatorKilled("before the first world", unready, func(r *Rig, as []*Agent) *Agent {
			c := r.Coordinator(as...)
			r.Await("all are there", func() bool { return showsCame(as, 4) })
			c.Crash()
			for _, a := range Without(as, c) {
				a.Ready()
			}
			return c
		}),
		coordinatorKilledBefore("in front of its first proposal", rendezvous.MsgPropose, 0, nil),
		coordinatorKilledBefore("between two proposals", rendezvous.MsgPropose, 1, nil),
		coordinatorKilledBefore("in front of the first commit", rendezvous.MsgCommit, 0, nil),
		coordinatorKilledBefore("between two commits", rendezvous.MsgCommit, 1, nil),
		coordinatorKilled("while workers run", nil, func(r *Rig, as []*Agent) *Agent {
			r.World(0, as...)
			c := r.Coordinator(as...)
			c.Crash()
			return c
		}),
		coordinatorKilled("while workers are stopped", func(a *Agent) { a.stopTime = 500 * time.Millisecond }, func(r *Rig, as []*Agent) *Agent {
			r.World(0, as...)
			c := r.Coordinator(as...)
			Without(as, c)[1].Fail(4)
			r.Await("the coordinator stops its workers", func() bool { return locked(c, func() bool { return c.stopping }) })
			c.Crash()
			return c
		}),
		coordinatorKilledBefore("between two aborts", rendezvous.MsgAbort, 1, func(r *Rig, as []*Agent) {
			r.World(0, as...)
			Without(as, r.Coordinator(as...))[1].Fail(4)
		}),
		{name: "coordinator killed while it sends the outcome", play: func(r *Rig) {
			j := r.Job(4, 4)
			as := r.Team(j, 4, killedBefore(rendezvous.MsgFinish, 1))
			r.World(0, as...)
			c := r.Coordinator(as...)
			for _, a := range as {
				a.Done()
			}
			r.Await("the coordinator is killed", func() bool { return locked(c, func() bool { return c.crashed }) })
			// It is luck whether the first message of the killed process arrives.
			if o := r.End(Without(as, c)...); o.Code != 0 && o.Code != rendezvous.ExitLost {
				r.Errorf("ended with %s", describe(&o))
			}
			r.awaitClean(j, r.Traits.Record) // it may have died between its Unseal and the backend's deed
		}},
		{name: "coordinator leaves", play: func(r *Rig) {
			j := r.Job(2, 4)
			as := r.Team(j, 4)
			w := r.World(0, as...)
			c := r.Coordinator(as...)
			c.StopJob(syscall.SIGTERM)
			rest := Without(as, c)
			v := r.World(w.Round+1, rest...)
			if v.Restart != 0 || v.Job != w.Job {
				r.Errorf("a node that leaves is no restart: %+v", v)
			}
			if o := r.End(c); o.Code != 128+int(syscall.SIGTERM) {
				r.Errorf("the leaving node ends with %s", describe(&o))
			}
			r.Success(rest...)
			r.AwaitClean(j)
		}},
	}
}

// coordinatorKilled is a job of 4 nodes, 3 of which serve an endpoint, that goes on without
// its coordinator. begin returns that coordinator when it has been killed.
func coordinatorKilled(when string, shape func(*Agent), begin func(*Rig, []*Agent) *Agent) testCase {
	return testCase{name: "coordinator killed " + when, play: func(r *Rig) {
		j := r.Job(3, 4)
		j.Restarts, j.Endpoints, j.LastCall = 3, 3, 300*time.Millisecond
		var shapes []func(*Agent)
		if shape != nil {
			shapes = append(shapes, shape)
		}
		as := r.Team(j, 4, shapes...)
		rest := Without(as, begin(r, as))
		w := r.World(0, rest...)
		for i, a := range rest {
			if w.Index(a.Node.ID) != i {
				r.Errorf("%s has group rank %d: %s", a.label, w.Index(a.Node.ID), ranks(w))
			}
		}
		r.Success(rest...)
		r.AwaitClean(j)
	}}
}

// coordinatorKilledBefore is coordinatorKilled for the first agent that is about to
// send the n-th message of a type, from 0. meanwhile makes it do so.
func coordinatorKilledBefore(when string, t rendezvous.Type, n int, meanwhile func(*Rig, []*Agent)) testCase {
	tr := testCase{name: "coordinator killed " + when}
	tr.play = func(r *Rig) {
		coordinatorKilled(when, killedBefore(t, n), func(r *Rig, as []*Agent) *Agent {
			if meanwhile != nil {
				meanwhile(r, as)
			}
			var killed *Agent
			r.Await("the coordinator is killed", func() bool {
				for _, a := range as {
					if locked(a, func() bool { return a.crashed }) {
						killed = a
					}
				}
				return killed != nil
			})
			return killed
		}).play(r)
	}
	return tr
}

// killedBefore kills the first agent that is about to send the n-th message of a type,
// from 0.
func killedBefore(t rendezvous.Type, n int) func(*Agent) {
	var burnt atomic.Bool
	return func(a *Agent) {
		sent := 0
		a.killBefore = func(c rendezvous.Command) bool {
			s, ok := c.(rendezvous.Send)
			if !ok || s.Msg.Type != t {
				return false
			}
			sent++
			return sent > n && !burnt.Swap(true)
		}
	}
}
