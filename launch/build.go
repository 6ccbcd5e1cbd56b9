package launch

import (
	"context"
	"errors"

	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/selftest"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous"
)

// build holds the workers' program. The agent finds the program at once, and builds
// it while the nodes join.
type build struct {
	subject       program.Subject // what is known before the build
	program       program.Program // set once Ready was sent
	result        *programBuilt   // until Ready is sent
	outputPrinted bool            // the terminal shows the output of the Go tool
}

// prepareProgram finds the program and starts to build it.
func (a *agent) prepareProgram(ctx context.Context) error {
	sp := a.opts.Spec
	in := program.Input{
		Program: sp.Program, Args: sp.Args, NoPython: sp.NoPython, Module: sp.Module, RunPath: sp.RunPath, LocalRank: sp.LocalRankArg, Dir: a.opts.Dir,
		Env: a.opts.Env, BuildDir: a.opts.Scratch.Build(), Run: a.table.Run,
	}
	if sp.Program == "" { // gorun check
		a.build.subject = in.Unnamed()
		a.events.Put(programBuilt{})
		return nil
	}
	plan, err := await(ctx, a.base, "looking for the program "+sp.Program, func(context.Context) (program.Plan, error) { return program.Check(in) })
	if _, ended := errors.AsType[*stopped](err); ended {
		return err
	}
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
		code := rendezvous.ExitUsage
		if plan.NeedsBuild() {
			code = 1
		}
		a.events.Put(programBuilt{p, code, err})
	}
	if err != nil || !plan.NeedsBuild() {
		build()
		return nil
	}
	a.wg.Go(build)
	return nil
}

// readyEvent returns the event by which the machine learns whether the program can be
// started here, with the GPUs and CPUs that it should have; nil if that is not
// known yet. Only now, and not during the build, is this node's address certain.
func (a *agent) readyEvent() rendezvous.Event {
	if a.build.result == nil {
		return nil
	}
	e := *a.build.result
	if e.err == nil {
		if !a.placement.IsDone() {
			return nil
		}
		e.err, e.code = a.placement.Err(), rendezvous.ExitUsage
	}
	if a.opts.Spec.SelfTest {
		e.program = e.program.After(a.opts.Self, selftest.Before())
	}
	a.build.result, a.build.program = nil, e.program
	if e.err != nil {
		return rendezvous.Ready{Cause: a.programCause(e)}
	}
	return rendezvous.Ready{}
}

// programCause returns the cause for a program that cannot be started here. If this
// node waits for others, programCause prints the error now.
func (a *agent) programCause(e programBuilt) *rendezvous.Cause {
	c := a.nodeCause(rendezvous.KindStart, e.err.Error())
	c.ExitCode = e.code
	failed, isBuild := errors.AsType[*program.BuildError](e.err)
	if isBuild {
		c.Message, c.Traceback = failed.Short(), failed.Output
	}
	switch {
	case a.opts.Spec.MaxNodes == 1 || a.opts.Local != nil: // the job's report comes soon
	case isBuild:
		a.build.outputPrinted = true
		a.console.Say("%v", e.err)
		a.console.Say("the other nodes get this error when they join")
	default:
		a.console.Say("%v; the other nodes get this error when they join", e.err)
	}
	return &c
}

// wrapper returns the wrappers in front of the workers' program. The error is about
// a wrapper whose command line is not understood.
func (b *build) wrapper() (wrap.Prefix, error) { return wrap.Parse(b.subject.Words(wrap.ProbeRank)) }
