package launch

import (
	"errors"
	"time"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
)

// ReportError writes the report of a job that ended with an error before any
// agent could report on it. A zero began is now: the job has taken no time.
func ReportError(sp spec.Spec, began time.Time, err error) error {
	c := noWorker(rendezvous.KindAgent, 1, err.Error())
	if _, ok := errors.AsType[*UsageError](err); ok {
		c.Kind, c.ExitCode = rendezvous.KindStart, rendezvous.ExitUsage
	}
	if began.IsZero() {
		began = c.Time
	}
	return reportEnd(sp, began, c.ExitCode, c)
}

// ReportKilled is for the keeper of the agent that should have written the report
// and was killed, as e says; code is the keeper's own.
func ReportKilled(sp spec.Spec, began time.Time, code int, e process.Exit) error {
	c := noWorker(rendezvous.KindLost, e.Status(), "the agent "+e.String())
	c.Signal = e.Signal
	return reportEnd(sp, began, code, c)
}

// noWorker is a cause from a process that may know nothing of the job.
func noWorker(k rendezvous.Kind, code int, text string) rendezvous.Cause {
	return rendezvous.Cause{
		Kind: k, Host: hostName(), GroupRank: -1, Rank: -1, LocalRank: -1, ExitCode: code, Message: text, Time: time.Now(),
	}
}

func reportEnd(sp spec.Spec, began time.Time, code int, c rendezvous.Cause) error {
	if sp.ReportFile == "" {
		return nil
	}
	return report.WriteJSON(sp.ReportFile, report.Report{
		RunID: sp.RunID, Started: began, Ended: c.Time, ExitCode: code, Outcome: report.Failed,
		Cause: &c, Failures: []rendezvous.Cause{c},
	})
}

// unreported: this agent ends with an error, and no conclusion follows.
func (a *agent) unreported(err error) {
	if a.opts.quiet() {
		return
	}
	if err := ReportError(a.opts.Spec, a.born, err); err != nil {
		a.console.say("%v", err)
	}
}
