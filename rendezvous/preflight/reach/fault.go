package reach

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// cell is a path as one rule classifies it.
type cell struct {
	*path
	bad   bool
	probe *preflight.Probe // the first bad probe if there is one
}

// evidence is the matrix as one rule classifies it.
type evidence struct {
	*matrix
	cells []cell
}

// classify keeps the paths for which of returns a probe: a bad probe, or a good
// one if no probe is bad. It returns nil if no path is bad.
func (m *matrix) classify(of func(*path) (p *preflight.Probe, bad bool)) *evidence {
	e, anyBad := &evidence{matrix: m}, false
	for _, x := range m.paths {
		if p, bad := of(x); p != nil {
			e.cells = append(e.cells, cell{x, bad, p})
			anyBad = anyBad || bad
		}
	}
	if !anyBad {
		return nil
	}
	return e
}

// nodes returns the nodes between which a cell's probes were made.
func (e *evidence) nodes(c cell) (from, to int) { return e.points[c.from].node, e.points[c.to].node }

// side is one end of a fault.
type side struct {
	kind kind
	id   int // of a point or a network of the matrix
}

type kind int

const (
	anyNode kind = iota
	onePoint
	oneNet
)

// fault explains bad cells. Every cell from its from side to its to side is
// bad.
type fault struct {
	from, to side
	both     bool    // the fault holds in the other direction, too
	cells    []int   // indices of the explained cells; each cell belongs to one fault only
	islands  [][]int // groups of nodes without a good cell between the groups
}

// explain finds few faults for all bad cells: a point without a connection in
// one or both directions, two networks, a network and a point, and single pairs
// for the rest. It takes the fault that explains most cells first. Any sample
// of the pairs will do, because one good cell clears every fault that it
// belongs to.
func (e *evidence) explain() []fault {
	works := slices.ContainsFunc(e.cells, func(c cell) bool { return !c.bad })
	if !works && len(e.members(0)) > 2 {
		f := fault{both: true}
		for i := range e.cells {
			f.cells = append(f.cells, i)
		}
		return []fault{f}
	}
	covered := make([]bool, len(e.cells))
	var faults []fault
	for _, f := range e.candidates() {
		f.cells = slices.DeleteFunc(f.cells, func(i int) bool { return covered[i] })
		if len(f.cells) == 0 || len(f.cells) == 1 && !f.isPair() {
			continue
		}
		for _, i := range f.cells {
			covered[i] = true
		}
		faults = append(faults, f)
	}
	return joinDirections(e.joinIslands(e.prune(faults)))
}

// isPair reports whether the fault is between two points only.
func (f *fault) isPair() bool { return f.from.kind == onePoint && f.to.kind == onePoint }

// rank orders faults that explain the same number of cells: the plainer fault
// comes first.
func (f *fault) rank() int {
	switch a, b := f.from.kind, f.to.kind; {
	case a == anyNode || b == anyNode:
		return 0
	case a == oneNet && b == oneNet:
		return 1
	case a == oneNet || b == oneNet:
		return 2
	}
	return 3
}

// candidates returns the faults that no good cell clears, the largest first. A
// fault between one pair of nodes only is a candidate as a pair.
func (e *evidence) candidates() []fault {
	type candidate struct {
		fault
		nodes   [2]int // of the first cell
		several bool   // cells of other nodes belong to it, too
		cleared bool
	}
	found := map[[2]side]*candidate{}
	var order []*candidate
	for i, c := range e.cells {
		if !c.bad {
			continue
		}
		from, to := e.nodes(c)
		sides, n := e.sides(c)
		for _, k := range sides[:n] {
			s := found[k]
			if s == nil {
				s = &candidate{fault: fault{from: k[0], to: k[1]}, nodes: [2]int{from, to}}
				found[k] = s
				order = append(order, s)
			}
			s.cells = append(s.cells, i)
			s.several = s.several || s.nodes != [2]int{from, to}
		}
	}
	for _, c := range e.cells {
		if c.bad {
			continue
		}
		sides, n := e.sides(c)
		for _, k := range sides[:n] {
			if s := found[k]; s != nil {
				s.cleared = true
			}
		}
	}
	var out []fault
	for _, s := range order {
		if !s.cleared && (s.several || s.isPair()) {
			out = append(out, s.fault)
		}
	}
	slices.SortStableFunc(out, func(a, b fault) int {
		return cmp.Or(len(b.cells)-len(a.cells), a.rank()-b.rank(), slices.Compare(a.cells, b.cells))
	})
	return out
}

