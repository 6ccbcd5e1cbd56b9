package hang

import (
	"maps"
	"slices"
	"time"
)

// closedTime is the age of a call from which it counts in a closed cycle. Before that
// another goroutine of a rank may still make the call that the others wait for.
const closedTime = 2 * time.Second

// graph is which ranks wait for which, by their calls of package worker.
type graph struct {
	signs   map[int]*Sign
	members map[uint64]map[int]int // by communicator: world rank of each of its ranks
}

// newGraph makes a graph of the signs of a world.
func newGraph(signs []Sign) *graph {
	g := &graph{map[int]*Sign{}, map[uint64]map[int]int{0: {}}}
	for i := range signs {
		s := &signs[i]
		g.signs[s.Rank] = s
		g.members[0][s.Rank] = s.Rank
		for _, l := range s.Lines {
			if l.Comm == 0 {
				continue
			}
			if g.members[l.Comm] == nil {
				g.members[l.Comm] = map[int]int{}
			}
			g.members[l.Comm][l.Me] = s.Rank
		}
	}
	return g
}

// blockers returns the ranks for which an open call of a rank waits because they have not
// made the same call, or are stopped in it. It leaves out the ranks of which that is not known.
func (g *graph) blockers(of int, l *Line) (ranks []int) {
	members := g.members[l.Comm]
	if c := l.Open; c.isMessage() {
		peer, ok := members[c.Peer]
		if !ok || g.answers(peer, l) && !g.holdsUp(peer, of) {
			return nil
		}
		return []int{peer}
	}
	for _, rank := range slices.Sorted(maps.Values(members)) {
		s := g.signs[rank]
		switch other := s.last(l.Comm); {
		case other == nil: // it has closed its lines, or never had one
			if s.Doing == Ended || s.Doing == Frozen {
				ranks = append(ranks, rank)
			}
		case other.Unsure && s.Doing != Frozen:
		case other.Seq < l.Seq, other.Seq == l.Seq && other.Open != nil && g.holdsUp(rank, of):
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// holdsUp reports whether a rank that is in the same call as another one is stopped there. Of
// two that are stopped neither waits for the other.
func (g *graph) holdsUp(rank, other int) bool {
	return g.signs[rank].Doing == Frozen && g.signs[other].Doing != Frozen
}

// sharesCall reports whether all of the ranks are in this call.
func (g *graph) sharesCall(ranks []int, call *Line) bool {
	return !slices.ContainsFunc(ranks, func(r int) bool {
		return !slices.ContainsFunc(g.signs[r].Lines, func(l Line) bool {
			switch {
			case l.Comm != call.Comm || l.Open == nil || l.Open.isMessage() != call.Open.isMessage():
				return false
			case l.Open.isMessage():
				return l.Open.Peer == call.Me && l.Open.Tag == call.Open.Tag && l.Open.Waits != call.Open.Waits
			}
			return l.Seq == call.Seq
		})
	})
}

// answers reports whether a rank is in the other end of a message.
func (g *graph) answers(peer int, l *Line) bool {
	return slices.ContainsFunc(g.signs[peer].Lines, func(o Line) bool {
		return o.Comm == l.Comm && o.Open != nil && o.Open.isMessage() && o.Open.Peer == l.Me && o.Open.Tag == l.Open.Tag && o.Open.Waits != l.Open.Waits
	})
}

// edge is an open call and the ranks for which it waits.
type edge struct {
	rank int
	line *Line
	to   []int
}

// edges returns the open calls that wait for ranks, by their ranks.
func (g *graph) edges() (all []edge) {
	for _, rank := range slices.Sorted(maps.Keys(g.signs)) {
		s := g.signs[rank]
		for i := range s.Lines {
			if l := &s.Lines[i]; l.Open != nil {
				if to := g.blockers(rank, l); len(to) > 0 {
					all = append(all, edge{rank, l, to})
				}
			}
		}
	}
	return all
}

// closedCycle returns calls of ranks that wait for each other, none of which can end: each
// waits for the next one's rank. It returns nil if there is no such cycle.
func (g *graph) closedCycle() []edge {
	stuck := map[int]edge{} // by rank: one of its calls, if none of them can end
	for rank, s := range g.signs {
		if s.oldest() != nil {
			stuck[rank] = edge{}
		}
	}
	next := func(e edge) (int, bool) {
		for _, rank := range e.to {
			if _, ok := stuck[rank]; ok {
				return rank, true
			}
		}
		return 0, false
	}
	// A rank can go on if one of its calls can. Its going on may let others go on.
	for before := -1; before != len(stuck); {
		before = len(stuck)
		for _, rank := range slices.Sorted(maps.Keys(stuck)) {
			s := g.signs[rank]
			stuck[rank] = edge{}
			for i := range s.Lines {
				l := &s.Lines[i]
				if l.Open == nil {
					continue
				}
				e := edge{rank, l, g.blockers(rank, l)}
				if _, waits := next(e); !waits || l.Open.Age < closedTime || l.Open.Waits == Aside {
					delete(stuck, rank)
					break
				}
				if stuck[rank].line == nil {
					stuck[rank] = e
				}
			}
		}
	}
	for _, first := range slices.Sorted(maps.Keys(stuck)) {
		return follow(stuck[first], func(e edge) edge { to, _ := next(e); return stuck[to] })
	}
	return nil
}

// follow goes from a stuck rank to the rank for which it waits, until it comes to a rank
// for the second time. It returns the cycle, from its lowest rank on.
func follow(e edge, next func(edge) edge) []edge {
	var path []edge
	for {
		if i := slices.IndexFunc(path, func(p edge) bool { return p.rank == e.rank }); i >= 0 {
			cycle := path[i:]
			at := 0
			for j := range cycle {
				if cycle[j].rank < cycle[at].rank {
					at = j
				}
			}
			return slices.Concat(cycle[at:], cycle[:at])
		}
		path = append(path, e)
		e = next(e)
	}
}

// behind returns the call that the longest wait leads to, the ranks that wait in it and
// those for which they wait, none of which waits for a rank itself. It returns nil if there is none.
func (g *graph) behind() (call *Line, waiting, suspects []int) {
	all := g.edges()
	waits := map[int]bool{}
	for _, e := range all {
		waits[e.rank] = waits[e.rank] || e.line.Open.Waits != Aside
	}
	for _, e := range all {
		free := !slices.ContainsFunc(e.to, func(r int) bool { return waits[r] })
		if free && (call == nil || e.line.Open.Age > call.Open.Age) {
			call, suspects = e.line, e.to
			waiting = nil
		}
	}
	if call == nil {
		return nil, nil, nil
	}
	for _, e := range all {
		if e.line.Comm == call.Comm && (e.line == call || !call.Open.isMessage() && !e.line.Open.isMessage() && e.line.Seq == call.Seq) {
			waiting = append(waiting, e.rank)
		}
	}
	return call, slices.Compact(waiting), g.outside(suspects)
}

// outside returns those of the ranks that are in no call, or are stopped there. The others
// wait for them in an earlier call, which all have entered. If all are in calls it returns
// all.
func (g *graph) outside(ranks []int) []int {
	out := slices.DeleteFunc(slices.Clone(ranks), func(r int) bool {
		s := g.signs[r]
		return s.Doing != Frozen && s.oldest() != nil
	})
	if len(out) == 0 {
		return ranks
	}
	return out
}
