package launch

import (
	"context"
	"errors"

	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous"
)

// build is the workers' program. It is found at once, and built while the nodes meet.
type build struct {
	subject program.Subject // before it is built
	program program.Program // once Ready was sent
	built   *builtEvent     // until Ready is sent
	shown   bool            // what the compiler said stands on the terminal
}

// prepareProgram finds the program and starts to build it.
func (a *agent) prepareProgram(ctx context.Context) error {
	sp := a.opts.Spec
	in := program.Input{
		Program: sp.Program, Args: sp.Args, NoPython: sp.NoPython, Module: sp.Module, Dir: a.opts.Dir,
		Env: a.opts.Env, BuildDir: a.opts.Scratch.Build(), Run: a.table.Run,
	}
	if sp.Program == "" { // gorun check
		a.build.subject = in.Unnamed()
		a.events.Put(builtEvent{})
		return nil
	}
	plan, err := program.Check(in)
	a.build.subject = plan.Subject()
	if plan.Note != "" {
		a.console.Announce("%s", plan.Note)
	}
	if err != nil && sp.MaxNodes == 1 {
		return &UsageError{Err: err}
	}
	build := func() {
		var p program.Program
		if err == nil {
			p, err = plan.Build(ctx)
		}
		a.events.Put(builtEvent{p, failureCode(plan), err})
	}
	if err != nil || !plan.NeedsBuild() {
		build()
		return nil
	}
	a.wg.Go(build)
	return nil
}

// failureCode is the exit code of a program that cannot be started: one that does
// not build has failed, any other is bad input.
func failureCode(plan program.Plan) int {
	if plan.NeedsBuild() {
		return 1
	}
	return rendezvous.ExitUsage
}

// ready tells the machine whether the program can be started here, with the GPUs
// and CPUs that it should have; nil: that is not known yet. Only now, not while the
// program was built, is this node's address known for sure.
func (a *agent) ready() rendezvous.Event {
	if a.build.built == nil {
		return nil
	}
	e := *a.build.built
	if e.err == nil {
		select {
		case <-a.placing.done:
		default:
			return nil
		}
		e.err, e.code = a.placing.err, rendezvous.ExitUsage
	}
	a.build.built, a.build.program = nil, e.program
	if e.err == nil {
		return rendezvous.Ready{}
	}
	return rendezvous.Ready{Cause: a.unfit(e)}
}

// unfit is the cause of a program that cannot be started here. A node that waits for
// others says it now.
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
		a.build.shown = true
		a.console.Say("%v", e.err)
		a.console.Say("the other nodes are told when they are here")
	default:
		a.console.Say("%v; the other nodes are told when they are here", e.err)
	}
	return &c
}

// wrapper is what stands in front of the workers' program. The error is about a
// wrapper whose command line is not understood.
func (b *build) wrapper() (wrap.Prefix, error) {
	s := &b.subject
	if s.Path == "" || s.Title == "" || s.Python != "" { // nothing is started, or gorun knows how
		return wrap.Prefix{}, nil
	}
	argv := []string{s.Title}
	for _, arg := range s.Args {
		argv = append(argv, program.Substitute(arg, wrap.MadeUpRank))
	}
	return wrap.Wrap(argv)
}
