package launch

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/rendezvous"
)

// conclude tells how the job ended: on stderr, in --report, in gorun's own
// error file.
func (a *agent) conclude(o rendezvous.Outcome) {
	a.console.clear()
	kind := report.Succeeded
	var found []diagnose.Finding
	if !a.opts.quiet() {
		found = explain(o)
	}
	if o.Preflight != nil {
		kind = a.tellVerdict(o)
	}
	if c := o.Cause; c != nil && !refused(o) {
		switch c.Kind {
		case rendezvous.KindRendezvous:
			kind = report.Rendezvous
			a.console.say("%s", c.Message)
		case rendezvous.KindStopped:
			kind = report.Stopped
			a.console.say("stopped: %s", c.Line())
		case rendezvous.KindAborted:
			kind = report.Stopped
			a.console.say("%s; exit code %d", c.Line(), o.Code)
		default:
			kind = report.Failed
			a.tellFailure(o, found)
		}
	}
	if a.opts.quiet() {
		return
	}
	if c := o.Cause; c != nil && c.ErrorFile != "" {
		if to := lookupEnv(a.opts.Env, "TORCHELASTIC_ERROR_FILE"); to != "" && c.Node == a.node.ID {
			code := c.ExitCode
			if c.Signal != 0 {
				code = -int(c.Signal)
			}
			if err := report.CopyErrorFile(c.ErrorFile, to, code); err != nil {
				a.console.say("%v", err)
			}
		}
	}
	if file := a.opts.Spec.ReportFile; file != "" {
		r := a.json(kind, o)
		r.Explanation = found
		if err := report.WriteJSON(file, r); err != nil {
			a.console.say("%v", err)
		}
	}
}

func (a *agent) tellFailure(o rendezvous.Outcome, found []diagnose.Finding) {
	cause, failures := a.worded(o)
	if a.opts.quiet() {
		a.console.say("job failed: %s; exit code %d", cause.Line(), o.Code)
		return
	}
	title := a.opts.Spec.Program
	if a.program.Title != "" {
		title = a.program.Title
	}
	fmt.Fprint(a.console.w, report.Text(report.TextInput{
		Entrypoint: title, Cause: &cause, Failures: failures, ExitCode: o.Code, Explanation: found,
	}))
}

// failed are the failures without those who only knew something.
func failed(o rendezvous.Outcome) []rendezvous.Cause {
	return slices.DeleteFunc(slices.Clone(o.Failures), func(c rendezvous.Cause) bool { return c.Kind == rendezvous.KindWitness })
}

func (a *agent) json(kind report.Outcome, o rendezvous.Outcome) report.Report {
	r := report.Report{
		RunID: a.node.RunID, Started: a.born, Ended: time.Now(), ExitCode: o.Code, Outcome: kind,
		Cause: o.Cause, Failures: failed(o),
	}
	if o.Preflight != nil {
		r.Findings = check.Findings(o.Preflight)
	}
	for _, rec := range o.Rounds {
		rd := report.Round{
			Round: rec.World.Round, Restart: rec.World.Restart, Started: rec.Started, Ended: rec.Ended, Cause: rec.Cause,
			Shortened: rec.Shortened,
		}
		for g, m := range rec.World.Members {
			n := report.Node{GroupRank: g, Host: m.Host, Addr: m.Addr}
			for l := range m.Workers {
				n.Ranks = append(n.Ranks, rankOf(m.FirstRank+l, l, rec.Ends))
			}
			rd.Nodes = append(rd.Nodes, n)
		}
		r.Rounds = append(r.Rounds, rd)
	}
	return r
}

func rankOf(rank, local int, ends []rendezvous.End) report.Rank {
	r := report.Rank{Rank: rank, LocalRank: local}
	if i := slices.IndexFunc(ends, func(e rendezvous.End) bool { return e.Rank == rank }); i >= 0 {
		e := ends[i]
		r.PID, r.ExitCode, r.Signal, r.Started, r.Ended = e.PID, e.ExitCode, e.Signal, e.Started, e.Ended
	}
	return r
}

func lookupEnv(env []string, name string) string {
	value, _ := findEnv(env, name)
	return value
}

func findEnv(env []string, name string) (value string, ok bool) {
	for _, kv := range slices.Backward(env) {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:], true
		}
	}
	return "", false
}

func hostName() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
