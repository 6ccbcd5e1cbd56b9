package launch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous"
)

// conclude reports how the job ended: on stderr, in the file of --report and in
// gorun's own error file.
func (a *agent) conclude(o rendezvous.Outcome) {
	a.console.Clear()
	a.logEnd(o)
	e := report.Ending{
		Job:     report.Job{File: a.opts.Spec.ReportFile, RunID: a.node.RunID, Started: a.started},
		Program: a.opts.Spec.Program, Node: a.node.ID,
		Brief: a.brief(o), NoFiles: a.opts.shares(), Shared: a.opts.Local != nil || a.opts.Spec.ReportOn == spec.ReportFirst,
		BuildShown: a.build.outputPrinted,
		Say:        a.console.Say, Out: a.console,
	}
	if a.build.program.Title != "" {
		e.Program = a.build.program.Title
	}
	e.ErrorFile = environ.Get(a.opts.Env, "TORCHELASTIC_ERROR_FILE")
	if o.Preflight != nil {
		a.showFindings(o)
		e.Findings = check.Findings(o.Preflight)
	}
	e.Write(o)
}

// brief reports whether another node prints the report. The second node prints it in
// the place of a first node that is lost.
func (a *agent) brief(o rendezvous.Outcome) bool {
	if c := o.Cause; c != nil && c.Kind == rendezvous.KindLost && c.GroupRank == 0 && a.opts.Local == nil && a.node.NodeRank == 1 {
		return false
	}
	return a.opts.leavesJobLinesToFirst()
}

// showFindings shows why the nodes were not started, or what gorun check found.
func (a *agent) showFindings(o rendezvous.Outcome) {
	switch c := a.opts.Spec.Check; {
	case a.brief(o):
		if c == nil {
			a.console.Say("%s; exit code %d", o.Cause.Line(), o.Code)
		}
	case c != nil && !c.JSON && o.Preflight.Table == "" && o.Cause != nil: // there is no finding, and the program cannot be started
	case c != nil:
		if err := check.Print(a.opts.Stdout, o.Preflight, c.JSON); err != nil {
			a.console.Say("cannot print the findings: %v", err)
		}
	default:
		a.console.Table(o.Preflight.Table)
	}
}

// ReportError writes the report of a job that ended with an error before an agent
// could report on it. A zero began means now: the job took no time.
func ReportError(sp spec.Spec, began time.Time, err error) error {
	code := 1
	if _, ok := errors.AsType[*UsageError](err); ok {
		code = rendezvous.ExitUsage
	}
	return report.Job{File: sp.ReportFile, RunID: sp.RunID, Started: began}.WriteError(err, code)
}

// eventLog returns the stream of torchrun's events; nil: the user wants none. torchrun
// writes them at the level INFO.
func (a *agent) eventLog() *report.EventLog {
	switch environ.Get(a.opts.Env, "LOGLEVEL") {
	case "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL":
		return nil
	}
	if a.opts.Spec.Events != spec.ConsoleEvents {
		return nil
	}
	return &report.EventLog{
		Out: a.console, RunID: a.node.RunID, Role: a.opts.Spec.Role, Host: cmp.Or(a.node.Host, hostName()), Backend: a.opts.Spec.TorchBackend(),
		Entrypoint: filepath.Base(cmp.Or(a.build.program.Path, a.opts.Spec.Program)),
	}
}

// logStart writes the events of a round that begins. The former round is nil for the
// first one; planned is how long the plan took.
func (a *agent) logStart(former *round, planned time.Duration) {
	l, r := a.eventLog(), a.workers.current
	if l == nil {
		return
	}
	met := time.Since(a.started) - planned
	e := report.Event{State: report.EventRendezvous, Restarts: r.plan.World.Restart, Took: &met}
	if former != nil {
		e.Group = former.group()
		for _, w := range former.workers.Workers() {
			if w.Exit != nil {
				met = min(met, time.Since(w.Exit.At)-planned)
			}
		}
	}
	l.Write(e)
	e.State, e.Took = report.EventRanked, &planned
	l.Write(e)
	for _, w := range r.workers.Workers() {
		w.Cause = nil // it may have failed since
		l.Write(report.Event{State: report.EventStart, Group: r.group(), Restarts: e.Restarts, Worker: r.eventWorker(w)})
	}
}

// logEnd writes the events of the job's end: those of the workers if they ran to their
// end or one of the job's workers failed, and the agent's.
func (a *agent) logEnd(o rendezvous.Outcome) {
	l, r := a.eventLog(), a.workers.current
	if l == nil || a.opts.Spec.Dry != nil || a.opts.Spec.Check != nil {
		return
	}
	e := report.Event{State: report.EventSucceeded, RunTime: time.Since(a.started)}
	if r != nil {
		e.Group, e.Restarts = r.group(), r.plan.World.Restart
	}
	if c := o.Cause; c != nil && (c.Rank < 0 || r == nil) {
		e.State, e.Error = report.EventFailed, c.Line()
		if c.Kind == rendezvous.KindStopped && c.Signal != 0 {
			e.Error = fmt.Sprintf("torch.distributed.elastic.multiprocessing.api.SignalException: Process %d got signal: %d\n", os.Getpid(), int(c.Signal))
		}
		l.Write(e)
		return
	}
	if r != nil {
		for _, w := range r.workers.Workers() {
			end := e
			end.Worker = r.eventWorker(w)
			switch {
			case end.Worker.Failure != nil:
				end.State = report.EventFailed
			case o.Cause != nil:
				end.State = report.EventTerminated
			}
			l.Write(end)
		}
	}
	l.Write(e)
}

// group returns this node's place in the round's world.
func (r *round) group() *report.EventGroup {
	return &report.EventGroup{Rank: r.plan.Group, Size: len(r.plan.World.Members)}
}

// eventWorker returns what the events tell of a worker.
func (r *round) eventWorker(w workers.Worker) *report.EventWorker {
	m := r.plan.Member()
	e := &report.EventWorker{Rank: w.Rank, LocalRank: w.LocalRank, RoleRank: m.RoleRank + w.LocalRank, RoleSize: r.plan.World.Roles[m.Role], PID: w.PID}
	if c := w.Cause; c != nil && c.Kind != rendezvous.KindWitness {
		e.Failure = &report.EventFailure{ExitCode: c.ExitCode, ErrorFile: c.ErrorFile}
		if c.Signal != 0 {
			e.Failure.ExitCode = -int(c.Signal)
		}
	}
	return e
}
