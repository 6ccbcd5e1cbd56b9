package rendezvoustest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// forming returns the cases of how nodes come together.
func forming() []testCase {
	return []testCase{
		{name: "one node", play: func(r *Rig) {
			j := r.Job(1, 1)
			as := r.Team(j, 1)
			if w := r.World(0, as...); w.Round != 0 || w.Size != 1 {
				r.Errorf("%+v", w)
			}
			r.Success(as...)
			r.AwaitClean(j)
		}},
		{name: "eight nodes in any order", play: func(r *Rig) {
			seed := rand.Uint64()
			r.Logf("order of seed %d", seed)
			j := r.Job(8, 8)
			as := make([]*Agent, 8)
			for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(8) {
				as[i] = r.Start(j, i)
			}
			w := r.World(0, as...)
			for i, a := range as {
				if w.Index(a.Node.ID) != i {
					r.Errorf("n%d has group rank %d", i, w.Index(a.Node.ID))
				}
			}
			r.Success(as...)
			r.AwaitClean(j)
		}},
		{name: "node ranks", play: func(r *Rig) {
			as := r.Team(r.Job(4, 4), 4, func(a *Agent) { a.Node.NodeRank = 3 - int(a.label[1]-'0') })
			w := r.World(0, as...)
			for i, a := range as {
				if w.Index(a.Node.ID) != 3-i {
					r.Errorf("n%d has group rank %d, not its --node-rank", i, w.Index(a.Node.ID))
				}
			}
			r.Success(as...)
		}},
		{name: "different numbers of workers", play: func(r *Rig) {
			as := r.Team(r.Job(3, 3), 3, func(a *Agent) { a.Node.Workers = 1 << (a.label[1] - '0') })
			w := r.World(0, as...)
			for i, first := range []int{0, 1, 3} {
				if m := w.Members[i]; m.FirstRank != first || m.Workers != 1<<i {
					r.Errorf("member %d: %+v", i, m)
				}
			}
			if w.Size != 7 {
				r.Errorf("%d workers", w.Size)
			}
			r.Success(as...)
		}},
		{name: "late and slow nodes", play: func(r *Rig) {
			j := r.Job(4, 4)
			as := r.Team(j, 2)
			slow := r.Start(j, 2, unready)
			as = append(as, slow)
			r.Await("an agent waits for the fourth node", func() bool { return showsCame(as, 3) })
			as = append(as, r.Start(j, 3))
			r.Await("all wait for the slow node", func() bool {
				return phase(as[0]) == "accepting" && phase(as[3]) == "accepting"
			})
			for _, a := range as {
				if a.Running() != nil {
					r.Errorf("%s started before the slow node was ready", a.label)
				}
			}
			slow.Ready()
			r.World(0, as...)
			r.Success(as...)
		}},
		{name: "two runs at once", play: func(r *Rig) {
			j, k := r.Job(3, 3), r.Job(2, 2)
			var as, bs []*Agent
			for i := range 3 {
				as = append(as, r.Start(j, i))
				if i < 2 {
					bs = append(bs, r.Start(k, i))
				}
			}
			if w, v := r.World(0, as...), r.World(0, bs...); w.Job == v.Job || w.RunID == v.RunID {
				r.Errorf("two runs are one job: %+v %+v", w, v)
			}
			bs[1].Fail(3)
			if o := r.End(bs...); o.Code != 3 {
				r.Errorf("the other run ended with %s", describe(&o))
			}
			r.Success(as...)
			r.AwaitClean(j)
			r.AwaitClean(k)
		}},
		{name: "join time-out", play: func(r *Rig) {
			j := r.Job(3, 3)
			j.Join = 1500 * time.Millisecond
			as := r.Team(j, 2)
			o := r.End(as...)
			if o.Code != rendezvous.ExitRendezvous {
				r.Errorf("ended with %s", describe(&o))
			}
			for _, want := range []string{"2 of 3", "n0", "n1"} {
				if o.Cause == nil || !strings.Contains(o.Cause.Message, want) {
					r.Errorf("%s does not say %q", describe(&o), want)
				}
			}
			r.AwaitClean(j)
		}},
		{name: "the same run id again", play: func(r *Rig) {
			j := r.Job(2, 2)
			first := r.Team(j, 2)
			w := r.World(0, first...)
			r.Success(first...)
			second := r.Team(j, 2)
			if v := r.World(0, second...); v.Job == w.Job {
				r.Errorf("the second job has the first one's identity %q", v.Job)
			}
			r.Success(second...)
			r.AwaitClean(j)
		}},
		{name: "all killed and the same run id again", play: func(r *Rig) {
			j := r.Job(3, 3)
			first := r.Team(j, 3)
			w := r.World(0, first...)
			for _, a := range first {
				a.Crash()
			}
			second := r.Team(j, 3)
			if v := r.World(0, second...); v.Job == w.Job {
				r.Errorf("the second job has the first one's identity %q", v.Job)
			}
			r.Success(second...)
			r.AwaitClean(j)
		}},
	}
}

// unready lets an agent wait for Ready.
func unready(a *Agent) { a.events.TakeAll() }

func phase(a *Agent) string {
	return locked(a, func() string {
		if a.status == nil {
			return ""
		}
		return a.status.Phase
	})
}

// showsCame reports whether the status of one of these agents shows that so many came.
func showsCame(as []*Agent, came int) bool {
	for _, a := range as {
		if locked(a, func() bool { return a.status != nil && a.status.Came == came }) {
			return true
		}
	}
	return false
}

func ranks(w rendezvous.World) string { return fmt.Sprint(hosts(w)) }

func hosts(w rendezvous.World) []string {
	var out []string
	for _, m := range w.Members {
		out = append(out, m.Host)
	}
	return out
}
