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
		a.build.built = &e
		event = a.ready()
	case placedEvent:
		a.sayPlaced(a.placing.plan.Notes, a.placing.plan.Warnings)
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
	case reportEvent:
		if a.current != nil && a.current.plan.world.Round == e.Round {
			a.current.workers.FailWorker(e.Rank, e.Message)
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
		a.start(ctx, c)
	case rendezvous.Stop:
		a.stop(c)
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
		a.console.announceRarely(c.Kind, c.Text)
	}
}
