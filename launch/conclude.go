package launch

import (
	"errors"
	"time"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous"
)

// conclude reports how the job ended: on stderr, in the file of --report and in
// gorun's own error file.
func (a *agent) conclude(o rendezvous.Outcome) {
	a.console.Clear()
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
