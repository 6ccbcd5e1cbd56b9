package launch

import (
	"context"

	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/gather"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// prepareCheck decides whether the nodes are compared, and by which checks.
func (a *agent) prepareCheck(ctx context.Context) error {
	sp := &a.opts.Spec
	if err := check.ValidateIgnore(sp.Ignore); err != nil {
		return &UsageError{Err: err}
	}
	policy := check.Policy{Checks: sp.Checks, Conflict: sp.Env.Conflict, MaxNodes: sp.MaxNodes}
	gpu := a.placement.Driver.HasDriver()
	wrapper, parseErr := a.build.wrapper()
	if !policy.Needed(gpu || wrapper.Loses() || parseErr != nil || len(wrapper.Forced(nil)) > 0) {
		return nil
	}
	s := a.build.subject
	o := check.Options{
		Policy: policy, Ports: probe.Ports{Lo: sp.Ports.Lo, Hi: sp.Ports.Hi}, Env: a.opts.Env, Request: a.env.request, Post: a.events.post, Wait: &a.wg,
		Console: a.console, OtherPrints: a.opts.leavesJobLinesToFirst(), OnFindings: a.status.SetFindings, Pool: a.pool,
		Facts: gather.Options{
			Program: preflight.Program{Title: s.Title, Path: s.Path, Script: s.Script, Python: s.Python, Args: s.Args, Dir: s.Dir},
			Run:     a.table.Run,
		},
	}
	if sp.Preflight != spec.PreflightOff {
		if gpu {
			o.Facts.GPU = func(ctx context.Context) (preflight.GPU, []string) { return check.WaitForGPUFacts(ctx, a.placement) }
		}
		o.Facts.WrapperLoss = a.wrapperSource(wrapper, parseErr).Start(ctx)
	}
	a.check, a.node.Facts = check.New(o), true
	return nil
}

// wrapperSource returns the source of what the wrappers lose.
func (a *agent) wrapperSource(p wrap.Prefix, parseErr error) wrap.Source {
	sp := &a.opts.Spec
	s := wrap.Source{
		ParseErr: parseErr, Dry: sp.Dry != nil, OtherPrints: a.opts.leavesJobLinesToFirst(), Wait: &a.wg,
		Probe: wrap.Options{
			Prefix: p, Path: a.build.subject.Path, Dir: a.opts.Dir, Table: a.table, Name: "gorun-probe-" + string(a.node.ID),
			Say: a.console.Say,
		},
		Node: wrap.Node{
			Env: a.opts.Env, Base: a.env.local().ExpectedBase(), Role: sp.Role, Request: a.env.request, Trusted: a.secrets.run.Given() || a.secrets.handout != nil,
			Placed: place.Names(), Devices: a.placement.VariableNames,
		},
	}
	if sp.Iface != "" {
		s.Node.Chosen = check.IfaceNames()
	}
	return s
}
