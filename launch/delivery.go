package launch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// wrapper is what stands in front of the workers' program. The error is about one
// behind which it cannot be looked.
func (a *agent) wrapper() (wrap.Prefix, error) {
	s := &a.subject
	if s.Path == "" || s.Title == "" || s.Python != "" { // nothing is started, or gorun knows how
		return wrap.Prefix{}, nil
	}
	argv := []string{s.Title}
	for _, arg := range s.Args {
		argv = append(argv, program.Substitute(arg, madeUp().LocalRank))
	}
	return wrap.Wrap(argv)
}

// delivery looks behind the wrapper while the nodes meet: what it gives waits for
// that. It is nil when there is nothing to look at. Of a wrapper that loses nothing
// the command line tells enough, and what starts nothing (--dry-run, gorun env)
// does not start a wrapper either.
func (a *agent) delivery(ctx context.Context, p wrap.Prefix, doubt error) func(context.Context) (*preflight.Lost, []string) {
	sent := a.sent()
	switch {
	case doubt != nil:
	case !p.Loses():
		forced := p.Forced(sent.Env)
		if len(forced) == 0 {
			return nil
		}
		lost := told(p.Full(), p, wrap.Lost{Forced: forced}, "")
		return func(context.Context) (*preflight.Lost, []string) { return lost, nil }
	case a.opts.Spec.Dry != nil:
		return nil
	}
	var lost *preflight.Lost
	done := make(chan struct{})
	a.wg.Go(func() {
		defer close(done)
		if doubt == nil {
			lost, doubt = a.behind(ctx, p, sent)
		}
		if doubt != nil && ctx.Err() == nil && !a.opts.quiet() {
			a.events.Put(noteEvent{fmt.Sprintf("preflight: cannot see which variables reach the program: %s", ncclenv.ShownText(doubt.Error()))})
		}
	})
	return func(ctx context.Context) (*preflight.Lost, []string) {
		select {
		case <-done:
		case <-ctx.Done(): // whoever gathers says so
			return nil, nil
		}
		if doubt == nil {
			return lost, nil
		}
		return lost, []string{ncclenv.ShownText(doubt.Error())} // it may repeat what a wrapper printed of its arguments
	}
}

// behind asks with what a made-up worker would be sent. The variables of its
// devices count only if a worker of this node really gets them, which the driver
// is asked meanwhile. With an error it gives what is lost for certain, if anything.
func (a *agent) behind(ctx context.Context, p wrap.Prefix, sent wrap.Sent) (*preflight.Lost, error) {
	lost, err := wrap.Probe(ctx, wrap.Options{
		Prefix: p, Path: a.subject.Path, Dir: a.opts.Dir, Table: a.table, Sent: sent,
		Name: "gorun-probe-" + string(a.node.ID),
		Say:  func(format string, args ...any) { a.events.Put(noteEvent{fmt.Sprintf(format, args...)}) },
	})
	if err != nil {
		if lost = p.Withheld(sent); !lost.Any() {
			return nil, err
		}
	}
	_ = a.devices.wait(ctx) // of what is wrong with them the user hears elsewhere
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	lost = lost.Without(func(name string) bool {
		return slices.Contains(pin.Names(), name) && !a.devices.sets(name) && !slices.Contains(sent.Asked, name) && !a.agreed(name)
	})
	home, _ := findEnv(a.opts.Env, "HOME")
	out := told(p.Name(), p, lost, home)
	_, perhaps := a.asked()
	for _, name := range perhaps {
		if slices.Contains(out.Missing, name) || slices.Contains(out.Changed, name) {
			out.Perhaps = append(out.Perhaps, name)
		}
	}
	if err != nil {
		out.Unseen = ncclenv.ShownText(err.Error())
	}
	return out, err
}

// told is what the preflight hears of it. Start files are looked for in home.
func told(wrapper string, p wrap.Prefix, lost wrap.Lost, home string) *preflight.Lost {
	out := &preflight.Lost{
		Wrapper: wrapper, Missing: lost.Missing, Changed: lost.Changed, Forced: lost.Forced,
		Closed: lost.Closed, Passed: lost.Passed,
	}
	if lost.Any() {
		out.Fix = strings.Split(p.Fix(lost, func(name string) string { return wrap.StartFile("", home, name) }), "\n")
	}
	return out
}
