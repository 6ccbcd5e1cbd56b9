package stacks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Group is ranks that are at one place.
type Group struct {
	Place
	Ranks   []int  `json:"ranks"`
	Missing string `json:"missing,omitempty"` // why their frames are not known
	Helper  string `json:"helper,omitempty"`  // where a process is that they wait for
	waits   bool   // they are in a collective
}

// GroupStacks groups ranks by their place. The suspects come first: the ranks that are in no
// collective, and among equals the smaller groups.
func GroupStacks(all []Stack) []Group {
	type key struct {
		place           Place
		missing, helper string
	}
	index := map[key]int{}
	var groups []Group
	for i := range all {
		s := &all[i]
		k := key{place: s.Place(), missing: s.Missing}
		if s.Helper != nil {
			p := s.Helper.Place()
			k.helper = p.String()
		}
		at, ok := index[k]
		if !ok {
			at = len(groups)
			index[k] = at
			groups = append(groups, Group{Place: k.place, Missing: k.missing, Helper: k.helper, waits: s.Waits()})
		}
		groups[at].Ranks = append(groups[at].Ranks, s.Rank)
	}
	for i := range groups {
		slices.Sort(groups[i].Ranks)
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		return cmp.Or(boolInt(a.waits)-boolInt(b.waits), cmp.Compare(len(a.Ranks), len(b.Ranks)), cmp.Compare(a.Ranks[0], b.Ranks[0]))
	})
	return groups
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// String describes a group on one line: "31 ranks in all_reduce at train.py:88 (0-4,
// 6-31)", "rank 5 in load_data at data.py:13".
func (g *Group) String() string {
	text := g.Place.String()
	if g.Helper != "" {
		text += "; a process that it started is " + g.Helper
	}
	if g.Missing != "" {
		text += " (no stack: " + g.Missing + ")"
	}
	switch len(g.Ranks) {
	case 1:
		return fmt.Sprintf("rank %d %s", g.Ranks[0], text)
	case 2:
		return fmt.Sprintf("ranks %d and %d %s", g.Ranks[0], g.Ranks[1], text)
	}
	return fmt.Sprintf("%d ranks %s (%s)", len(g.Ranks), text, FormatRanks(g.Ranks))
}

// maxRanges bounds the ranges that FormatRanks shows.
const maxRanges = 12

// FormatRanks formats sorted ranks as ranges: "0-4, 6-31".
func FormatRanks(ranks []int) string {
	var ranges []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		switch {
		case len(ranges) == maxRanges:
			return fmt.Sprintf("%s and %d more", strings.Join(ranges, ", "), len(ranks)-i)
		case j == i:
			ranges = append(ranges, itoa(ranks[i]))
		default:
			ranges = append(ranges, itoa(ranks[i])+"-"+itoa(ranks[j]))
		}
		i = j + 1
	}
	return strings.Join(ranges, ", ")
}
