package reach

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// values say for each node that a fault names what is wrong with it.
func (w *speaker) values(faults []fault) []preflight.Value {
	var out []preflight.Value
	at := map[string]int{}
	add := func(text string, odd bool, nodes ...int) {
		i, ok := at[text]
		if !ok {
			i = len(out)
			at[text] = i
			out = append(out, preflight.Value{Value: text})
		}
		out[i].Odd = out[i].Odd || odd
		for _, n := range nodes {
			if k, found := slices.BinarySearch(out[i].Nodes, n); !found {
				out[i].Nodes = slices.Insert(out[i].Nodes, k, n)
			}
		}
	}
	for _, f := range faults {
		why := ": " + w.results(f.attempts)
		if w.say.undirected {
			why = ""
		}
		switch from, to := f.from, f.to; {
		case f.islands != nil:
			for i, g := range f.islands {
				add(fmt.Sprintf("group %d", i+1), len(g) < len(f.islands[0]), g...)
			}
		case from.kind == anyone && to.kind == anyone:
			add(w.say.nobody+why, false, w.members(0)...)
		case to.kind == anyone:
			add(w.direction(f, w.say.isMute)+why, true, w.points[from.id].node)
		case from.kind == anyone:
			add(w.direction(f, w.say.isDeaf)+why, true, w.points[to.id].node)
		case from.kind == onePoint && to.kind == onePoint && w.say.undirected:
			add(w.say.isCutOff+why, true, w.points[from.id].node, w.points[to.id].node)
		case from.kind == onePoint && to.kind == onePoint && f.both:
			add(fmt.Sprintf(w.say.isPair, w.name(to.id))+why, true, w.points[from.id].node)
		case from.kind == onePoint && to.kind == onePoint:
			add(fmt.Sprintf(w.say.isOneWay, w.name(to.id))+why, true, w.points[from.id].node)
		default:
			for _, h := range []half{from, to} {
				switch h.kind {
				case oneNet:
					add("in "+w.nets[h.id], from.kind == outside || to.kind == outside, w.members(h.id)...)
				case onePoint:
					p := w.points[h.id]
					add("at "+strings.TrimSpace(w.ifaces[p]+" "+p.addr), true, p.node)
				}
			}
		}
	}
	return w.oddNets(out)
}

func (w *speaker) direction(f fault, one string) string {
	if f.both {
		return w.say.isCutOff
	}
	return one
}

// oddNets marks the networks that are not the largest.
func (w *speaker) oddNets(values []preflight.Value) []preflight.Value {
	most := 0
	for _, v := range values {
		if strings.HasPrefix(v.Value, "in ") {
			most = max(most, len(v.Nodes))
		}
	}
	for i, v := range values {
		if strings.HasPrefix(v.Value, "in ") && len(v.Nodes) < most {
			values[i].Odd = true
		}
	}
	return values
}

// members are the nodes that took part, of a network or, for 0, all of them.
func (w *speaker) members(net int) []int {
	seen := map[int]bool{}
	for _, a := range w.attempts {
		from, to := w.nodes(a)
		if net == 0 || a.fromNet == net {
			seen[from] = true
		}
		if net == 0 || a.toNet == net {
			seen[to] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// matrixMost is how many nodes the matrix of a finding shows.
const matrixMost = 12

// draw shows attempts as a small matrix: all nodes of a small fleet; else those
// with the most failures, the worst first chosen, and some partners of theirs.
func (e *evidence) draw() *preflight.Matrix {
	failures := map[int]int{}
	for _, a := range e.attempts {
		from, to := e.nodes(a)
		for _, n := range [2]int{from, to} {
			failures[n] += 0
			if a.bad {
				failures[n]++
			}
		}
	}
	var nodes []int
	for n := range failures {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b int) int {
		if failures[a] != failures[b] {
			return failures[b] - failures[a]
		}
		return a - b
	})
	if len(nodes) > matrixMost {
		nodes = e.around(nodes[:matrixMost/3])
	}
	slices.Sort(nodes)
	m := &preflight.Matrix{Nodes: nodes, Cells: make([][]string, len(nodes))}
	at := map[int]int{}
	for i, n := range nodes {
		at[n] = i
		m.Cells[i] = make([]string, len(nodes))
	}
	for _, a := range e.attempts {
		from, to := e.nodes(a)
		i, okI := at[from]
		j, okJ := at[to]
		switch {
		case !okI || !okJ:
		case a.bad:
			m.Cells[i][j] = string(a.probe.Result)
		case m.Cells[i][j] == "":
			m.Cells[i][j] = string(preflight.OK)
		}
	}
	return m
}

// around adds to nodes those that they have most attempts with.
func (e *evidence) around(nodes []int) []int {
	nodes = slices.Clone(nodes)
	with := map[int]int{}
	for _, a := range e.attempts {
		from, to := e.nodes(a)
		switch f, t := slices.Contains(nodes, from), slices.Contains(nodes, to); {
		case f && !t:
			with[to]++
		case t && !f:
			with[from]++
		}
	}
	var more []int
	for n := range with {
		more = append(more, n)
	}
	slices.SortFunc(more, func(a, b int) int {
		if with[a] != with[b] {
			return with[b] - with[a]
		}
		return a - b
	})
	return append(nodes, more[:min(len(more), matrixMost-len(nodes))]...)
}
