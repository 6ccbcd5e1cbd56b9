package reach

import (
	"cmp"
	"container/heap"
	"slices"
)

// half is one side of a fault: whom its attempts have in common there.
type half struct {
	kind kind
	id   int // of a point or a network of the evidence
}

type kind int

const (
	onePoint kind = iota
	oneNet
	outside // all other networks than the other half's
	anyone
)

// fault explains failed attempts: every attempt from its one half to its other
// half that was made failed.
type fault struct {
	from, to half
	both     bool  // the other way round, too
	attempts []int // indices of those explained, each by one fault only
	islands  [][]int
}

// blame explains the failed attempts by as few faults as a greedy choice finds:
// a node's address that nobody reaches or that reaches nobody, two networks, a
// network and an address, and what is left as single pairs. It works on any
// sample of the pairs, for a fault needs no attempt that was not made, and one
// success clears what it belongs to.
func (e *evidence) blame() []fault {
	all := e.attempts
	works := slices.ContainsFunc(all, func(a attempt) bool { return !a.bad })
	if !works && e.spread() > 2 {
		f := fault{from: half{kind: anyone}, to: half{kind: anyone}, both: true}
		for i := range all {
			f.attempts = append(f.attempts, i)
		}
		return []fault{f}
	}
	covered := make([]bool, len(all))
	var faults []fault
	for q := e.suspects(); q.Len() > 0; {
		s := heap.Pop(&q).(*suspect)
		left := slices.DeleteFunc(s.attempts, func(i int) bool { return covered[i] })
		changed := len(left) != len(s.attempts)
		s.attempts = left
		switch {
		case len(left) == 0, len(left) == 1 && s.order() < single:
		case changed:
			heap.Push(&q, s)
		default:
			for _, i := range left {
				covered[i] = true
			}
			faults = append(faults, fault{from: s.from, to: s.to, attempts: left})
		}
	}
	return pairUp(e.findIslands(e.prune(faults)))
}

// prune leaves out a fault when others explain all of its attempts as well: a
// greedy choice can begin with a network of which most nodes are broken.
func (e *evidence) prune(faults []fault) []fault {
	chosen := map[[2]half]bool{}
	for _, f := range faults {
		chosen[[2]half{f.from, f.to}] = true
	}
	another := func(f fault, i int) ([2]half, bool) {
		list, n := circles(e.attempts[i])
		for _, k := range list[:n] {
			if chosen[k] && k != [2]half{f.from, f.to} {
				return k, true
			}
		}
		return [2]half{}, false
	}
	for _, f := range faults {
		needed := slices.ContainsFunc(f.attempts, func(i int) bool { _, ok := another(f, i); return !ok })
		if !needed {
			delete(chosen, [2]half{f.from, f.to})
		}
	}
	var out []fault
	at := map[[2]half]int{}
	var spare []int
	for _, f := range faults {
		if k := [2]half{f.from, f.to}; chosen[k] {
			at[k] = len(out)
			out = append(out, f)
		} else {
			spare = append(spare, f.attempts...)
		}
	}
	for _, i := range spare {
		if k, ok := another(fault{}, i); ok {
			out[at[k]].attempts = append(out[at[k]].attempts, i)
		}
	}
	return out
}

// spread is how many nodes took part.
func (e *evidence) spread() int {
	nodes := map[int]bool{}
	for _, p := range e.points {
		nodes[p.node] = true
	}
	return len(nodes)
}

// suspect is a fault that may be.
type suspect struct {
	from, to  half
	attempts  []int
	first     [2]int // nodes of the first attempt
	many      bool   // others, too
	acquitted bool
}

// suspects are the possible faults, the one that explains most first.
func (e *evidence) suspects() queue {
	found := map[[2]half]*suspect{}
	var q queue
	for i, a := range e.attempts {
		if !a.bad {
			continue
		}
		from, to := e.nodes(a)
		list, n := circles(a)
		for _, k := range list[:n] {
			s := found[k]
			if s == nil {
				s = &suspect{from: k[0], to: k[1], first: [2]int{from, to}}
				found[k] = s
				q = append(q, s)
			}
			s.attempts = append(s.attempts, i)
			s.many = s.many || s.first != [2]int{from, to}
		}
	}
	for _, a := range e.attempts {
		if a.bad {
			continue
		}
		list, n := circles(a)
		for _, k := range list[:n] {
			if s := found[k]; s != nil {
				s.acquitted = true
			}
		}
	}
	q = slices.DeleteFunc(q, func(s *suspect) bool { return s.acquitted || s.order() < single && !s.many })
	heap.Init(&q)
	return q
}

// circles are the faults that an attempt would belong to: the first n of them.
func circles(a attempt) (list [8][2]half, n int) {
	from, to, all := half{onePoint, a.from}, half{onePoint, a.to}, half{kind: anyone}
	fromNet, toNet := half{oneNet, a.fromNet}, half{oneNet, a.toNet}
	list = [8][2]half{
		{all, to},
		{from, all},
		{from, to},
		{fromNet, toNet},
		{fromNet, to},
		{from, toNet},
		{{kind: outside}, toNet},
		{fromNet, {kind: outside}},
	}
	switch {
	case a.fromNet == 0 || a.toNet == 0:
		return list, 3
	case a.fromNet == a.toNet:
		return list, 6
	}
	return list, 8
}

// single is the order of a pair of points, the last of all.
const single = 4

// order says which of two faults that explain as much is the plainer one.
func (s *suspect) order() int {
	switch a, b := s.from.kind, s.to.kind; {
	case a == anyone || b == anyone:
		return 0
	case a == oneNet && b == oneNet:
		return 1
	case a == outside || b == outside:
		return 2
	case a == oneNet || b == oneNet:
		return 3
	default:
		return single
	}
}

// queue is a heap of suspects.
type queue []*suspect

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	return cmp.Or(len(b.attempts)-len(a.attempts), a.order()-b.order(), slices.Compare(a.attempts, b.attempts),
		int(a.from.kind-b.from.kind), int(a.to.kind-b.to.kind)) < 0
}
func (q *queue) Push(x any) { *q = append(*q, x.(*suspect)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// pairUp joins a fault with the same one in the other direction.
func pairUp(faults []fault) []fault {
	at := map[[2]half]int{}
	var out []fault
	for _, f := range faults {
		if i, ok := at[[2]half{f.to, f.from}]; ok && f.from != f.to {
			out[i].both = true
			out[i].attempts = append(out[i].attempts, f.attempts...)
			continue
		}
		at[[2]half{f.from, f.to}] = len(out)
		out = append(out, f)
	}
	return out
}
