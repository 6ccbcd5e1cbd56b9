package flight

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// group is what all dumps say of one process group.
type group struct {
	Group
	ranks    []int // in the order of their numbers in the group; nil: unknown
	key      groupKey
	byRank   map[int][]Call // collectives; a rank that has a dump has an entry
	messages map[int][]Call // sends and receives
}

func (g *group) add(d *Dump, id string) {
	if len(g.ranks) > 0 && !slices.Contains(g.ranks, d.Rank) {
		return // a recorder may know groups of other ranks
	}
	g.byRank[d.Rank] = append(g.byRank[d.Rank], nil...)
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
		if c.isOpen() && (!ok || c.Seq < first.Seq) {
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
// called there. Ranks that agreed before on no call with the same number are found
// even if those calls ended: NCCL may let calls of other sizes pass, and then every
// later one is of another pair.
func (g *group) verdict(j *job) (Verdict, bool) {
	v := Verdict{Group: g.Group, Kind: Behind}
	found := false
	for _, rank := range slices.Sorted(maps.Keys(g.byRank)) {
		if c, ok := firstOpen(g.byRank[rank]); ok && (!found || c.Seq < v.Call.Seq) {
			v.Call, found = c, true
		}
	}
	if at, differ := g.firstDifference(v.Call.Seq, found); differ && (found || len(j.now) > 0) {
		return g.differenceVerdict(j, at), true
	}
	if !found {
		return v, false
	}
	at := g.at(v.Call.Seq)
	for rank, calls := range g.byRank {
		if l := last(calls); l == nil || l.Seq < v.Call.Seq {
			v.Suspects = append(v.Suspects, Suspect{rank, l})
		}
	}
	for rank, c := range at {
		if c.isOpen() {
			v.Waiting = append(v.Waiting, rank)
		}
	}
	if len(v.Suspects) == 0 {
		v.Kind = Stuck
		for _, rank := range g.ranks {
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

// at returns each rank's collective with a number.
func (g *group) at(seq int) map[int]Call {
	at := map[int]Call{}
	for rank, calls := range g.byRank {
		if i := slices.IndexFunc(calls, func(c Call) bool { return c.Seq == seq }); i >= 0 {
			at[rank] = calls[i]
		}
	}
	return at
}

// firstDifference returns the first number, up to that of the first open call if there is
// one, at which ranks made calls that cannot belong together.
func (g *group) firstDifference(open int, bounded bool) (seq int, differ bool) {
	agreedAt := map[int]string{}
	for _, calls := range g.byRank {
		for _, c := range calls {
			if bounded && c.Seq > open || differ && c.Seq >= seq {
				continue
			}
			what := agreed(c)
			if before, known := agreedAt[c.Seq]; known && before != what {
				seq, differ = c.Seq, true
			}
			agreedAt[c.Seq] = what
		}
	}
	return seq, differ
}

// differenceVerdict makes those ranks suspects that made another call than most. Of two
// equal parts that one counts as right which made the call of the sibling groups, or else
// the one with the lower rank.
func (g *group) differenceVerdict(j *job, seq int) Verdict {
	at := g.at(seq)
	kinds := map[string][]int{}
	for _, rank := range slices.Sorted(maps.Keys(at)) {
		kinds[agreed(at[rank])] = append(kinds[agreed(at[rank])], rank)
	}
	siblings := j.siblingCalls(g, seq)
	most := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(kinds[a]), len(kinds[b])), cmp.Compare(siblings[a], siblings[b]), -cmp.Compare(kinds[a][0], kinds[b][0]))
	})
	v := Verdict{Kind: Other, Group: g.Group, Call: at[kinds[most][0]], Waiting: slices.Clone(kinds[most])}
	for kind, ranks := range kinds {
		for _, rank := range ranks {
			if kind != most {
				c := at[rank]
				v.Suspects = append(v.Suspects, Suspect{rank, &c})
			}
		}
	}
	slices.SortFunc(v.Suspects, func(a, b Suspect) int { return cmp.Compare(a.Rank, b.Rank) })
	return v
}

// siblingCalls counts the calls with a number in the other groups of the same description,
// such as the tensor parallel groups of other ranks.
func (j *job) siblingCalls(g *group, seq int) map[string]int {
	counts := map[string]int{}
	for _, o := range j.groups {
		if o == g || g.Desc == "" || o.Desc != g.Desc {
			continue
		}
		for _, c := range o.at(seq) {
			counts[agreed(c)]++
		}
	}
	return counts
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

// messageVerdicts finds the sends and receives that ranks wait in and whose other side is
// not there. Of two sides that wait for each other the lower rank's counts.
func (g *group) messageVerdicts(j *job) []Verdict {
	var all []Verdict
	for _, rank := range slices.Sorted(maps.Keys(g.messages)) {
		for _, c := range g.messages[rank] {
			id := callID{g.key, true, c.Seq, c.Name}
			m := messageName.FindStringSubmatch(c.Name)
			if !c.isOpen() || m == nil || !slices.Contains(j.now[rank], id) {
				continue
			}
			peer := g.global(m[3])
			id.name = "nccl:recv " + m[3] + "<-" + m[2]
			if m[1] == "recv" {
				id.name = "nccl:send " + m[3] + "->" + m[2]
			}
			v := Verdict{Kind: Behind, Group: g.Group, Call: c, Waiting: []int{rank}}
			switch _, hasDump := g.byRank[peer]; {
			case !hasDump:
				v.Kind, v.Suspects = Silent, []Suspect{{Rank: peer}}
			case !j.waitsIn(peer, id):
				v.Suspects = []Suspect{{Rank: peer, Last: last(g.messages[peer])}}
			case rank < peer:
				v.Kind, v.Waiting = Stuck, []int{rank, peer}
			default:
				continue
			}
			all = append(all, v)
		}
	}
	return all
}

// global returns the rank in the job of a rank in the group.
func (g *group) global(text string) int {
	n, _ := strconv.Atoi(text)
	if n < len(g.ranks) {
		return g.ranks[n]
	}
	return n
}
