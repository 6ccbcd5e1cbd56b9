package launch

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/rendezvous"
)

// conclude tells how the job ended: on stderr, in --report, in gorun's own
// error file.
func (a *agent) conclude(o rendezvous.Outcome) {
	a.console.clear()
	kind := report.Succeeded
	if c := o.Cause; c != nil {
		switch c.Kind {
		case rendezvous.KindRendezvous:
			kind = report.Rendezvous
			a.console.say("%s", c.Message)
		case rendezvous.KindStopped:
			kind = report.Stopped
			a.console.say("stopped: %s", c.Line())
		default:
			kind = report.Failed
			a.tellFailure(o)
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
		if err := report.WriteJSON(file, a.json(kind, o)); err != nil {
			a.console.say("%v", err)
		}
	}
}

func (a *agent) tellFailure(o rendezvous.Outcome) {
	if a.opts.quiet() {
		a.console.say("job failed: %s; exit code %d", o.Cause.Line(), o.Code)
		return
	}
	title := a.opts.Spec.Program
	if a.program.Title != "" {
		title = a.program.Title
	}
	fmt.Fprint(a.console.w, report.Text(report.TextInput{
		Entrypoint: title, Cause: o.Cause, Failures: o.Failures, ExitCode: o.Code,
	}))
}

func (a *agent) json(kind report.Outcome, o rendezvous.Outcome) report.Report {
	r := report.Report{
		RunID: a.node.RunID, Started: a.born, Ended: time.Now(), ExitCode: o.Code, Outcome: kind,
		Cause: o.Cause, Failures: o.Failures,
	}
	for _, rec := range o.Rounds {
		rd := report.Round{
			Round: rec.World.Round, Restart: rec.World.Restart, Started: rec.Started, Ended: rec.Ended, Cause: rec.Cause,
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
	for _, kv := range slices.Backward(env) {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

func hostName() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
