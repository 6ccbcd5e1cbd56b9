package stacks

import (
	"cmp"
	"slices"
	"strings"
)

// Wait is what the stacks of a job that makes no progress show: ranks wait in a collective,
// and others are elsewhere.
type Wait struct {
	Waiting []int
	Ranks   []int  // that are elsewhere, the suspects
	Call    string // in which Waiting are
	At      string // their line
	// Other is the collective in which the first of Ranks is; "": in none.
	Other string
}

// Wait returns what the ranks wait for. It returns false if that is not clear: all are in
// one collective, or only in sends and receives.
func (j *Job) Wait() (w Wait, ok bool) {
	var waiting []*RankStack
	for i := range j.Ranks {
		switch r := &j.Ranks[i]; {
		case r.Waits():
			waiting = append(waiting, r)
			w.Waiting = append(w.Waiting, r.Rank)
		case len(r.Frames) > 0 || r.Missing != "" || r.Kernel.isStopped():
			w.Ranks = append(w.Ranks, r.Rank)
		}
	}
	if len(waiting) == 0 {
		return Wait{}, false
	}
	if len(w.Ranks) > 0 {
		p := waiting[0].Place()
		w.Call, w.At = p.Call, p.At()
		return w, true
	}
	for _, part := range []func(Place) string{func(p Place) string { return p.Call }, Place.At} {
		if w, ok := split(waiting, part); ok {
			return w, true
		}
	}
	return Wait{}, false
}

// split tells the ranks that are in another collective than most from the others. Of two
// equal parts the one with the lower rank counts as right.
func split(waiting []*RankStack, part func(Place) string) (w Wait, ok bool) {
	byPart := map[string][]*RankStack{}
	for _, r := range waiting {
		byPart[part(r.Place())] = append(byPart[part(r.Place())], r)
	}
	var groups [][]*RankStack
	for _, g := range byPart {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b []*RankStack) int {
		return cmp.Or(-cmp.Compare(len(a), len(b)), cmp.Compare(a[0].Rank, b[0].Rank))
	})
	p := groups[0][0].Place()
	if len(groups) < 2 || isMessage(p.Call) {
		return Wait{}, false
	}
	w = Wait{Call: p.Call, At: p.At()}
	for _, r := range groups[0] {
		w.Waiting = append(w.Waiting, r.Rank)
	}
	for _, g := range groups[1:] {
		for _, r := range g {
			w.Ranks = append(w.Ranks, r.Rank)
		}
	}
	slices.Sort(w.Ranks)
	for _, r := range waiting {
		if r.Rank == w.Ranks[0] {
			w.Other = r.Place().Call
		}
	}
	return w, true
}

// isMessage reports whether a call concerns two ranks, and so does not say what the others
// have to call.
func isMessage(call string) bool {
	name := strings.ToLower(strings.TrimPrefix(call, "MPI_"))
	return strings.HasPrefix(name, "send") || strings.HasPrefix(name, "recv") || strings.HasPrefix(name, "isend") ||
		strings.HasPrefix(name, "irecv") || strings.HasPrefix(name, "batch_isend") || strings.HasPrefix(name, "wait")
}
