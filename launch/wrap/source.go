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

// Source finds out, while the nodes meet, what the wrappers of this node lose.
type Source struct {
	Probe       Options // without Sent
	ParseErr    error   // of Parse
	Node        Node
	Dry         bool            // gorun starts no worker, so it starts no wrapper
	OtherPrints bool            // another agent at this terminal prints why nothing is known
	Wait        *sync.WaitGroup // of the goroutine that Start starts
}

// Start starts the probe. It returns a function that waits for what was lost, and
// for why that stays unknown. Start returns nil when nothing can be lost. It starts
// no wrapper that loses nothing: the command line says enough.
func (s Source) Start(ctx context.Context) func(context.Context) (*preflight.WrapperLoss, []string) {
	p := s.Probe.Prefix
	s.Probe.Sent = s.Node.sent()
	if s.ParseErr == nil && !p.Loses() {
		forced := p.Forced(s.Probe.Sent.Env)
		if len(forced) == 0 {
			return nil
		}
		lost := &preflight.WrapperLoss{Wrapper: p.Name(), Forced: forced}
		lost.Fix = p.fixLines(*lost, "")
		return func(context.Context) (*preflight.WrapperLoss, []string) { return lost, nil }
	}
	var lost *preflight.WrapperLoss
	err := s.ParseErr
	done := make(chan struct{})
	s.Wait.Go(func() {
		defer close(done)
		if err == nil {
			lost, err = s.find(ctx)
		}
		if err != nil && ctx.Err() == nil && !s.OtherPrints {
			s.Probe.Say("preflight: cannot see which variables reach the program: %s", ncclenv.ShownText(err.Error()))
		}
	})
	return func(ctx context.Context) (*preflight.WrapperLoss, []string) {
		select {
		case <-done:
		case <-ctx.Done(): // the caller reports it
			return nil, nil
		}
		if err == nil {
			return lost, nil
		}
		return lost, []string{ncclenv.ShownText(err.Error())} // the error may repeat what a wrapper printed of its arguments
	}
}

// find runs the probe with the environment of a made-up worker. Without a probe it
// returns what the wrappers' options withhold, nil if that is nothing. The variables
// of devices count only if a worker of this node gets them.
func (s *Source) find(ctx context.Context) (*preflight.WrapperLoss, error) {
	p, n, sent := s.Probe.Prefix, &s.Node, s.Probe.Sent
	var lost preflight.WrapperLoss
	var err error
	if !s.Dry {
		lost, err = Probe(ctx, s.Probe)
	}
	if s.Dry || err != nil {
		if lost = p.withheld(sent); !hasLoss(lost) {
			return nil, err
		}
		lost.Assumed = lost.Assumed || s.Dry
	}
	placed := n.Devices(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, list := range []*[]string{&lost.Missing, &lost.Changed, &lost.Forced} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(name string) bool {
			return slices.Contains(n.Placed, name) && !slices.Contains(placed, name) && !slices.Contains(sent.Requested, name) && !n.mustAgree(name)
		})
	}
	home := environ.Get(n.Env, "HOME")
	lost.Wrapper, lost.Fix = p.Name(), p.fixLines(lost, home)
	_, conditional := n.requested()
	for _, name := range conditional {
		if slices.Contains(lost.Missing, name) || slices.Contains(lost.Changed, name) {
			lost.Conditional = append(lost.Conditional, name)
		}
	}
	if err != nil {
		lost.NoProbeReason = ncclenv.ShownText(err.Error())
	}
	return &lost, err
}

// fixLines returns the lines of the fix, none if nothing is lost. It looks for
// start files in home.
func (p Prefix) fixLines(lost preflight.WrapperLoss, home string) []string {
	if !hasLoss(lost) {
		return nil
	}
	return strings.Split(p.fix(lost, func(name string) string { return startFile("", home, name) }), "\n")
}
