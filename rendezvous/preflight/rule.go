package preflight

import (
	"cmp"
	"slices"
	"strings"
)

// Rule is one check of a fleet.
type Rule struct {
	ID       string   // "V01": unique and stable
	Name     string   // "nccl-version": unique, too; --ignore takes either
	Severity Severity // of what it finds; a finding of its own may have another
	Meaning  string   // what is compared, and what must hold
	Users    string   // what users see when nobody checks
	Steps    []Step   // what to do about a finding that has none of its own, and an example for people; for the nodes that it marks
	// Check is pure and looks only at nodes whose facts are known. Compare
	// fills in ID and Title, Severity and Steps where they are empty, and Fix.
	Check func(*Fleet) []Finding
}

// Called reports whether a person may mean the rule by this id or name.
func (r *Rule) Called(word string) bool {
	return strings.EqualFold(word, r.ID) || strings.EqualFold(word, r.Name)
}

// Options of Compare.
type Options struct {
	Ignore []string // ids or names of rules that are not asked, in any case
	Only   []string // ids of rules; the others are not asked. nil: all
}

// Compare applies the rules to a fleet and returns the findings: errors first,
// then by id. The same fleet and rules give the same findings on every node.
func Compare(f *Fleet, rules []Rule, o Options) []Finding {
	g := *f
	g.seen = look(f)
	var all []Finding
	for _, r := range rules {
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
	who := Marked(x.Values)
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
		if worst == "" || x.Severity.WorseThan(worst) {
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

// Example is what to do about a finding of the rule, for people who have none.
func (r *Rule) Example() string {
	steps := slices.Clone(r.Steps)
	for i := range steps {
		steps[i].place([]int{0}, 2)
	}
	return telling(steps, func(nodes []int) string {
		if nodes == nil {
			return "all nodes"
		}
		return "each marked node"
	})
}

// WorseThan reports whether s is graver than t.
func (s Severity) WorseThan(t Severity) bool { return s.order() < t.order() }
