package launch

import (
	"errors"

	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

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
