package workers

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/rendezvous"
	"golang.org/x/sys/unix"
)

// findCause finds out why a worker failed.
func (r *Round) findCause(w *worker, exit process.Exit) rendezvous.Cause {
	kind := rendezvous.KindExit
	if exit.Signal != 0 {
		kind = rendezvous.KindSignal
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	_ = w.out.Drain(ctx)
	c := r.causeWithOutput(kind, w)
	c.ExitCode, c.Signal, c.Time, c.Interpreter = max(0, exit.Code), exit.Signal, exit.At, r.opts.Plan.Program.Interpreter
	c.Consequence = diagnose.IsConsequence(c.Tail)
	c.PeerClosed = exit.Signal == unix.SIGPIPE || diagnose.ShowsClosedConnection(c.Tail)
	if text := r.opts.ReportedFailure(ctx, c.Rank); text != "" && exit.Signal == 0 {
		c.Kind, c.ExitCode, c.Message, c.Consequence, c.PeerClosed = rendezvous.KindReport, 1, text, false, false
		return c
	}
	if f, err := report.ReadErrorFile(w.out.ErrorFile); err == nil {
		c.ErrorFile, c.Message, c.Traceback, c.ErrorTime = w.out.ErrorFile, f.Message, f.Traceback, f.Time.UTC() // JSON has no year 10000, which a local time zone might reach
		if len(c.Tail) == 0 {
			lines := strings.Split(f.Traceback, "\n")
			c.Consequence, c.PeerClosed = diagnose.IsConsequence(lines), diagnose.ShowsClosedConnection(lines)
		}
	}
	return c
}

// cause returns a Cause with its place filled in; a nil worker means that it
// concerns no worker.
func (r *Round) cause(k rendezvous.Kind, w *worker) rendezvous.Cause {
	m := r.opts.Plan.Member()
	c := rendezvous.Cause{
		Kind: k, Node: m.ID, Host: m.Host, Addr: m.Addr, GroupRank: r.opts.Plan.Group,
		Rank: -1, LocalRank: -1, Role: m.Role, Time: time.Now(),
	}
	if w != nil {
		c.Rank, c.LocalRank, c.PID = w.rank, w.local, w.proc.Pid()
	}
	return c
}

// causeWithOutput returns a cause with the worker's last output.
func (r *Round) causeWithOutput(k rendezvous.Kind, w *worker) rendezvous.Cause {
	c := r.cause(k, w)
	if w != nil {
		c.Tail, c.Logs = w.out.Tail(), w.out.Files()
	}
	return c
}

// AgentFailure returns the cause for a round that ends because of an error of the
// agent.
func (r *Round) AgentFailure(err error) rendezvous.Cause {
	c := r.cause(rendezvous.KindAgent, nil)
	c.Message = err.Error()
	return c
}

// fail records a failure and posts the first one. If a worker may have failed because
// it lost a peer, fail first waits for the peer's own failure: a process closes its
// connections before it ends, and Python takes time for the rest.
func (r *Round) fail(c rendezvous.Cause) {
	r.mu.Lock()
	if err := r.applyEvent(eventFailure); err != nil {
		c = r.AgentFailure(err)
	}
	w := r.find(c.Rank)
	if w != nil && w.cause == nil {
		w.cause = &c
	}
	// What failed before is found at this moment, and posts the first failure then.
	postsLater := w != nil && r.failedUnseen(w)
	primary := r.firstFailure() != nil
	r.mu.Unlock()
	if postsLater {
		return
	}
	if c.MayFollow() && !primary && r.opts.Plan.World.Size > 1 {
		select {
		case <-time.After(peerWait):
		case <-r.stopping: // Over reports it
			return
		}
	}
	r.mu.Lock()
	first := r.posted == nil
	if first {
		r.posted = &c
		if f := r.firstFailure(); f != nil && w != nil {
			r.posted = f
		}
	}
	posted := *r.posted
	r.mu.Unlock()
	if first {
		r.opts.Post(rendezvous.Failed{Round: r.opts.Plan.World.Round, Cause: posted})
	}
}

// failedUnseen reports whether a worker failed before w and its cause is not found
// yet. The lock is held.
func (r *Round) failedUnseen(w *worker) bool {
	at, ended := w.failedAt(r)
	return ended && slices.ContainsFunc(r.workers, func(other *worker) bool {
		before, failed := other.failedAt(r)
		return other != w && failed && other.cause == nil && before.Before(at)
	})
}

// failedAt returns when a worker failed by its end or began to, false if it runs,
// succeeded or was stopped. The round's lock is held.
func (w *worker) failedAt(r *Round) (time.Time, bool) {
	exit := w.exit()
	if exit == nil {
		return time.Time{}, false
	}
	return exit.At, !exit.Success() && !(r.wasStopped() && exit.At.After(r.stopAt))
}

// firstFailure returns the first known failure of a worker that cannot follow another
// failure: by the time in the error files, which has whole seconds, and else by the order
// of the ends; nil: there is none. The lock is held.
func (r *Round) firstFailure() *rendezvous.Cause {
	var first *rendezvous.Cause
	for _, w := range r.workers {
		if w.cause == nil || w.cause.MayFollow() {
			continue
		}
		if first == nil || cmp.Or(rendezvous.CompareErrorTimes(w.cause, first), w.cause.Time.Compare(first.Time)) < 0 {
			first = w.cause
		}
	}
	return first
}

// find returns the worker of a rank, nil if it was not started. The lock is held.
func (r *Round) find(rank int) *worker {
	for _, w := range r.workers {
		if w.rank == rank {
			return w
		}
	}
	return nil
}

// FailWorker fails the round because a worker has reported its own failure.
func (r *Round) FailWorker(rank int, message string) {
	r.mu.Lock()
	w := r.find(rank)
	r.mu.Unlock()
	if w == nil {
		return
	}
	c := r.causeWithOutput(rendezvous.KindReport, w)
	c.ExitCode, c.Message = 1, message
	r.fail(c)
}

// FailDevice fails the round because a device of a rank has failed; rank -1: the
// device belongs to no rank. It returns false if the round is already being
// stopped.
func (r *Round) FailDevice(rank int, message string) bool {
	r.mu.Lock()
	ending, w := r.wasStopped(), r.find(rank)
	r.mu.Unlock()
	if ending {
		return false
	}
	c := r.causeWithOutput(rendezvous.KindGPU, w)
	c.Message = message
	r.fail(c)
	return true
}
