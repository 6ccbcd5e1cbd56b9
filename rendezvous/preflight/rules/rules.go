package rules

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/reach"
)

// All returns the rules of every family, by id.
func All() []preflight.Rule {
	all := slices.Concat(
		versionRules(),
		choiceRules(), linkRules(), glooRules(), reach.Rules(), ifaceRules(),
		jobRules(), programRules(),
		transportRules(), adapterRules(),
		agreeRules(), forcedRules(), unreadRules(), deliveryRules(), namedFileRules(),
		gpuRules(), deviceRules(), healthRules(), modelRules(), hostRules(),
		memoryRules(), limitRules(), workerLimitRules(),
		leftoverRules(),
		unknownRules(),
	)
	slices.SortFunc(all, func(a, b preflight.Rule) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// bySeverity returns a finding for each severity of faults: fault adds those of
// a node, and finding describes those of one severity on the nodes that have
// them.
func bySeverity(f *preflight.Fleet, fault func(i int, n *preflight.Facts, add func(s preflight.Severity, text string)), finding func(s preflight.Severity, nodes []int) preflight.Finding) []preflight.Finding {
	var all []preflight.Finding
	for _, severity := range []preflight.Severity{preflight.Error, preflight.Warning, preflight.Note} {
		values := preflight.AllOdd(f.Collect(func(i int, n *preflight.Facts, add func(string)) {
			fault(i, n, func(s preflight.Severity, text string) {
				if s == severity {
					add(text)
				}
			})
		}))
		if len(values) == 0 {
			continue
		}
		x := finding(severity, preflight.Marked(values))
		x.Severity, x.Values = severity, values
		all = append(all, x)
	}
	return all
}

// errorIf returns Error if the condition holds, else Warning.
func errorIf(condition bool) preflight.Severity {
	if condition {
		return preflight.Error
	}
	return preflight.Warning
}
