package wrap

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// Look finds out, while the nodes meet, what the wrappers of this node lose.
type Look struct {
	Probe Options // without Sent
	Doubt error   // why the command line of a wrapper is not understood
	Node  Node
	Dry   bool            // nothing is started, so no wrapper is
	Quiet bool            // another agent at this terminal says what is in doubt
	Wait  *sync.WaitGroup // of the goroutine that Start starts
}

// Start begins to look and gives a function that waits for what was lost, and for
// what stays unknown. It is nil when there is nothing to look at. A wrapper that
// loses nothing is not started: its command line tells enough.
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
		case <-ctx.Done(): // the caller says so
			return nil, nil
		}
		if doubt == nil {
			return lost, nil
		}
		return lost, []string{ncclenv.ShownText(doubt.Error())} // it may repeat what a wrapper printed of its arguments
	}
}

// probe looks behind the wrappers with what a made-up worker would be sent. The
// variables of devices count only if a worker of this node really gets them. With
// an error it gives what is lost for certain, if anything.
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
	home, _ := value(n.Env, "HOME")
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

// fixLines are the lines of the fix, none if nothing is lost. Start files are
// looked for in home.
func (p Prefix) fixLines(lost preflight.Lost, home string) []string {
	if !anyLost(lost) {
		return nil
	}
	return strings.Split(p.fix(lost, func(name string) string { return startFile("", home, name) }), "\n")
}
