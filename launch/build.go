package launch

import (
	"context"
	"errors"

	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous"
)

// build holds the workers' program. The agent finds the program at once, and builds
// it while the nodes meet.
type build struct {
	subject program.Subject // what is known before the build
	program program.Program // set once Ready was sent
	built   *builtEvent     // until Ready is sent
	shown   bool            // the compiler's output stands on the terminal
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

// failureCode returns the exit code for a program that cannot be started. A program
// that does not build has failed; any other is a usage error.
func failureCode(plan program.Plan) int {
	if plan.NeedsBuild() {
		return 1
	}
	return rendezvous.ExitUsage
}

// ready returns the event by which the machine learns whether the program can be
// started here, with the GPUs and CPUs that it should have; nil if that is not
// known yet. Only now, and not during the build, is this node's address certain.
func (a *agent) ready() rendezvous.Event {
	if a.build.built == nil {
		return nil
	}
	e := *a.build.built
	if e.err == nil {
		if !a.placement.IsDone() {
			return nil
		}
		e.err, e.code = a.placement.Err(), rendezvous.ExitUsage
	}
	a.build.built, a.build.program = nil, e.program
	if e.err == nil {
		return rendezvous.Ready{}
	}
	return rendezvous.Ready{Cause: a.unfit(e)}
}

// unfit returns the cause for a program that cannot be started here. If this node
// waits for others, unfit prints the cause now.
func (a *agent) unfit(e builtEvent) *rendezvous.Cause {
	c := a.self(rendezvous.KindStart, e.err.Error())
	c.ExitCode = e.code
	build, unbuilt := errors.AsType[*program.BuildError](e.err)
	if unbuilt {
		c.Message, c.Traceback = build.Short(), build.Output
	}
	switch {
	case a.opts.Spec.MaxNodes == 1 || a.opts.Local != nil: // the job's report comes soon
	case unbuilt:
		a.build.shown = true
		a.console.Say("%v", e.err)
		a.console.Say("the other nodes are told when they are here")
	default:
		a.console.Say("%v; the other nodes are told when they are here", e.err)
	}
	return &c
}

// wrapper returns the wrappers in front of the workers' program. The error is about
// a wrapper whose command line is not understood.
func (b *build) wrapper() (wrap.Prefix, error) {
	s := &b.subject
	if s.Path == "" || s.Title == "" || s.Python != "" { // gorun starts nothing, or knows the program
		return wrap.Prefix{}, nil
	}
	argv := []string{s.Title}
	for _, arg := range s.Args {
		argv = append(argv, program.Substitute(arg, wrap.ProbeRank))
	}
	return wrap.Parse(argv)
}
