package preflight

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
)

// maxValues bounds the values of one finding: what differs on every node is
// shown by some and counted.
const maxValues = 24

// indices are the numbers below n.
func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// known goes through the nodes that sent facts, with their group ranks.
func (f *Fleet) known() iter.Seq2[int, *Facts] {
	return func(yield func(int, *Facts) bool) {
		for i := range f.Nodes {
			if f.Nodes[i].Format != 0 && !yield(i, &f.Nodes[i]) {
				return
			}
		}
	}
}

// group puts the known nodes together that have the same key, the largest group
// first and then the one with the lowest group rank. A node without a key is
// left out: its fact is unknown, or the rule does not concern it. A group is odd
// when another is larger.
func (f *Fleet) group(key func(i int, n *Facts) string) []Value {
	groups := f.collect(func(i int, n *Facts, add func(string)) { add(key(i, n)) })
	for i := range groups {
		groups[i].Odd = len(groups[i].Nodes) < len(groups[0].Nodes)
	}
	return groups
}

// collect is group for nodes with several keys; no group is odd.
func (f *Fleet) collect(keys func(i int, n *Facts, add func(string))) []Value {
	at := map[string]int{}
	var groups []Value
	for i, n := range f.known() {
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
	return f.finish(groups)
}

// faults groups the nodes in which something is wrong by what it is; "" is
// nothing. All are odd.
func (f *Fleet) faults(what func(i int, n *Facts) string) []Value {
	return odd(f.group(what))
}

func odd(groups []Value) []Value {
	for i := range groups {
		groups[i].Odd = true
	}
	return groups
}

// differ is group when there is more than one group, else nil.
func (f *Fleet) differ(key func(i int, n *Facts) string) []Value {
	if groups := f.group(key); len(groups) > 1 {
		return groups
	}
	return nil
}

// finish bounds the groups and adds their ranks.
func (f *Fleet) finish(groups []Value) []Value {
	if len(groups) > maxValues {
		rest := Value{Value: "other values (" + strconv.Itoa(len(groups)-maxValues+1) + ")", Odd: true}
		for _, g := range groups[maxValues-1:] {
			rest.Nodes = append(rest.Nodes, g.Nodes...)
		}
		slices.Sort(rest.Nodes)
		groups = append(groups[:maxValues-1], rest)
	}
	first := f.look().first
	for i := range groups {
		groups[i].Value = clean(groups[i].Value, 300)
		if first != nil {
			groups[i].Ranks = ranksOf(groups[i].Nodes, first)
		}
	}
	return groups
}

// ranksOf gives the ranks of the nodes, neighbours merged; first[i] is the first
// rank of node i, and first has one entry more than there are nodes.
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

// one is the finding that the groups are worth, nothing when there are none.
func one(values []Value, x Finding) []Finding {
	if len(values) == 0 {
		return nil
	}
	x.Values = values
	return []Finding{x}
}

// advised gives findings their steps, which are thought of only where there are
// findings.
func advised(found []Finding, steps func() []Step) []Finding {
	for i := range found {
		found[i].Steps = steps()
	}
	return found
}

// describe adds to each value what is known of its nodes.
func (f *Fleet) describe(values []Value, what func(i int) string) {
	for i := range values {
		if text := detail(values[i].Nodes, what); text != "" {
			values[i].Value = clean(values[i].Value+": "+text, 600)
		}
	}
}

// detail is what is known of the first node, and whether only of it.
func detail(nodes []int, what func(i int) string) string {
	text := what(nodes[0])
	if text != "" && slices.ContainsFunc(nodes, func(i int) bool { return what(i) != text }) {
		return "for instance " + text
	}
	return text
}
