package launch

import (
	"errors"

	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// What a compiler said is long and is told once: by each node whose program does
// not build, at once if others are still to come, and of the nodes of
// --local-nodes by the first one. Other nodes tell the first line.

// unfit is the cause of a program that cannot be started here.
func (a *agent) unfit(e builtEvent) *rendezvous.Cause {
	c := a.self(rendezvous.KindStart, e.err.Error())
	c.ExitCode = e.code
	build, unbuilt := errors.AsType[*program.BuildError](e.err)
	if unbuilt {
		c.Message, c.Traceback = build.Short(), build.Output
	}
	switch {
	case a.opts.Spec.MaxNodes == 1 || a.opts.Local != nil: // the report comes soon
	case unbuilt:
		a.toldBuild = true
		a.console.say("%v", e.err)
		a.console.say("the other nodes are told when they are here")
	default:
		a.console.say("%v; the other nodes are told when they are here", e.err)
	}
	return &c
}

// worded is the cause and the failures as this node's report tells them.
func (a *agent) worded(o rendezvous.Outcome) (rendezvous.Cause, []rendezvous.Cause) {
	cause, failures := a.toldOnce(*o.Cause), failed(o)
	for i, f := range failures {
		if unbuilt(&f) && (unbuilt(o.Cause) || f.Node == a.node.ID) {
			failures[i] = a.toldOnce(f)
		}
	}
	return cause, failures
}

// unbuilt reports whether the cause is a program that does not build.
func unbuilt(c *rendezvous.Cause) bool {
	return c.Kind == rendezvous.KindStart && c.Rank < 0 && c.Traceback != ""
}

func (a *agent) toldOnce(c rendezvous.Cause) rendezvous.Cause {
	const text = "the program does not build"
	here := c.Node == a.node.ID
	switch {
	case a.opts.quiet() && c.Kind == rendezvous.KindStart && c.Rank < 0:
		c.Message, c.Traceback = "", "" // the first node tells it
	case !unbuilt(&c):
	case here && a.toldBuild:
		c.Message, c.Traceback = text+" (see above)", ""
	case here || a.opts.Local != nil:
		c.Message = text // and the report shows the rest
	default:
		c.Traceback = ""
	}
	return c
}
