package check

import (
	"encoding/json"
	"fmt"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// maxTable bounds a table in bytes. The first findings stay, because users fix them
// first.
const maxTable = 64 << 10

// refuseOutcome returns the outcome of a job that preflight refuses.
func refuseOutcome(p *Policy, found []preflight.Finding, f *preflight.Fleet) *rendezvous.Outcome {
	c := rendezvous.Cause{
		Kind: rendezvous.KindPreflight, GroupRank: -1, Rank: -1, LocalRank: -1,
		ExitCode: rendezvous.ExitPreflight, Message: "preflight refuses this job: " + summary(found),
	}
	return &rendezvous.Outcome{
		Code: rendezvous.ExitPreflight, Cause: &c, Failures: []rendezvous.Cause{c}, Preflight: resultOf(found, f, p.Check != nil),
	}
}

// passOutcome returns the outcome of a gorun check that found no error.
func passOutcome(p *Policy, found []preflight.Finding, f *preflight.Fleet) *rendezvous.Outcome {
	o := &rendezvous.Outcome{Preflight: resultOf(found, f, true)}
	if p.Check.Strict && preflight.Worst(found) == preflight.Warning {
		o.Code = 1
	}
	return o
}

// resultOf returns what the nodes and their users see of the comparison.
func resultOf(found []preflight.Finding, f *preflight.Fleet, check bool) *rendezvous.CheckResult {
	names := f.Names()
	table := preflight.Render(found, names, preflight.Style{Notes: check, Check: check})
	if len(table) > maxTable {
		table = table[:maxTable] + "\n...\n"
	}
	if found == nil {
		found = []preflight.Finding{}
	}
	v := &rendezvous.CheckResult{Table: table, Nodes: len(f.Nodes), Names: names, Findings: marshal(found)}
	if check {
		v.Summary = preflight.Summary(f)
	}
	return v
}

// Findings returns the findings of a result as JSON for a program: a list in which
// every group of nodes has its names.
func Findings(v *rendezvous.CheckResult) json.RawMessage {
	var found []preflight.Finding
	if err := json.Unmarshal(v.Findings, &found); err != nil || found == nil { // the result may come from another version of gorun
		return v.Findings
	}
	preflight.Named(found, v.Names)
	return marshal(found)
}

// summary names the checks that found an error.
func summary(found []preflight.Finding) string {
	text, more := "", 0
	for _, x := range found {
		switch {
		case x.Severity != preflight.Error:
		case len(text) > 200:
			more++
		case text != "":
			text += ", " + x.ID + " " + x.Title
		default:
			text = x.ID + " " + x.Title
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
