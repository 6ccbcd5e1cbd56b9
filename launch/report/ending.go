package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

// Ending holds what one agent needs to report the end of its job.
type Ending struct {
	Job        Job
	Program    string            // the started program, as the user named it
	Node       rendezvous.NodeID // of this agent
	ErrorFile  string            // TORCHELASTIC_ERROR_FILE in gorun's environment; "": none
	Findings   json.RawMessage   // findings of the preflight that ended the job
	Brief      bool              // another agent prints the report, and this agent prints one line
	NoFiles    bool              // another agent of this machine writes the files
	Shared     bool              // agents of several nodes share this terminal
	BuildShown bool              // the terminal already shows the compiler's output
	Say        func(format string, args ...any)
	Out        io.Writer // for the text report
}

// Write reports how the job ended: on the terminal, in the file of --report and in
// gorun's own error file.
func (e *Ending) Write(o rendezvous.Outcome) {
	var found []diagnose.Finding
	if !e.Brief || e.Job.File != "" && !e.NoFiles {
		found = Explain(o)
	}
	kind := outcomeOf(o)
	switch c := o.Cause; {
	case c == nil || kind == Refused: // the agent has printed the findings
	case kind == Rendezvous:
		e.Say("%s", c.Message)
	case c.Kind == rendezvous.KindStopped:
		e.Say("stopped: %s", c.Line())
	case c.Kind == rendezvous.KindAborted:
		e.Say("%s; exit code %d", c.Line(), o.Code)
	default:
		e.writeText(o, found)
	}
	if e.NoFiles {
		return
	}
	e.copyErrorFile(o.Cause)
	if e.Job.File != "" {
		r := Report{
			RunID: e.Job.RunID, Started: e.Job.Started, Ended: time.Now(), ExitCode: o.Code, Outcome: kind,
			Cause: o.Cause, Failures: failures(o), Rounds: rounds(o.Rounds), Explanation: found, Findings: e.Findings,
		}
		if err := WriteJSON(e.Job.File, r); err != nil {
			e.Say("%v", err)
		}
	}
}

// outcomeOf classifies the end of a job.
func outcomeOf(o rendezvous.Outcome) Outcome {
	switch {
	case o.Cause == nil:
		return Succeeded
	case RefusedByChecks(o):
		return Refused
	case o.Cause.Kind == rendezvous.KindRendezvous:
		return Rendezvous
	case o.Cause.Kind == rendezvous.KindStopped, o.Cause.Kind == rendezvous.KindAborted:
		return Stopped
	default:
		return Failed
	}
}

// RefusedByChecks reports whether the preflight refused the job.
func RefusedByChecks(o rendezvous.Outcome) bool {
	return o.Preflight != nil && o.Cause != nil && o.Cause.Kind == rendezvous.KindPreflight
}

// writeText prints the failure: the full report, or one line for a brief agent.
func (e *Ending) writeText(o rendezvous.Outcome, found []diagnose.Finding) {
	cause, others := e.withoutBuildOutput(*o.Cause), failures(o)
	for i, f := range others {
		if isBuildError(&f) && (isBuildError(o.Cause) || f.Node == e.Node) {
			others[i] = e.withoutBuildOutput(f)
		}
	}
	if e.Brief {
		e.Say("job failed: %s; exit code %d", cause.Line(), o.Code)
		return
	}
	fmt.Fprint(e.Out, Text(TextInput{
		Entrypoint: e.Program, Cause: &cause, Failures: others, ExitCode: o.Code, Explanation: found,
	}))
}

// withoutBuildOutput removes a compiler's output from a cause, unless this agent must
// show it. The output is long and is shown once: by each node whose program does
// not build, and by the first of several nodes that share a terminal. Other nodes
// show its first line.
func (e *Ending) withoutBuildOutput(c rendezvous.Cause) rendezvous.Cause {
	const text = "the program does not build"
	here := c.Node == e.Node
	switch {
	case e.Brief && c.Kind == rendezvous.KindStart && c.Rank < 0:
		c.Message, c.Traceback = "", "" // the first node shows them
	case !isBuildError(&c):
	case here && e.BuildShown:
		c.Message, c.Traceback = text+" (see above)", ""
	case here || e.Shared:
		c.Message = text // the report shows the rest
	default:
		c.Traceback = ""
	}
	return c
}

// isBuildError reports whether the cause is a program that does not build.
func isBuildError(c *rendezvous.Cause) bool {
	return c.Kind == rendezvous.KindStart && c.Rank < 0 && c.Traceback != ""
}

// copyErrorFile copies the cause's error file if the cause is a worker of this
// node.
func (e *Ending) copyErrorFile(c *rendezvous.Cause) {
	if c == nil || c.ErrorFile == "" || e.ErrorFile == "" || c.Node != e.Node {
		return
	}
	code := c.ExitCode
	if c.Signal != 0 {
		code = -int(c.Signal)
	}
	if err := CopyErrorFile(c.ErrorFile, e.ErrorFile, code); err != nil {
		e.Say("%v", err)
	}
}

// failures returns the failures of an outcome. It leaves out witnesses, which did
// not fail.
func failures(o rendezvous.Outcome) []rendezvous.Cause {
	return slices.DeleteFunc(slices.Clone(o.Failures), func(c rendezvous.Cause) bool { return c.Kind == rendezvous.KindWitness })
}

// rounds converts the rounds of a job, with every rank of every node.
func rounds(records []rendezvous.Record) (all []Round) {
	for _, rec := range records {
		r := Round{
			Round: rec.World.Round, Restart: rec.World.Restart, Started: rec.Started, Ended: rec.Ended, Cause: rec.Cause,
			Shortened: rec.Shortened,
		}
		for g, m := range rec.World.Members {
			n := Node{GroupRank: g, Host: m.Host, Addr: m.Addr}
			for l := range m.Workers {
				n.Ranks = append(n.Ranks, endOf(m.FirstRank+l, l, rec.Ends))
			}
			r.Nodes = append(r.Nodes, n)
		}
		all = append(all, r)
	}
	return all
}

// endOf returns the end of a rank. The end of a rank that was never started has no
// PID.
func endOf(rank, local int, ends []rendezvous.End) rendezvous.End {
	if i := slices.IndexFunc(ends, func(e rendezvous.End) bool { return e.Rank == rank }); i >= 0 {
		e := ends[i]
		e.LocalRank = local
		return e
	}
	return rendezvous.End{Rank: rank, LocalRank: local}
}
