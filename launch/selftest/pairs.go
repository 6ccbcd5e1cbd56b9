package selftest

import (
	"cmp"
	"slices"
)

// Units are nodes, or the ranks of a node, as numbers from 0. They are tested in groups
// of two, or of three where the number of units is odd. Two rounds are enough to tell a
// bad unit from a bad link, because a bad unit fails with any partner (dlrover's node
// check): the first round pairs neighbours; the second pairs each unit that failed, or
// was slow, with one that passed. Five units or fewer meet all others.

// pairResult is the result of a group of units.
type pairResult struct {
	units   []int
	ok      bool
	seconds float64 // of the measured call; 0: unknown
}

// fewUnits is the largest number of units of which each meets all others.
const fewUnits = 5

// nextPairs returns the groups of the next round after those that were played, nil after
// the last.
func nextPairs(n int, played [][]pairResult) [][]int {
	switch {
	case n < 2:
		return nil
	case n <= fewUnits:
		return pairsOfRound(n, len(played))
	case len(played) == 0:
		return firstPairs(n)
	case len(played) == 1:
		return secondPairs(played[0])
	}
	return nil
}

// firstPairs returns the groups of the first round.
func firstPairs(n int) [][]int {
	var groups [][]int
	for i := 0; i+1 < n; i += 2 {
		groups = append(groups, []int{i, i + 1})
	}
	if n%2 == 1 && len(groups) > 0 {
		groups[len(groups)-1] = append(groups[len(groups)-1], n-1)
	}
	return groups
}

// secondPairs returns the groups of the second round. Each unit of a bad group, the
// slowest first, gets the fastest unit left that passed and was no partner before. The
// others are paired with new partners where there are any.
func secondPairs(first []pairResult) [][]int {
	limit := slowLimit(first)
	met := make(map[[2]int]bool)
	var suspects, cleared []timedUnit
	for _, r := range first {
		for _, u := range r.units {
			for _, v := range r.units {
				met[[2]int{u, v}] = true
			}
			if t := (timedUnit{u, r.seconds}); !r.ok || r.seconds > limit {
				suspects = append(suspects, t)
			} else {
				cleared = append(cleared, t)
			}
		}
	}
	slices.SortStableFunc(suspects, func(a, b timedUnit) int { return cmp.Compare(b.seconds, a.seconds) })
	slices.SortStableFunc(cleared, func(a, b timedUnit) int { return cmp.Compare(a.seconds, b.seconds) })
	var groups [][]int
	for len(suspects)+len(cleared) > 1 {
		from := &suspects
		if len(suspects) == 0 {
			from = &cleared
		}
		unit := take(from, 0)
		from = &cleared
		if len(cleared) == 0 {
			from = &suspects
		}
		partner := max(0, slices.IndexFunc(*from, func(t timedUnit) bool { return !met[[2]int{unit, t.id}] }))
		groups = append(groups, []int{unit, take(from, partner)})
	}
	for _, t := range append(suspects, cleared...) { // one at most; the last group is the one that most likely passes
		groups[len(groups)-1] = append(groups[len(groups)-1], t.id)
	}
	return groups
}

// take removes a unit from a list and returns its number.
func take(from *[]timedUnit, i int) int {
	id := (*from)[i].id
	*from = slices.Delete(*from, i, i+1)
	return id
}

// timedUnit is a unit and the time of its group.
type timedUnit struct {
	id      int
	seconds float64
}

// slowFactor is how much longer than the median a group takes that is called slow
// (dlrover calls a straggler by elapsed time in the same way).
const slowFactor = 1.25

// slowLimit returns the time above which a group of a round is slow.
func slowLimit(round []pairResult) float64 {
	var times []float64
	for _, r := range round {
		if r.ok && r.seconds > 0 {
			times = append(times, r.seconds)
		}
	}
	return median(times) * slowFactor
}

// blame says which units or pairs the rounds blame.
type blame struct {
	units []int   // failed with every partner, and once with partners that all passed elsewhere
	pairs [][]int // groups that failed without such a unit, each once
	slow  []int   // slow in every round
	// common reports that no unit can be named: most of them failed, so the network or
	// a setting that all share is at fault.
	common bool
	failed bool // a group failed
	// passed counts the groups of each unit that passed.
	passed map[int]int
}

