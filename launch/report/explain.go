package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

// Explain explains the last lines of all failed workers together. The first worker
// that failed, or the one with the most output, is not always the worker to blame.
func Explain(o rendezvous.Outcome) []diagnose.Finding {
	if o.Cause == nil {
		return nil
	}
	failures := o.Failures
	if len(failures) == 0 {
		failures = []rendezvous.Cause{*o.Cause}
	}
	s := diagnose.NewScanner()
	for i := range failures {
		c := &failures[i]
		if c.Rank < 0 {
			continue
		}
		lines := strings.Join(c.Tail, "\n")
		if len(c.Tail) == 0 {
			lines = c.Traceback
		}
		s.ReadStderr(c.Rank, c.LocalRank, c.Host, lines)
		switch {
		case c.Signal != 0:
			s.RecordEnd(c.PID, -int(c.Signal))
		case c.Kind == rendezvous.KindExit:
			s.RecordEnd(c.PID, c.ExitCode)
		}
	}
	found := s.Findings()
	for i := range found {
		nameInterpreter(&found[i], failures)
	}
	return append(findEarlyExits(o, found), found...)
}

// nameInterpreter adds to the fix the Python interpreter that did not find a module.
func nameInterpreter(f *diagnose.Finding, failures []rendezvous.Cause) {
	if f.ID != "X-MODULE" {
		return
	}
	for i := range failures {
		if c := &failures[i]; c.Rank == f.Rank && c.Interpreter != "" {
			f.Fix = "the interpreter is " + c.Interpreter + ": " + f.Fix
			return
		}
	}
}

// findEarlyExits names the workers that ended with code 0 while others were connected
// to them. It finds none unless every failure is a consequence of a lost peer.
func findEarlyExits(o rendezvous.Outcome, found []diagnose.Finding) []diagnose.Finding {
	if len(found) == 0 || len(o.Rounds) == 0 || found[0].Severity == diagnose.SeverityCause || !o.Cause.Consequence {
		return nil
	}
	last := &o.Rounds[len(o.Rounds)-1]
	f := diagnose.Finding{
		ID: "X-PEER-EXITED", Row: "gorun", Severity: diagnose.SeverityCause, Rank: -1, Local: -1, Count: 1,
		Meaning: "ended with exit code 0 while others were still connected to it",
		Fix:     "every rank must take part until the last collective: look for an early return, a shorter data set or a branch of one rank, and call dist.destroy_process_group() at the end of every rank",
	}
	for _, e := range last.Ends {
		if e.ExitCode != 0 || e.Signal != 0 || e.Ended.IsZero() || e.Ended.After(o.Cause.Time) || len(f.Ranks) == maxEarlyExits {
			continue
		}
		if f.Rank < 0 {
			f.Rank, f.Local, f.Host = e.Rank, e.LocalRank, hostOf(&last.World, e.Rank)
			f.Text = fmt.Sprintf("pid %d ended %v before rank %d lost its peer", e.PID, o.Cause.Time.Sub(e.Ended).Round(time.Millisecond), o.Cause.Rank)
		}
		f.Ranks = append(f.Ranks, e.Rank)
	}
	if f.Rank < 0 {
		return nil
	}
	if len(f.Ranks) > 1 { // the ranks may run on several hosts
		f.Host = ""
	}
	slices.Sort(f.Ranks)
	return []diagnose.Finding{f}
}

// maxEarlyExits bounds the ranks that findEarlyExits names.
const maxEarlyExits = 64

// hostOf returns the host of the node on which a rank runs.
func hostOf(w *rendezvous.World, rank int) string {
	for _, m := range w.Members {
		if rank >= m.FirstRank && rank < m.FirstRank+m.Workers {
			return m.Host
		}
	}
	return ""
}
