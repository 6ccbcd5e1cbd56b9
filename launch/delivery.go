package launch

import (
	"context"
	"fmt"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/deliver"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// wrapper is what stands in front of the workers' program. The error is about one
// behind which it cannot be looked.
func (a *agent) wrapper() (deliver.Prefix, error) {
	s := &a.subject
	if s.Path == "" || s.Title == "" || s.Python != "" { // nothing is started, or gorun knows how
		return deliver.Prefix{}, nil
	}
	argv := []string{s.Title}
	for _, arg := range s.Args {
		argv = append(argv, program.Substitute(arg, 0))
	}
	return deliver.Wrap(argv)
}

// delivery looks behind the wrapper while the nodes meet: what it gives waits for
// that. It is nil when there is nothing to look at.
func (a *agent) delivery(ctx context.Context, p deliver.Prefix, doubt error) func(context.Context) (*preflight.Lost, []string) {
	if doubt == nil && !p.Loses() {
		return nil
	}
	var lost *preflight.Lost
	done := make(chan struct{})
	a.wg.Go(func() {
		defer close(done)
		if doubt == nil {
			lost, doubt = a.behind(ctx, p)
		}
		if doubt != nil && ctx.Err() == nil && !a.opts.quiet() {
			a.events.Put(noteEvent{fmt.Sprintf("preflight: cannot see which variables reach the program: %v", doubt)})
		}
	})
	return func(ctx context.Context) (*preflight.Lost, []string) {
		select {
		case <-done:
		case <-ctx.Done(): // whoever gathers says so
			return nil, nil
		}
		if doubt != nil {
			return nil, []string{doubt.Error()}
		}
		return lost, nil
	}
}

// behind asks with the environment of a made-up worker, since the world is not
// known yet: values that nobody else has, so that a replaced one is seen.
func (a *agent) behind(ctx context.Context, p deliver.Prefix) (*preflight.Lost, error) {
	made := envprop.Vars{
		Rank: 7, LocalRank: 5, GroupRank: 3, RoleRank: 6, WorldSize: 11, LocalWorldSize: 9, GroupWorldSize: 8, RoleWorldSize: 10,
		RoleName: a.opts.Spec.Role, MasterAddr: "192.0.2.1", MasterPort: 9, RestartCount: 1, MaxRestarts: 2,
		RunID: a.opts.Spec.RunID, Round: 4, WorkerSocket: "/dev/null", NodeAddr: "192.0.2.2", WorldToken: "none",
	}
	var own []string
	for _, e := range envprop.NewBase(nil).Worker(made) {
		name, _, _ := strings.Cut(e, "=")
		own = append(own, name)
	}
	o := deliver.Options{
		Prefix: p, Path: a.subject.Path, Dir: a.opts.Dir, Table: a.table,
		Sent: deliver.Sent{Env: a.guess().Worker(made), Own: own},
		Name: "gorun-probe-" + string(a.node.ID),
		Say:  func(format string, args ...any) { a.events.Put(noteEvent{fmt.Sprintf(format, args...)}) },
	}
	lost, err := deliver.Probe(ctx, o)
	if err != nil {
		return nil, err
	}
	out := &preflight.Lost{Wrapper: p.Name(), Missing: lost.Missing, Changed: lost.Changed, Forced: lost.Forced}
	if lost.Any() {
		home, _ := findEnv(a.opts.Env, "HOME")
		out.Fix = strings.Split(p.Fix(lost, func(name string) string { return deliver.StartFile("", home, name) }), "\n")
	}
	return out, nil
}
