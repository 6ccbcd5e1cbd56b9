package flight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Position is where ranks are in the collectives of one process group: those that made the
// same call last, or wait in it.
type Position struct {
	Group  string `json:"group"`
	Ranks  []int  `json:"ranks"`
	Call   string `json:"call"` // "all_reduce [4] Float"; "": none yet
	Number int    `json:"number"`
	Open   bool   `json:"open"` // they wait in it
	Where  string `json:"where,omitempty"`
}

// Positions lists where the ranks are, by group. Of messages it knows only those that wait.
func Positions(dumps []Dump) []Position {
	j := newJob(dumps)
	var all []Position
	for _, key := range slices.SortedFunc(maps.Keys(j.groups), compareKeys) {
		g := j.groups[key]
		first := len(all)
		for _, rank := range slices.Sorted(maps.Keys(g.byRank)) {
			p := g.position(rank)
			i := slices.IndexFunc(all[first:], func(o Position) bool {
				return o.Call == p.Call && o.Number == p.Number && o.Open == p.Open && o.Where == p.Where
			})
			if i < 0 {
				all = append(all, p)
			} else {
				all[first+i].Ranks = append(all[first+i].Ranks, rank)
			}
		}
		slices.SortStableFunc(all[first:], func(a, b Position) int { return cmp.Compare(a.Number, b.Number) })
	}
	return all
}

// position returns where one rank is in the group.
func (g *group) position(rank int) Position {
	p := Position{Group: cmp.Or(g.Desc, g.Name), Ranks: []int{rank}}
	c, open := firstOpen(g.byRank[rank])
	if m, waits := firstOpen(g.messages[rank]); waits && !open {
		c, open = m, true
	}
	if !open {
		l := last(g.byRank[rank])
		if l == nil {
			l = last(g.messages[rank])
		}
		if l == nil {
			return p
		}
		c = *l
	}
	p.Call, p.Number, p.Open, p.Where = c.What(), c.Seq, open, c.Where()
	return p
}

// String returns the position in one line.
func (p Position) String() string {
	switch {
	case p.Call == "":
		return fmt.Sprintf("%s made no call", Ranks(p.Ranks))
	case p.Open:
		return strings.TrimSpace(fmt.Sprintf("%s in %s, number %d %s", wait(p.Ranks), p.Call, p.Number, inParentheses(p.Where)))
	}
	return strings.TrimSpace(fmt.Sprintf("%s ended %s, number %d %s", Ranks(p.Ranks), p.Call, p.Number, inParentheses(p.Where)))
}

func inParentheses(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}
