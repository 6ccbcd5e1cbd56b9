package flight

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// Kind says what is wrong in a process group.
type Kind string

const (
	Behind Kind = "behind" // suspects did not call what the others wait in
	Other  Kind = "other"  // suspects called something else
	Silent Kind = "silent" // suspects left no dump, and all others wait
	Stuck  Kind = "stuck"  // all ranks called it, and it does not end
)

// Verdict is what the dumps show of one call of one process group.
type Verdict struct {
	Kind     Kind
	Group    Group
	Call     Call // as the waiting ranks made it
	Waiting  []int
	Suspects []Suspect
	// Follows reports that the suspects wait in another group: that group's verdict is
	// the cause, and this one its consequence.
	Follows bool
}

// Suspect is a rank that the others wait for.
type Suspect struct {
	Rank int
	Last *Call // the call that it made instead, or else its last one in the group; nil: none
}

// Compare returns the verdicts of a job's dumps, the causes first. Without a call that
// waits there is none.
func Compare(dumps []Dump) []Verdict {
	groups := map[string]*group{}
	for i := range dumps {
		d := &dumps[i]
		for id, g := range d.Groups {
			key := fmt.Sprint(g.Name, g.Ranks)
			if groups[key] == nil {
				groups[key] = &group{Group: g, byRank: map[int][]Call{}, messages: map[int][]Call{}, complete: map[int]bool{}}
			}
			groups[key].add(d, id)
		}
	}
	var all []Verdict
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if v, ok := groups[key].verdict(); ok {
			all = append(all, v)
		}
		all = append(all, groups[key].messageVerdicts()...)
	}
	for i := range all {
		all[i].Follows = follows(all, i)
	}
	slices.SortStableFunc(all, func(a, b Verdict) int { return cmp.Compare(a.order(), b.order()) })
	return all
}

// order puts causes before consequences, and what names a rank before what does not.
func (v Verdict) order() int {
	switch {
	case v.Follows:
		return 2
	case v.Kind == Stuck:
		return 1
	}
	return 0
}

// follows reports whether verdict i is the consequence of other verdicts: each of its
// suspects waits in another verdict, and that verdict does not lead back to i.
func follows(all []Verdict, i int) bool {
	if len(all[i].Suspects) == 0 {
		return false
	}
	for _, s := range all[i].Suspects {
		waits := slices.ContainsFunc(all, func(v Verdict) bool {
			return !sameCall(v, all[i]) && slices.Contains(v.Waiting, s.Rank) &&
				!slices.ContainsFunc(v.Suspects, func(o Suspect) bool { return slices.Contains(all[i].Waiting, o.Rank) })
		})
		if !waits {
			return false
		}
	}
	return true
}

func sameCall(a, b Verdict) bool {
	return a.Group.Name == b.Group.Name && slices.Equal(a.Group.Ranks, b.Group.Ranks) && a.Call.P2P == b.Call.P2P && a.Call.Seq == b.Call.Seq && slices.Equal(a.Waiting, b.Waiting)
}

// group is what all dumps say of one process group.
type group struct {
	Group
	byRank   map[int][]Call // collectives; a rank that has a dump has an entry
	messages map[int][]Call // sends and receives
	complete map[int]bool   // the rank's recorder dropped no call
}

func (g *group) add(d *Dump, id string) {
	if len(g.Ranks) > 0 && !slices.Contains(g.Ranks, d.Rank) {
		return // a recorder may know groups of other ranks
	}
	g.byRank[d.Rank] = append(g.byRank[d.Rank], nil...)
	g.complete[d.Rank] = d.Complete
	for _, c := range d.Calls {
		switch {
		case c.Group != id:
		case c.P2P:
			g.messages[d.Rank] = append(g.messages[d.Rank], c)
		default:
			g.byRank[d.Rank] = append(g.byRank[d.Rank], c)
		}
	}
}

// firstOpen returns the first call that has not completed.
func firstOpen(calls []Call) (first Call, ok bool) {
	for _, c := range calls {
		if c.State != "completed" && (!ok || c.Seq < first.Seq) {
			first, ok = c, true
		}
	}
	return first, ok
}

// last returns the call with the highest number.
func last(calls []Call) *Call {
	if len(calls) == 0 {
		return nil
	}
	c := slices.MaxFunc(calls, func(a, b Call) int { return cmp.Compare(a.Seq, b.Seq) })
	return &c
}

