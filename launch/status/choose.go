package status

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Selector says which job the user means.
type Selector struct {
	RunID *string // nil: the running job
	PID   int     // pid of one agent or of its keeper; 0: any agent of the job
}

// AmbiguousError is the error for a machine on which several jobs run.
type AmbiguousError struct{ Jobs [][]Agent }

func (a *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d jobs run on this machine; choose one with --run-id or --pid:", len(a.Jobs))
	for _, agents := range a.Jobs {
		first := &agents[0]
		fmt.Fprintf(&b, "\n  run %s, node %s, pid %d", printable(first.RunID), printable(nodeName(first.Host, first.Addr)), first.Keeper)
		if n := len(agents); n > 1 {
			fmt.Fprintf(&b, ", with %d agents here", n)
		}
	}
	return b.String()
}

// Choose returns the agents of the job that the user means. An Ambiguous error says
// that several jobs fit; any other error says that none fits.
func (f *SearchResult) Choose(w Selector) ([]Agent, error) {
	fits := slices.DeleteFunc(slices.Clone(f.Agents), func(a Agent) bool {
		return w.RunID != nil && a.RunID != *w.RunID || w.PID != 0 && a.PID != w.PID && a.Keeper != w.PID
	})
	switch jobs := groupByJob(fits); {
	case len(jobs) > 1:
		return nil, &AmbiguousError{jobs}
	case len(jobs) == 1:
		return jobs[0], nil
	}
	return nil, errors.New(f.explainNone(w))
}

// groupByJob groups agents by their job. Agents of one run id that have no world yet
// wait for each other or, as spares, for the one job with that id.
func groupByJob(all []Agent) (jobs [][]Agent) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Agent) int { // agents without a world come last
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.RunID, b.RunID), -cmp.Compare(a.Job, b.Job))
	})
	same := func(a, b *Agent) bool { return a.UID == b.UID && a.RunID == b.RunID }
	for i := range all {
		a := &all[i]
		fits, last := 0, -1
		for j := range jobs {
			if b := &jobs[j][0]; same(a, b) && (a.Job == b.Job || a.Job == "") {
				fits, last = fits+1, j
			}
		}
		if fits == 1 {
			jobs[last] = append(jobs[last], *a)
		} else if i := slices.IndexFunc(jobs, func(g []Agent) bool { return same(a, &g[0]) && g[0].Job == "" }); a.Job == "" && i >= 0 {
			jobs[i] = append(jobs[i], *a)
		} else {
			jobs = append(jobs, []Agent{*a})
		}
	}
	return jobs
}

// explainNone says why no job was found.
func (f *SearchResult) explainNone(w Selector) string {
	text := "no gorun job of this user runs on this machine"
	switch {
	case w.PID != 0:
		text = fmt.Sprintf("no gorun job of this user on this machine has an agent or keeper with pid %d", w.PID)
	case w.RunID != nil:
		text = fmt.Sprintf("no gorun job %q of this user runs on this machine", *w.RunID)
	}
	var details []string
	var ids []string
	for i := range f.Agents {
		ids = append(ids, printable(f.Agents[i].RunID))
	}
	if ids = slices.Compact(ids); len(ids) > 0 {
		details = append(details, "running: "+strings.Join(ids[:min(len(ids), 16)], ", "))
	}
	if len(f.NoAnswer) > 0 {
		details = append(details, f.Unanswered())
	}
	if f.OtherUsers > 0 {
		details = append(details, fmt.Sprintf("%d agents belong to other users or have another secret; give it with --secret-file or GORUN_SECRET", f.OtherUsers))
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, "; ") + ")"
	}
	return text
}

// Unanswered names the agents that did not answer, "" if there are none.
func (f *SearchResult) Unanswered() string {
	if len(f.NoAnswer) == 0 {
		return ""
	}
	var pids []string
	for _, pid := range f.NoAnswer[:min(len(f.NoAnswer), 16)] {
		pids = append(pids, fmt.Sprint(pid))
	}
	return fmt.Sprintf("gorun's agent %s did not answer within %v; is it stopped?", strings.Join(pids, ", "), helloTime)
}
