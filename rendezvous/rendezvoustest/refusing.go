package rendezvoustest

import (
	"strings"

	"github.com/gorun/gorun/rendezvous"
)

// refusing: who cannot take part hears why, and harms nobody.
func refusing() []trial {
	refuse := func(name, want string, shape func(*Agent)) trial {
		return trial{name: name, play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 2)
			r.Await("both wait", func() bool { return waits(as, 2) })
			odd := r.Start(j, 7, shape)
			o := r.End(odd)
			if o.Code != rendezvous.ExitRendezvous || !strings.Contains(o.Cause.Message, want) {
				r.Errorf("ended with %s, which does not say %q", told(&o), want)
			}
			as = append(as, r.Start(j, 2))
			r.World(0, as...)
			r.Success(as...)
			r.Nothing(j)
		}}
	}
	return []trial{
		refuse("another protocol", "speaks protocol", func(a *Agent) { a.Node.Protocol++ }),
		refuse("another --nnodes", "--nnodes", func(a *Agent) { a.Node.Min, a.Node.Max = 1, 5 }),
		{name: "one node rank twice", play: func(r *Rig) {
			j := r.Job(3, 3)
			as := r.Team(j, 2, func(a *Agent) { a.Node.NodeRank = int(a.label[1] - '0') })
			r.Await("both wait", func() bool { return waits(as, 2) })
			odd := r.Start(j, 7, func(a *Agent) { a.Node.NodeRank = 1 })
			if o := r.End(odd); o.Code != rendezvous.ExitRendezvous || !strings.Contains(o.Cause.Message, "is taken by n1") {
				r.Errorf("ended with %s", told(&o))
			}
			as = append(as, r.Start(j, 2))
			r.World(0, as...)
			r.Success(as...)
		}},
	}
}
