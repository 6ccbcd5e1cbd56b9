package preflight

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
)

// MaxValues bounds the values of one finding. If a value differs on every node,
// some values are shown and the rest is counted.
const MaxValues = 24

// Known iterates over the nodes that sent facts, with their group ranks.
func (f *Fleet) Known() iter.Seq2[int, *Facts] {
	return func(yield func(int, *Facts) bool) {
		for i := range f.Nodes {
			if f.Nodes[i].Format != 0 && !yield(i, &f.Nodes[i]) {
				return
			}
		}
	}
}

// Group puts the known nodes together that have the same key. The largest group
// comes first; of equally large groups, the one with the lowest group rank. It
// leaves out a node without a key: its fact is unknown, or the rule does not
// apply to it. A group is odd if another one is larger.
func (f *Fleet) Group(key func(i int, n *Facts) string) []Value {
	groups := f.Collect(func(i int, n *Facts, add func(string)) { add(key(i, n)) })
	for i := range groups {
		groups[i].Odd = len(groups[i].Nodes) < len(groups[0].Nodes)
	}
	return groups
}

// Collect groups as Group does, for nodes with several keys. No group is odd.
func (f *Fleet) Collect(keys func(i int, n *Facts, add func(string))) []Value {
	at := map[string]int{}
	var groups []Value
	for i, n := range f.Known() {
		keys(i, n, func(k string) {
			if k == "" {
				return
			}
			g, ok := at[k]
			if !ok {
				g = len(groups)
				at[k] = g
				groups = append(groups, Value{Value: k})
			}
			if nodes := groups[g].Nodes; len(nodes) == 0 || nodes[len(nodes)-1] != i {
				groups[g].Nodes = append(nodes, i)
			}
		})
	}
	slices.SortStableFunc(groups, func(a, b Value) int { return cmp.Compare(len(b.Nodes), len(a.Nodes)) })
	return f.Complete(groups)
}

// Faults groups the nodes by their fault; "" means none. All groups are odd.
func (f *Fleet) Faults(what func(i int, n *Facts) string) []Value {
	return AllOdd(f.Group(what))
}

// AllOdd marks all groups as odd.
func AllOdd(groups []Value) []Value {
	for i := range groups {
		groups[i].Odd = true
	}
	return groups
}

// Differing returns the result of Group if there are several groups, else nil.
func (f *Fleet) Differing(key func(i int, n *Facts) string) []Value {
	if groups := f.Group(key); len(groups) > 1 {
		return groups
	}
	return nil
}

// Complete bounds the groups and adds their ranks.
func (f *Fleet) Complete(groups []Value) []Value {
	if len(groups) > MaxValues {
		rest := Value{Value: "other values (" + strconv.Itoa(len(groups)-MaxValues+1) + ")", Odd: true}
		for _, g := range groups[MaxValues-1:] {
			rest.Nodes = append(rest.Nodes, g.Nodes...)
		}
		slices.Sort(rest.Nodes)
		groups = append(groups[:MaxValues-1], rest)
	}
	first := f.View().FirstRank
	for i := range groups {
		groups[i].Value = Clean(groups[i].Value, 300)
		if first != nil {
			groups[i].Ranks = ranksOf(groups[i].Nodes, first)
		}
	}
	return groups
}

// ranksOf returns the ranks of the nodes, neighbours merged. first[i] is the
// first rank of node i; first has one entry more than there are nodes.
func ranksOf(nodes, first []int) []Range {
	var ranges []Range
	for _, i := range nodes {
		r := Range{first[i], first[i+1] - 1}
		if r.Last < r.First {
			continue
		}
		if n := len(ranges); n > 0 && ranges[n-1].Last+1 == r.First {
			ranges[n-1].Last = r.Last
			continue
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// IfAny returns a finding with these values, or no finding without values.
func IfAny(values []Value, x Finding) []Finding {
	if len(values) == 0 {
		return nil
	}
	x.Values = values
	return []Finding{x}
}

// WithSteps sets the steps of findings. It computes steps only if there are
// findings.
func WithSteps(found []Finding, steps func() []Step) []Finding {
	for i := range found {
		found[i].Steps = steps()
	}
	return found
}

// Describe adds to each value what describes its nodes.
func (f *Fleet) Describe(values []Value, what func(i int) string) {
	for i := range values {
		if text := Detail(values[i].Nodes, what); text != "" {
			values[i].Value = Clean(values[i].Value+": "+text, 600)
		}
	}
}

// Detail returns what describes the first node, and says if the other nodes
// differ from it.
func Detail(nodes []int, what func(i int) string) string {
	text := what(nodes[0])
	if text != "" && slices.ContainsFunc(nodes, func(i int) bool { return what(i) != text }) {
		return "for instance " + text
	}
	return text
}

// HasMajority reports whether the first group is larger than every other one,
// so that the others should be made equal to it.
func HasMajority(values []Value) bool { return len(values) > 1 && values[1].Odd }

// NodesOutside returns the nodes that are not in the k-th group, ascending.
func NodesOutside(values []Value, k int) []int {
	var nodes []int
	for i, v := range values {
		if i != k {
			nodes = append(nodes, v.Nodes...)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// AllNodes returns the group ranks of all nodes.
func (f *Fleet) AllNodes() []int {
	list := make([]int, len(f.Nodes))
	for i := range list {
		list[i] = i
	}
	return list
}
