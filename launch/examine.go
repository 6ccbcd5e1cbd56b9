package launch

import (
	"context"
	"fmt"

	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/device"
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