// verdict finds the group's first collective that did not end, and compares what its ranks
// called there.
func (g *group) verdict() (Verdict, bool) {
	v := Verdict{Group: g.Group, Kind: Behind}
	found := false
	for _, rank := range slices.Sorted(maps.Keys(g.byRank)) {
		if c, ok := firstOpen(g.byRank[rank]); ok && (!found || c.Seq < v.Call.Seq) {
			v.Call, found = c, true
		}
	}
	if !found {
		return v, false
	}
	at := map[int]Call{} // each rank's call with that number
	for rank, calls := range g.byRank {
		i := slices.IndexFunc(calls, func(c Call) bool { return c.Seq == v.Call.Seq })
		switch l := last(calls); {
		case i >= 0:
			at[rank] = calls[i]
		case l == nil || l.Seq < v.Call.Seq:
			v.Suspects = append(v.Suspects, Suspect{rank, l})
		}
	}
	for rank, c := range at {
		if c.State != "completed" {
			v.Waiting = append(v.Waiting, rank)
		}
	}
	if len(v.Suspects) == 0 {
		g.findOthers(&v, at)
	}
	if len(v.Suspects) == 0 {
		v.Kind = Stuck
		for _, rank := range g.Ranks {
			if _, has := g.byRank[rank]; !has {
				v.Kind = Silent
				v.Suspects = append(v.Suspects, Suspect{Rank: rank})
			}
		}
	}
	slices.Sort(v.Waiting)
	slices.SortFunc(v.Suspects, func(a, b Suspect) int { return cmp.Compare(a.Rank, b.Rank) })
	return v, true
}

// findOthers makes those ranks suspects that made another call than most. Of two equal
// parts the one with the lower rank counts as right.
func (g *group) findOthers(v *Verdict, at map[int]Call) {
	kinds := map[string][]int{}
	for _, rank := range slices.Sorted(maps.Keys(at)) {
		kinds[agreed(at[rank])] = append(kinds[agreed(at[rank])], rank)
	}
	if len(kinds) < 2 {
		return
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(kinds[a]), len(kinds[b])), -cmp.Compare(kinds[a][0], kinds[b][0]))
	})
	v.Kind, v.Call = Other, at[kinds[most][0]]
	v.Waiting = slices.Clone(kinds[most])
	for kind, ranks := range kinds {
		for _, rank := range ranks {
			if kind != most {
				c := at[rank]
				v.Suspects = append(v.Suspects, Suspect{rank, &c})
			}
		}
	}
}

// agreed returns the part of a call that all ranks must agree on. The sizes of a
// gather, a scatter or an all-to-all may differ between ranks.
func agreed(c Call) string {
	switch c.Name {
	case "nccl:all_reduce", "nccl:broadcast", "nccl:reduce", "nccl:_all_gather_base", "nccl:_reduce_scatter_base":
		return c.What()
	}
	return c.Name
}

// messageName matches the names of sends and receives: "nccl:send 0->1".
var messageName = regexp.MustCompile(`^nccl:(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})$`)

// messageVerdicts finds sends and receives whose other side was not called. It counts
// the messages of each pair, which needs recorders that dropped nothing.
func (g *group) messageVerdicts() []Verdict {
	var all []Verdict
	for _, rank := range slices.Sorted(maps.Keys(g.messages)) {
		c, ok := firstOpen(g.messages[rank])
		if !ok || !g.complete[rank] {
			continue
		}
		m := messageName.FindStringSubmatch(c.Name)
		if m == nil {
			continue
		}
		peer := g.global(m[3])
		opposite := "nccl:recv " + m[3] + "<-" + m[2]
		if m[1] == "recv" {
			opposite = "nccl:send " + m[3] + "->" + m[2]
		}
		_, hasDump := g.byRank[peer]
		number := count(g.messages[rank], c.Name, c.Seq)
		if !hasDump || !g.complete[peer] || count(g.messages[peer], opposite, -1) >= number {
			continue
		}
		s := Suspect{Rank: peer, Last: last(g.messages[peer])}
		all = append(all, Verdict{Kind: Behind, Group: g.Group, Call: c, Waiting: []int{rank}, Suspects: []Suspect{s}})
	}
	return all
}

// global returns the rank in the job of a rank in the group.
func (g *group) global(text string) int {
	n, _ := strconv.Atoi(text)
	if n < len(g.Ranks) {
		return g.Ranks[n]
	}
	return n
}

// count counts the calls of a name up to the number seq; -1: all of them.
func count(calls []Call, name string, seq int) int {
	n := 0
	for _, c := range calls {
		if c.Name == name && (seq < 0 || c.Seq <= seq) {
			n++
		}
	}
	return n
}
