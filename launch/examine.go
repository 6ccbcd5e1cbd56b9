package launch

import (
	"context"
	"fmt"

	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// prepareExam decides whether nodes are compared, and by what.
func (a *agent) prepareExam(ctx context.Context) error {
	sp := &a.opts.Spec
	if err := check.Known(sp.Ignore); err != nil {
		return &UsageError{Err: err}
	}
	gpu := device.Present("")
	wrapper, doubt := a.wrapper()
	if !check.Wanted(sp, gpu || wrapper.Loses() || doubt != nil || len(wrapper.Forced(nil)) > 0) {
		return nil
	}
	s := a.subject
	o := check.Options{
		Spec: *sp, Env: a.opts.Env, Request: a.request, Key: a.probeKey(), Post: a.events.post, Wait: &a.wg,
		Program: preflight.Program{Title: s.Title, Path: s.Path, Script: s.Script, Python: s.Python, Args: s.Args, Dir: s.Dir},
		Say:     func(format string, args ...any) { a.events.Put(noteEvent{fmt.Sprintf(format, args...)}) },
		Show:    func(table string) { a.events.Put(tableEvent{table}) },
		Found:   a.warned,
		Pool:    a.pool,
	}
	if sp.Preflight != spec.PreflightOff {
		if gpu {
			o.GPU = a.gpus
		}
		o.Lost = a.delivery(ctx, wrapper, doubt)
	}
	a.check, a.node.Facts = check.New(o), true
	return nil
}

// examined carries out what the machine asks of the examiner.
func (a *agent) examined(ctx context.Context, c rendezvous.Command) {
	switch c := c.(type) {
	case rendezvous.Compare:
		a.check.Compare(ctx, c)
	case rendezvous.Ask:
		if a.check == nil { // it told no facts, so nobody can know where it is reached
			a.events.post(rendezvous.Answered{Serial: c.Serial, Body: []byte("{}")})
			return
		}
		a.check.Answer(ctx, c)
	}
}

// refused reports whether the comparison of the nodes ended the job.
func refused(o rendezvous.Outcome) bool {
	return o.Preflight != nil && o.Cause != nil && o.Cause.Kind == rendezvous.KindPreflight
}

// tellVerdict shows why the nodes were not started, or what gorun check found.
func (a *agent) tellVerdict(o rendezvous.Outcome) report.Outcome {
	kind := report.Refused
	if o.Cause == nil {
		kind = report.Succeeded
	}
	switch c := a.opts.Spec.Check; {
	case a.opts.quiet():
		if c == nil {
			a.console.say("%s; exit code %d", o.Cause.Line(), o.Code)
		}
	case c != nil && !c.JSON && o.Preflight.Table == "" && o.Cause != nil: // the comparison found nothing, and the program cannot be started
	case c != nil:
		if err := check.Print(a.opts.Stdout, o.Preflight, c.JSON); err != nil {
			a.console.say("cannot print the findings: %v", err)
		}
	default:
		a.console.table(o.Preflight.Table)
	}
	return kind
}
