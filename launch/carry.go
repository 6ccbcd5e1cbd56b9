package launch

import (
	"context"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// handle feeds one event to the machine and does what it commands.
func (a *agent) handle(ctx context.Context, e any) *rendezvous.Outcome {
	var event rendezvous.Event
	switch e := e.(type) {
	case rendezvous.Event:
		event = e
	case builtEvent:
		a.built = &e
		event = a.ready()
	case placedEvent:
		a.sayNotes()
		event = a.ready()
	case endedEvent:
		a.killAt = time.Now()
	case gpuEvent:
		a.gpuFailed(e.Event)
	case seenEvent:
		a.misplaced(e.Finding)
	case signalEvent:
		event = a.signalled(e.sig)
	case keeperEvent:
		return a.abandon()
	case failedEvent:
		event = rendezvous.StopJob{Cause: a.self(e.kind, e.text)}
	case statusEvent:
		a.serveStatus(ctx)
	case inspectEvent:
		var done func()
		event, done = a.inspected(ctx, e)
		defer done()
	case noteEvent:
		a.console.say("%s", e.text)
	case unkeptEvent:
		a.sayUnkept()
	case tableEvent:
		if !a.opts.quiet() {
			a.console.table(e.text)
		}
	case reportedEvent:
		if a.current != nil && a.current.world.Round == e.round {
			a.current.reported(e.rank, e.message)
		}
	}
	if event == nil {
		return nil
	}
	var outcome *rendezvous.Outcome
	for c := range a.machine.Step(ctx, event) {
		if f, ok := c.(rendezvous.Finish); ok {
			outcome = &f.Outcome
		}
		a.do(ctx, c)
	}
	return outcome
}

func (a *agent) do(ctx context.Context, c rendezvous.Command) {
	switch c := c.(type) {
	case rendezvous.Admit:
		a.session.Store.Admit(c.Clients)
	case rendezvous.Start:
		if w := c.World; w.Restart > 0 && !a.opts.quiet() {
			a.console.say("restart %d of %d: %d workers on %d nodes", w.Restart, w.MaxRestarts, w.Size, len(w.Members))
		}
		a.status.job.Store(c.World.Job)
		a.session.Joined()
		a.socket.begin(c.World.Round)
		cfg := a.config
		cfg.program = a.program
		cfg.slots, cfg.release = a.devices.slots, a.releaser()
		w := newWorkers(cfg, c.World, c.Index)
		w.env, w.unfit = a.base(c)
		if a.opts.Spec.Dry != nil {
			a.show(w)
			return
		}
		a.current = w
		a.current.start()
		a.watchGPUs(ctx, a.current)
		a.serveStatus(ctx)
		a.noteThreads(w)
		if c.Index == 0 && !a.opts.quiet() { // this node serves the store
			watch, end := context.WithCancel(ctx)
			a.endWatch = end
			server := a.session.Store.Server()
			a.wg.Go(func() { a.watchArrivals(watch, w, server) })
		}
	case rendezvous.Stop:
		a.stop(ctx, c)
	case rendezvous.Show:
		if c.Status != nil && c.Status.Phase == "stopping" {
			c.Status = stopping(*c.Status, time.Until(a.killAt), a.signals)
		}
		a.console.status(c.Status)
	case rendezvous.Compare, rendezvous.Ask:
		a.examined(ctx, c)
	case rendezvous.Report:
		a.reports(c.Serial)
	case rendezvous.Present:
		a.present(c)
	case rendezvous.Note:
		if !a.opts.quiet() {
			a.console.SayRarely(c.Kind, c.Text)
		}
	}
}

// stop ends the workers beside the loop, which stays free for a second signal.
func (a *agent) stop(ctx context.Context, c rendezvous.Stop) {
	w := a.current
	if w == nil { // nothing was started
		a.events.post(rendezvous.Over{Round: c.Round, Store: a.node.Store})
		return
	}
	a.killAt = time.Now()
	if !c.Kill {
		a.killAt = a.killAt.Add(a.config.grace)
	}
	if !a.opts.quiet() && !c.Kill {
		a.console.say("%s; stopping the workers", c.Cause.Line())
	}
	a.endWatchGPUs()
	if a.endWatch != nil {
		a.endWatch()
		a.endWatch = nil
		if text := w.missing(a.session.Store.Server()); text != "" {
			a.console.say("when it failed, %s", text)
		}
	}
	a.wg.Go(func() {
		a.socket.abort(c.Cause)
		w.stop(c.Signal, c.Kill, func() (string, error) { return a.session.Store.Next(&w.world, w.group, a.node.Min != a.node.Max) })
	})
}
