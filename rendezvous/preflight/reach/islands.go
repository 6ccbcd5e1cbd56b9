package reach

import "slices"

// scattered is how many single pairs it takes to look for islands behind them.
const scattered = 4

// findIslands replaces single pairs by one fault when they all lie between
// groups of nodes that have no connection to each other: a network that is cut
// in pieces which share a subnet. Nodes that another fault explains do not count.
func (e *evidence) findIslands(faults []fault) []fault {
	blamed := map[int]bool{}
	var pairs []fault
	var rest []fault
	for _, f := range faults {
		if f.from.kind == onePoint && f.to.kind == onePoint {
			pairs = append(pairs, f)
			continue
		}
		rest = append(rest, f)
		for _, h := range []half{f.from, f.to} {
			if h.kind == onePoint {
				blamed[e.points[h.id].node] = true
			}
		}
	}
	if len(pairs) < scattered {
		return faults
	}
	groups := e.connected(blamed)
	if len(groups) < 2 {
		return faults
	}
	island := map[int]int{}
	for g, nodes := range groups {
		for _, n := range nodes {
			island[n] = g
		}
	}
	cut := fault{from: half{kind: anyone}, to: half{kind: anyone}, both: true, islands: groups}
	for _, p := range pairs {
		a, okA := island[e.points[p.from.id].node]
		b, okB := island[e.points[p.to.id].node]
		if okA && okB && a != b {
			cut.attempts = append(cut.attempts, p.attempts...)
			continue
		}
		rest = append(rest, p)
	}
	if len(cut.attempts) == 0 {
		return faults
	}
	return append(rest, cut)
}

// connected gives the groups of nodes that good attempts connect, the largest
// first, without the nodes left out.
func (e *evidence) connected(out map[int]bool) [][]int {
	parent := map[int]int{}
	var find func(n int) int
	find = func(n int) int {
		p, ok := parent[n]
		if !ok {
			parent[n] = n
			return n
		}
		if p != n {
			p = find(p)
			parent[n] = p
		}
		return p
	}
	for _, a := range e.attempts {
		from, to := e.nodes(a)
		if out[from] || out[to] {
			continue
		}
		x, y := find(from), find(to)
		if !a.bad {
			parent[max(x, y)] = min(x, y)
		}
	}
	members := map[int][]int{}
	for n := range parent {
		members[find(n)] = append(members[find(n)], n)
	}
	var groups [][]int
	for _, g := range members {
		slices.Sort(g)
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b []int) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return a[0] - b[0]
	})
	return groups
}
