package launch

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/gorun/gorun/launch/arrivals"
	"github.com/gorun/gorun/launch/logs"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
)

// round is the round that runs on this node, or ran last.
type round struct {
	plan        *plan
	workers     *workers.Round
	endArrivals context.CancelFunc // ends the watch for missing workers; nil: there is none
}

// output is where the workers' output goes.
type output struct {
	folders       *logs.Folders
	redirect, tee logs.StdSpec
}

// start starts this node's workers of a world, or shows what they would get.
func (a *agent) start(ctx context.Context, c rendezvous.Start) {
	if w := c.World; w.Restart > 0 && !a.opts.quiet() {
		a.console.say("restart %d of %d: %d workers on %d nodes", w.Restart, w.MaxRestarts, w.Size, len(w.Members))
	}
	a.status.job.Store(c.World.Job)
	a.session.Joined()
	a.socket.Begin(c.World.Round)
	p := a.newPlan(ctx, c)
	if a.opts.Spec.Dry != nil {
		a.show(p)
		return
	}
	r := &round{plan: p, workers: workers.New(a.roundOptions(p))}
	a.current = r
	r.workers.Start()
	a.wg.Go(func() { p.files() }) // gorun env is to tell what the workers found, not what is there later
	a.watchGPUs(ctx, r)
	a.serveStatus(ctx)
	a.noteThreads(p)
	if p.group == 0 && !a.opts.quiet() { // this node serves the store
		ctx, r.endArrivals = context.WithCancel(ctx)
		expected := a.arrivals(r)
		a.wg.Go(func() { expected.Watch(ctx, a.note) })
	}
}

// roundOptions is what package workers needs for a round.
func (a *agent) roundOptions(p *plan) workers.Options {
	m := p.member()
	return workers.Options{
		Table: workers.Processes(a.table), World: p.world, Group: p.group, Interpreter: p.program.Interpreter,
		Command: func(local int, errorFile string) process.Spec {
			return process.Spec{
				Path: p.program.Path, Args: p.program.Argv(local), Env: p.environ(local, errorFile), Dir: p.dir,
				Stdin: a.opts.Stdin, Around: p.devices.Slot(local).Binding.Around(),
			}
		},
		Open: func(local int) (*logs.Worker, error) {
			if p.err != nil {
				return nil, p.err
			}
			return logs.Open(logs.WorkerOptions{
				LocalRank: local, Dir: p.folder, Console: a.out,
				Redirect: a.output.redirect.For(local), Tee: a.output.tee.For(local),
				Prefix: logs.DefaultPrefix(m.Role, local),
				Unkept: func(path string, err error) { a.sayLoss(m.FirstRank+local, path, err) },
			})
		},
		ReportedFailure: a.socket.ReportedFailure, Release: a.releaser(p), Post: a.events.post,
	}
}

// stop ends the workers beside the loop, which stays free for a second signal.
func (a *agent) stop(c rendezvous.Stop) {
	r := a.current
	if r == nil { // nothing was started
		a.events.post(rendezvous.Over{Round: c.Round, Store: a.node.Store})
		return
	}
	o := process.StopOptions{Signal: c.Signal, Grace: a.opts.Spec.ShutdownTimeout}
	if c.Kill {
		o.Grace = 0
	} else if !a.opts.quiet() {
		a.console.say("%s; stopping the workers", c.Cause.Line())
	}
	a.killAt = time.Now().Add(o.Grace)
	a.endWatchGPUs()
	if r.endArrivals != nil {
		r.endArrivals()
		r.endArrivals = nil
		if text := a.arrivals(r).Missing(); text != "" {
			a.console.say("when it failed, %s", text)
		}
	}
	a.wg.Go(func() {
		a.socket.Abort(c.Cause)
		if c.Kill {
			r.workers.SkipDeviceWait()
		}
		over, ok := r.workers.Stop(o)
		if !ok { // the first stop tells
			return
		}
		var err error
		if over.Store, err = a.session.Store.Next(&r.plan.world, r.plan.group, a.node.Min != a.node.Max); err != nil {
			over.Failures = append(over.Failures, r.workers.AgentFailure(err))
		}
		a.events.post(over)
	})
}

// arrivals finds the workers that have not come to the store that this node serves.
func (a *agent) arrivals(r *round) arrivals.Round {
	return arrivals.Round{World: &r.plan.world, Group: r.plan.group, PIDs: r.pids, Store: a.session.Store.Server()}
}

// pids gives the rank of each worker's process.
func (r *round) pids() map[int]int {
	all := map[int]int{}
	for _, w := range r.workers.Workers() {
		all[w.PID] = w.Rank
	}
	return all
}

// sayLoss says that a log file does not get what a worker prints: a full disk
// costs the log, not the job.
func (a *agent) sayLoss(rank int, path string, err error) {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the path is said already
	}
	a.console.say("rank %d: cannot write %s: %v; what it prints is no longer kept there", rank, path, err)
}
