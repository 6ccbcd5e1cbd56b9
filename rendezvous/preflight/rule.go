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
	Severity Severity // of its findings, unless a finding has its own
	Meaning  string   // what is compared, and what must hold
	Symptom  string   // what users see without the check
	Steps    []Step   // what to do about a finding without steps of its own, for the nodes that the finding marks; also an example for people
	// Check is pure and reads only nodes whose facts are known. Compare sets
	// ID, Title and Fix. It also sets Severity and Steps if they are empty.
	Check func(*Fleet) []Finding
}

// IsNamed reports whether a word is the rule's id or name, in any case.
func (r *Rule) IsNamed(word string) bool {
	return strings.EqualFold(word, r.ID) || strings.EqualFold(word, r.Name)
}

// Options says which rules Compare applies.
type Options struct {
	Ignore []string // ids or names of rules that are left out, in any case
	Only   []string // ids of the rules that are applied; nil: all
}

// Compare applies the rules to a fleet and returns the findings: errors first,
// then by id. The same fleet and rules give the same findings on every node.
func Compare(f *Fleet, rules []Rule, o Options) []Finding {
	g := *f
	g.view = newView(f)
	var all []Finding
	for _, r := range rules {
		if slices.ContainsFunc(o.Ignore, r.IsNamed) || o.Only != nil && !slices.ContainsFunc(o.Only, r.IsNamed) {
			continue
		}
		all = append(all, r.apply(&g)...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.order(), b.Severity.order()), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// apply runs the check and completes its findings.
func (r *Rule) apply(f *Fleet) []Finding {
	found := r.Check(f)
	for i := range found {
		found[i].ID, found[i].Title = r.ID, r.Name
		found[i].Severity = cmp.Or(found[i].Severity, r.Severity)
		r.addSteps(f, &found[i])
	}
	return found
}

// addSteps completes the steps of a finding and writes its fix.
func (r *Rule) addSteps(f *Fleet, x *Finding) {
	if x.Steps == nil {
		x.Steps = slices.Clone(r.Steps)
	}
	marked := Marked(x.Values)
	for k := range x.Steps {
		x.Steps[k].setNodes(marked, len(f.Nodes))
	}
	names := f.Names()
	x.Fix = describeSteps(x.Steps, func(nodes []int) string {
		if nodes == nil {
			return allNodes(names)
		}
		return nameList(nodes, names, len(names), true)
	})
}

// Worst returns the worst severity of the findings, "" without findings.
func Worst(found []Finding) Severity {
	var worst Severity
	for _, x := range found {
		if worst == "" || x.Severity.WorseThan(worst) {
			worst = x.Severity
		}
	}
	return worst
}

// order returns 0 for the worst severity and more for the others.
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

// Example returns the fix of the rule without a finding, for the documentation.
func (r *Rule) Example() string {
	steps := slices.Clone(r.Steps)
	for i := range steps {
		steps[i].setNodes([]int{0}, 2)
	}
	return describeSteps(steps, func(nodes []int) string {
		if nodes == nil {
			return "all nodes"
		}
		return "each marked node"
	})
}

// WorseThan reports whether s is worse than t.
func (s Severity) WorseThan(t Severity) bool { return s.order() < t.order() }