// sides returns the faults that could explain a cell: the first n of list.
func (e *evidence) sides(c cell) (list [6][2]side, n int) {
	from, to := side{onePoint, c.from}, side{onePoint, c.to}
	fromNet, toNet := side{oneNet, e.points[c.from].net}, side{oneNet, e.points[c.to].net}
	list = [6][2]side{{{}, to}, {from, {}}, {from, to}, {fromNet, toNet}, {fromNet, to}, {from, toNet}}
	if fromNet.id == 0 || toNet.id == 0 {
		return list, 3
	}
	return list, len(list)
}

// prune leaves out a fault if others explain all of its cells as well, because
// the largest candidate can be a network in which most nodes are broken.
func (e *evidence) prune(faults []fault) []fault {
	chosen := map[[2]side]*fault{}
	for i := range faults {
		chosen[[2]side{faults[i].from, faults[i].to}] = &faults[i]
	}
	other := func(f *fault, i int) *fault {
		sides, n := e.sides(e.cells[i])
		for _, k := range sides[:n] {
			if g := chosen[k]; g != nil && g != f {
				return g
			}
		}
		return nil
	}
	for i := range faults {
		f := &faults[i]
		if slices.ContainsFunc(f.cells, func(c int) bool { return other(f, c) == nil }) {
			continue
		}
		delete(chosen, [2]side{f.from, f.to})
		for _, c := range f.cells {
			g := other(f, c)
			g.cells = append(g.cells, c)
		}
	}
	return slices.DeleteFunc(faults, func(f fault) bool { return chosen[[2]side{f.from, f.to}] == nil })
}

// joinDirections joins a fault with the same one in the other direction.
func joinDirections(faults []fault) []fault {
	at := map[[2]side]int{}
	var out []fault
	for _, f := range faults {
		if i, ok := at[[2]side{f.to, f.from}]; ok && f.from != f.to {
			out[i].both = true
			out[i].cells = append(out[i].cells, f.cells...)
			continue
		}
		at[[2]side{f.from, f.to}] = len(out)
		out = append(out, f)
	}
	return out
}

// islandPairs is how many single pairs make joinIslands look for islands behind
// them.
const islandPairs = 4

// joinIslands joins the single pairs between groups of nodes without a good
// cell between the groups: a subnet that is split. Nodes that another fault
// explains do not count.
func (e *evidence) joinIslands(faults []fault) []fault {
	explained, pairs := map[int]bool{}, 0
	for _, f := range faults {
		if f.isPair() {
			pairs++
			continue
		}
		for _, s := range []side{f.from, f.to} {
			if s.kind == onePoint {
				explained[e.points[s.id].node] = true
			}
		}
	}
	if pairs < islandPairs {
		return faults
	}
	groups := e.connected(explained)
	island := map[int]int{} // of each node, from 1
	for g, nodes := range groups {
		for _, n := range nodes {
			island[n] = g + 1
		}
	}
	cut := fault{both: true, islands: groups}
	rest := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		if !f.isPair() {
			return false
		}
		a, b := island[e.points[f.from.id].node], island[e.points[f.to.id].node]
		if a == 0 || b == 0 || a == b {
			return false
		}
		cut.cells = append(cut.cells, f.cells...)
		return true
	})
	if len(cut.cells) == 0 {
		return faults
	}
	return append(rest, cut)
}

// connected groups the nodes that good cells connect, the largest group first.
// It leaves out the excluded nodes.
func (e *evidence) connected(excluded map[int]bool) [][]int {
	next := map[int][]int{} // neighbours of each node
	for _, c := range e.cells {
		from, to := e.nodes(c)
		if excluded[from] || excluded[to] {
			continue
		}
		next[from], next[to] = append(next[from], from), append(next[to], to)
		if !c.bad {
			next[from], next[to] = append(next[from], to), append(next[to], from)
		}
	}
	seen := map[int]bool{}
	var groups [][]int
	for _, n := range slices.Sorted(maps.Keys(next)) {
		if seen[n] {
			continue
		}
		seen[n] = true
		group := []int{n}
		for i := 0; i < len(group); i++ {
			for _, k := range next[group[i]] {
				if !seen[k] {
					seen[k] = true
					group = append(group, k)
				}
			}
		}
		slices.Sort(group)
		groups = append(groups, group)
	}
	slices.SortStableFunc(groups, func(a, b []int) int { return len(b) - len(a) })
	return groups
}

// members returns the nodes of a network that took part or, for 0, all nodes
// that took part.
func (e *evidence) members(net int) []int {
	seen := map[int]bool{}
	for _, c := range e.cells {
		for _, i := range [2]int{c.from, c.to} {
			if p := e.points[i]; net == 0 || p.net == net {
				seen[p.node] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
