package flight

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Kind says what is wrong in a process group.
type Kind string

const (
	Behind Kind = "behind" // suspects did not call what the others wait in
	Other  Kind = "other"  // suspects called something else
	Silent Kind = "silent" // suspects left no dump, and others wait for them
	Cycle  Kind = "cycle"  // each suspect waits in a call that the next one has not made
	Stuck  Kind = "stuck"  // all ranks called it, and it does not end
)

// Verdict is what the dumps show of one call of one process group.
type Verdict struct {
	Kind     Kind
	Group    Group
	Call     Call // as the waiting ranks made it
	Waiting  []int
	Suspects []Suspect
	// Follows reports that another verdict is the cause and this one its consequence,
	// because the suspects themselves wait there.
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
	j := newJob(dumps)
	var all []Verdict
	for _, key := range slices.SortedFunc(maps.Keys(j.groups), compareKeys) {
		g := j.groups[key]
		if v, ok := g.verdict(j); ok {
			all = append(all, v)
		}
		all = append(all, g.messageVerdicts(j)...)
	}
	if len(all) == 0 {
		return nil
	}
	all = j.markConsequences(all)
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

// job is what all dumps show together.
type job struct {
	groups map[groupKey]*group
	now    map[int][]callID // by rank: the calls that the rank waits in, which are one or a batch
}

// groupKey tells process groups apart. Groups of other ranks may have one name.
type groupKey struct {
	name  string
	ranks RankSet
}

// key returns the key of a group.
func (g *Group) key() groupKey { return groupKey{g.Name, g.Ranks} }

// compareKeys orders groups by name.
func compareKeys(a, b groupKey) int {
	return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(string(a.ranks), string(b.ranks)))
}

// maxExpanded bounds the ranks of all groups of a job together.
const maxExpanded = 1 << 21

// callID tells calls of a rank apart.
type callID struct {
	group groupKey
	p2p   bool
	seq   int
	name  string
}

func newJob(dumps []Dump) *job {
	j := &job{map[groupKey]*group{}, map[int][]callID{}}
	room := maxExpanded
	for i := range dumps {
		d := &dumps[i]
		keys := map[string]groupKey{}
		for id, g := range d.Groups {
			key := g.key()
			keys[id] = key
			if j.groups[key] == nil {
				ranks := g.Ranks.list(room)
				room -= len(ranks)
				j.groups[key] = &group{Group: g, ranks: ranks, key: key, byRank: map[int][]Call{}, messages: map[int][]Call{}}
			}
			j.groups[key].add(d, id)
		}
		// The calls of a rank go to one device, so all that it called later waits
		// behind its first open call.
		first := slices.IndexFunc(d.Calls, Call.isOpen)
		if first < 0 {
			continue
		}
		for _, c := range d.Calls[first:] {
			if f := d.Calls[first]; c.isOpen() && c.Group == f.Group && c.P2P == f.P2P && (c.Seq == f.Seq || f.Batch > 0 && c.Batch == f.Batch) {
				j.now[d.Rank] = append(j.now[d.Rank], callID{keys[c.Group], c.P2P, c.Seq, c.Name})
			}
		}
	}
	return j
}

// waitsIn reports whether a rank waits in a call now.
func (j *job) waitsIn(rank int, id callID) bool {
	return slices.ContainsFunc(j.now[rank], func(n callID) bool {
		return n.group == id.group && n.p2p == id.p2p && (id.p2p && n.name == id.name || !id.p2p && n.seq == id.seq)
	})
}

// markConsequences finds out which verdicts follow from which. A verdict leads to those in
// which its suspects wait. A cause leads to none. If no cause can be reached, ranks wait for
// each other in a circle, and that is the cause.
func (j *job) markConsequences(all []Verdict) []Verdict {
	next := make([][]int, len(all))
	isCause := make([]bool, len(all))
	for i := range all {
		next[i], isCause[i] = j.leadsTo(all, i)
	}
	reached := func(from int) (seen []int, cause bool) {
		seen = []int{from}
		for k := 0; k < len(seen); k++ {
			cause = cause || isCause[seen[k]]
			for _, n := range next[seen[k]] {
				if !slices.Contains(seen, n) {
					seen = append(seen, n)
				}
			}
		}
		return seen, cause
	}
	var circles []Verdict
	inCircle := make([]bool, len(all))
	for i := range all {
		seen, cause := reached(i)
		if isCause[i] {
			continue
		}
		all[i].Follows = true
		if !cause && !slices.ContainsFunc(seen, func(n int) bool { return inCircle[n] }) {
			circle := j.circle(all, next, i)
			for _, n := range circle {
				inCircle[n] = true
			}
			circles = append(circles, circleVerdict(all, circle))
		}
	}
	return append(circles, all...)
}

// leadsTo lists the verdicts in which the suspects of verdict i wait, and says whether
// i is a cause: a suspect waits nowhere, or i names no rank that waits elsewhere.
func (j *job) leadsTo(all []Verdict, i int) (next []int, cause bool) {
	v := &all[i]
	ranks := make([]int, 0, len(v.Suspects))
	for _, s := range v.Suspects {
		ranks = append(ranks, s.Rank)
	}
	switch v.Kind {
	case Other:
		return nil, true
	case Stuck: // a rank may only have enqueued the call behind another one
		id := v.id()
		for _, r := range v.Waiting {
			if !j.waitsIn(r, id) {
				ranks = append(ranks, r)
			}
		}
		if len(ranks) == 0 {
			return nil, true
		}
	}
	for _, r := range ranks {
		waits := false
		for n := range all {
			if n != i && slices.Contains(all[n].Waiting, r) && j.waitsIn(r, all[n].id()) {
				next, waits = append(next, n), true
			}
		}
		if !waits && len(j.now[r]) == 0 {
			return nil, true
		}
	}
	if len(next) == 0 {
		return nil, true
	}
	return next, false
}

// id returns the call in which the waiting ranks of a verdict wait.
func (v *Verdict) id() callID {
	return callID{v.Group.key(), v.Call.P2P, v.Call.Seq, v.Call.Name}
}

// circle follows the first way from a verdict until a verdict comes again, and returns
// the verdicts between the two.
func (j *job) circle(all []Verdict, next [][]int, from int) []int {
	path := []int{from}
	for len(path) <= len(all) {
		n := next[path[len(path)-1]][0]
		if k := slices.Index(path, n); k >= 0 {
			return path[k:]
		}
		path = append(path, n)
	}
	return path
}

// circleVerdict makes one verdict of verdicts that lead to each other.
func circleVerdict(all []Verdict, circle []int) Verdict {
	first := all[circle[0]]
	v := Verdict{Kind: Cycle, Group: first.Group, Call: first.Call}
	for _, n := range circle {
		c := all[n].Call
		for _, r := range all[n].Waiting {
			if !slices.Contains(v.Waiting, r) {
				v.Waiting = append(v.Waiting, r)
				v.Suspects = append(v.Suspects, Suspect{r, &c})
			}
		}
	}
	slices.Sort(v.Waiting)
	slices.SortFunc(v.Suspects, func(a, b Suspect) int { return cmp.Compare(a.Rank, b.Rank) })
	return v
}
