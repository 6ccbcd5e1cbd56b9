package preflight

import (
	"cmp"
	"slices"
)

// Options of Compare.
type Options struct {
	Ignore []string // ids or names of rules that are not asked, in any case
	Only   []string // ids of rules; the others are not asked. nil: all
}

// Compare asks every rule and gives what they found: errors first, then by id.
// The same fleet gives the same findings, whoever asks.
func Compare(f *Fleet, o Options) []Finding {
	g := *f
	g.seen = look(f)
	var all []Finding
	for _, r := range Rules() {
		if slices.ContainsFunc(o.Ignore, r.Called) || o.Only != nil && !slices.ContainsFunc(o.Only, r.Called) {
			continue
		}
		all = append(all, r.ask(&g)...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.order(), b.Severity.order()), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// ask runs the check and completes what it found.
func (r *Rule) ask(f *Fleet) []Finding {
	found := r.Check(f)
	for i := range found {
		found[i].ID, found[i].Title = r.ID, r.Name
		found[i].Severity = cmp.Or(found[i].Severity, r.Severity)
		r.advise(f, &found[i])
	}
	return found
}

// advise completes what a finding says to do.
func (r *Rule) advise(f *Fleet, x *Finding) {
	if x.Steps == nil {
		x.Steps = slices.Clone(r.Steps)
	}
	who := marked(x.Values)
	for k := range x.Steps {
		x.Steps[k].place(who, len(f.Nodes))
	}
	names := f.Names()
	x.Fix = telling(x.Steps, func(nodes []int) string {
		if nodes == nil {
			return everyone(names)
		}
		return nameList(nodes, names, len(names), true)
	})
}

// Worst is the gravest severity of the findings, "" when there are none.
func Worst(found []Finding) Severity {
	var worst Severity
	for _, x := range found {
		if worst == "" || x.Severity.order() < worst.order() {
			worst = x.Severity
		}
	}
	return worst
}

// order is 0 for the gravest.
func (s Severity) order() int {
	switch s {
	case Error:
		return 0
	case Warning:
		return 1
	default:
		return 2
	}
}
