package wrap

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// Look finds out, while the nodes meet, what the wrappers of this node lose.
type Look struct {
	Probe Options // without Sent
	Doubt error   // why a wrapper's command line is not understood; nil: it is
	Node  Node
	Dry   bool            // gorun starts no worker, so it starts no wrapper
	Quiet bool            // another agent at this terminal prints the doubt
	Wait  *sync.WaitGroup // of the goroutine that Start starts
}

// Start starts the probe and returns a function that waits for what was lost and
// for what stays unknown. Start returns nil when there is nothing to probe. It does
// not start a wrapper that loses nothing: the command line says enough.
func (l Look) Start(ctx context.Context) func(context.Context) (*preflight.Lost, []string) {
	p := l.Probe.Prefix
	l.Probe.Sent = l.Node.send()
	switch {
	case l.Doubt != nil:
	case !p.Loses():
		forced := p.Forced(l.Probe.Sent.Env)
		if len(forced) == 0 {
			return nil
		}
		lost := &preflight.Lost{Wrapper: p.fullName(), Forced: forced}
		lost.Fix = p.fixLines(*lost, "")
		return func(context.Context) (*preflight.Lost, []string) { return lost, nil }
	case l.Dry:
		return nil
	}
	var lost *preflight.Lost
	doubt := l.Doubt
	done := make(chan struct{})
	l.Wait.Go(func() {
		defer close(done)
		if doubt == nil {
			lost, doubt = l.probe(ctx)
		}
		if doubt != nil && ctx.Err() == nil && !l.Quiet {
			l.Probe.Say("preflight: cannot see which variables reach the program: %s", ncclenv.ShownText(doubt.Error()))
		}
	})
	return func(ctx context.Context) (*preflight.Lost, []string) {
		select {
		case <-done:
		case <-ctx.Done(): // the caller reports it
			return nil, nil
		}
		if doubt == nil {
			return lost, nil
		}
		return lost, []string{ncclenv.ShownText(doubt.Error())} // the error may repeat what a wrapper printed of its arguments
	}
}

// probe runs the wrappers with the environment of a made-up worker. The variables
// of devices count only if a worker of this node really gets them. With an error,
// probe returns what is certainly lost, or nil.
func (l *Look) probe(ctx context.Context) (*preflight.Lost, error) {
	p, n, sent := l.Probe.Prefix, &l.Node, l.Probe.Sent
	lost, err := Probe(ctx, l.Probe)
	if err != nil {
		if lost = p.withheld(sent); !anyLost(lost) {
			return nil, err
		}
	}
	placed := n.Devices(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, list := range []*[]string{&lost.Missing, &lost.Changed, &lost.Forced} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(name string) bool {
			return slices.Contains(n.Placed, name) && !slices.Contains(placed, name) && !slices.Contains(sent.Asked, name) && !n.agrees(name)
		})
	}
	home := environ.Get(n.Env, "HOME")
	lost.Wrapper, lost.Fix = p.Name(), p.fixLines(lost, home)
	_, perhaps := n.asked()
	for _, name := range perhaps {
		if slices.Contains(lost.Missing, name) || slices.Contains(lost.Changed, name) {
			lost.Perhaps = append(lost.Perhaps, name)
		}
	}
	if err != nil {
		lost.Unseen = ncclenv.ShownText(err.Error())
	}
	return &lost, err
}

// fixLines returns the lines of the fix, none if nothing is lost. It looks for
// start files in home.
func (p Prefix) fixLines(lost preflight.Lost, home string) []string {
	if !anyLost(lost) {
		return nil
	}
	return strings.Split(p.fix(lost, func(name string) string { return startFile("", home, name) }), "\n")
}
