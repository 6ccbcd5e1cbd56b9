package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// prepare makes everything that the loop needs; finish undoes it.
func (a *agent) prepare(ctx context.Context) (finish func(), err error) {
	var undo []func()
	finish = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	sp := a.opts.Spec
	a.node = rendezvous.Node{
		ID: rendezvous.NewNodeID(), RunID: sp.RunID, Protocol: rendezvous.Protocol, Version: a.opts.Version,
		Host: hostName(), PID: os.Getpid(), Role: sp.Role, NodeRank: sp.NodeRank, Endpoint: -1,
		Min: sp.MinNodes, Max: sp.MaxNodes,
	}
	if a.node.Workers, err = a.countWorkers(ctx); err != nil {
		return finish, &UsageError{err}
	}
	if err := a.prepareWorkers(); err != nil {
		return finish, err
	}
	if err := a.prepareProgram(ctx, &undo); err != nil {
		return finish, err
	}
	if a.socket, err = openSocket(ctx, func(rank, pid int, msg string) { a.events.put(reportedEvent{rank, msg}) }); err != nil {
		return finish, err
	}
	a.config.socket = a.socket
	a.wg.Go(func() { _ = a.socket.serve(ctx) })
	if err := a.connect(ctx); err != nil {
		return finish, err
	}
	a.config.addr = a.node.Addr
	undo = append(undo, a.stores.end)
	a.watch(ctx)
	return finish, nil
}

// prepareWorkers settles what all rounds of workers have in common.
func (a *agent) prepareWorkers() error {
	sp := a.opts.Spec
	c := workersConfig{
		table: a.table, console: a.out, env: a.opts.Env, wd: a.opts.Dir, stdin: a.opts.Stdin,
		host: a.node.Host, node: a.node.ID, runID: sp.RunID, grace: sp.ShutdownTimeout, post: a.events.post,
	}
	var err error
	if c.redirect, err = logs.ParseStd(sp.Redirects); err != nil {
		return &UsageError{fmt.Errorf("--redirects: %w", err)}
	}
	if c.tee, err = logs.ParseStd(sp.Tee); err != nil {
		return &UsageError{fmt.Errorf("--tee: %w", err)}
	}
	if f := sp.ReportFile; f != "" { // not after days of training
		if info, err := os.Stat(filepath.Dir(f)); err != nil || !info.IsDir() {
			return &UsageError{fmt.Errorf("--report %s: there is no folder %s", f, filepath.Dir(f))}
		}
	}
	dir, err := logs.NewDir(sp.LogDir, sp.RunID)
	if err != nil {
		return &UsageError{err}
	}
	c.folders = newFolders(dir, sp.LogDir == "", a.node.Workers)
	a.wg.Go(c.folders.ahead)
	if sp.LogDir == "" && (c.redirect.String() != "0" || c.tee.String() != "0") && !a.opts.quiet() {
		a.console.say("the workers' output is in %s", dir.Path)
	}
	if note := envprop.OMPNote(a.opts.Env, a.node.Workers); note != "" && !a.opts.quiet() {
		a.console.say("%s", note)
	}
	a.config = c
	return nil
}

// prepareProgram looks at the program now and builds it while the nodes meet.
func (a *agent) prepareProgram(ctx context.Context, undo *[]func()) error {
	sp := a.opts.Spec
	plan, err := program.Check(program.Input{
		Program: sp.Program, Args: sp.Args, NoPython: sp.NoPython, Module: sp.Module, Dir: a.opts.Dir,
		Env: a.opts.Env, Run: runner{a.table}.run,
	})
	if err != nil && sp.MaxNodes == 1 {
		return &UsageError{err}
	}
	build := func() {
		if err == nil {
			a.program, err = plan.Build(ctx)
		}
		a.events.put(builtEvent{programCode(plan, err), err})
	}
	*undo = append(*undo, func() {
		if a.program.Cleanup != nil {
			_ = a.program.Cleanup()
		}
	})
	if err != nil || !plan.NeedsBuild() {
		build()
		return nil
	}
	a.wg.Go(build)
	return nil
}

// programCode: a program that is not there is bad input; one that does not
// build has failed.
func programCode(plan program.Plan, err error) int {
	if plan.NeedsBuild() {
		return 1
	}
	return rendezvous.ExitUsage
}