// judgePairs returns the blame of all rounds.
func judgePairs(rounds [][]pairResult) blame {
	var b blame
	passed, failed, slow := make(map[int]int), make(map[int]int), make(map[int]int)
	units := make(map[int]bool)
	for _, round := range rounds {
		limit := slowLimit(round)
		for _, r := range round {
			for _, u := range r.units {
				units[u] = true
				if r.ok {
					passed[u]++
				} else {
					failed[u]++
				}
				if r.ok && r.seconds > limit && len(round) > 2 { // of one or two groups none is the odd one
					slow[u]++
				}
			}
			b.failed = b.failed || !r.ok
		}
	}
	// blames reports whether a group failed that had, beside u, only units that passed
	// elsewhere.
	blames := func(r pairResult, u int) bool {
		return !r.ok && slices.Contains(r.units, u) && !slices.ContainsFunc(r.units, func(v int) bool { return v != u && passed[v] == 0 })
	}
	for u := range units {
		if failed[u] > 1 && passed[u] == 0 && slices.ContainsFunc(rounds, func(round []pairResult) bool {
			return slices.ContainsFunc(round, func(r pairResult) bool { return blames(r, u) })
		}) {
			b.units = append(b.units, u)
		}
		if slow[u] == len(rounds) && len(rounds) > 1 {
			b.slow = append(b.slow, u)
		}
	}
	if len(units) <= fewUnits {
		b.slow = slowOfFew(rounds, len(units))
	}
	slices.Sort(b.units)
	slices.Sort(b.slow)
	failures := 0
	for _, round := range rounds {
		for _, r := range round {
			if r.ok {
				continue
			}
			failures++
			pair := slices.Sorted(slices.Values(r.units))
			named := slices.ContainsFunc(pair, func(u int) bool { return slices.Contains(b.units, u) })
			if !named && !slices.ContainsFunc(b.pairs, func(p []int) bool { return slices.Equal(p, pair) }) {
				b.pairs = append(b.pairs, pair)
			}
		}
	}
	b.passed = passed
	b.common = 2*len(b.units) > len(units) || len(b.units) == 0 && failures > 1 && 2*failures > groupCount(rounds)
	if b.common {
		b.units, b.pairs = nil, nil
	}
	return b
}

// slowOfFew returns the units of a few, of which each met all others, that were slow with
// each partner: by the median of the pairs without them, of which there must be three.
func slowOfFew(rounds [][]pairResult, n int) []int {
	var slow []int
	for u := range n {
		var with, without []pairResult
		for _, r := range slices.Concat(rounds...) {
			if slices.Contains(r.units, u) {
				with = append(with, r)
			} else {
				without = append(without, r)
			}
		}
		limit := slowLimit(without)
		if len(without) > 2 && limit > 0 && !slices.ContainsFunc(with, func(r pairResult) bool { return !r.ok || r.seconds <= limit }) {
			slow = append(slow, u)
		}
	}
	return slow
}

// groupCount returns the number of groups of all rounds.
func groupCount(rounds [][]pairResult) int {
	n := 0
	for _, r := range rounds {
		n += len(r)
	}
	return n
}

// pairsOfRound returns the pairs of a round, from 0, of those in which each unit meets
// each other unit once: n-1 rounds for an even n, n for an odd one (the circle method of a
// round-robin tournament). It returns nil after the last.
func pairsOfRound(n, round int) [][]int {
	size := n + n%2
	if n < 2 || round >= size-1 {
		return nil
	}
	var groups [][]int
	for i := range size / 2 {
		a, b := seat(i, round, size), seat(size-1-i, round, size)
		if a < n && b < n { // with an odd n one unit rests
			groups = append(groups, []int{min(a, b), max(a, b)})
		}
	}
	return groups
}

// seat returns the unit at a place of the circle: the last unit stays, the others move
// on by one each round.
func seat(i, round, size int) int {
	if i == size-1 {
		return size - 1
	}
	return (i + round) % (size - 1)
}
