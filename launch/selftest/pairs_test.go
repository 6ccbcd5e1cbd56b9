package selftest

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// playPairs plays the rounds of n units. works says whether a group works, seconds how
// long it takes.
func playPairs(n int, works func(units []int) bool, seconds func(units []int) float64) [][]pairResult {
	var played [][]pairResult
	for groups := nextPairs(n, played); groups != nil; groups = nextPairs(n, played) {
		var round []pairResult
		for _, g := range groups {
			round = append(round, pairResult{g, works(g), seconds(g)})
		}
		played = append(played, round)
	}
	return played
}

func oneSecond([]int) float64 { return 1 }

func without(bad ...int) func([]int) bool {
	return func(units []int) bool {
		return !slices.ContainsFunc(units, func(u int) bool { return slices.Contains(bad, u) })
	}
}

func TestOneBadUnitIsNamed(t *testing.T) {
	for n := 3; n <= 40; n++ {
		for bad := range n {
			b := judgePairs(playPairs(n, without(bad), oneSecond))
			if !slices.Equal(b.units, []int{bad}) || b.pairs != nil || b.common || !b.failed {
				t.Errorf("%d units, %d is bad: %+v", n, bad, b)
			}
		}
	}
}

func TestOneBadLinkIsNamed(t *testing.T) {
	for n := 4; n <= 40; n++ {
		for i := 0; i+1 < n; i += 2 { // links that the first round tests
			link := []int{i, i + 1}
			b := judgePairs(playPairs(n, func(units []int) bool {
				return !slices.Contains(units, link[0]) || !slices.Contains(units, link[1])
			}, oneSecond))
			if b.units != nil || b.common || len(b.pairs) == 0 || !slices.Contains(b.pairs[0], link[0]) || !slices.Contains(b.pairs[0], link[1]) {
				t.Errorf("%d units, link %v is bad: %+v", n, link, b)
			}
		}
	}
}

func TestAllBadNamesNone(t *testing.T) {
	for n := 2; n <= 40; n++ {
		b := judgePairs(playPairs(n, func([]int) bool { return false }, oneSecond))
		if b.units != nil || !b.failed || n > 2 && (!b.common || b.pairs != nil) {
			t.Errorf("%d units, all bad: %+v", n, b)
		}
	}
}

func TestSlowUnitIsMarked(t *testing.T) {
	for n := 4; n <= 41; n++ {
		for slow := range n {
			b := judgePairs(playPairs(n, func([]int) bool { return true }, func(units []int) float64 {
				if slices.Contains(units, slow) {
					return 2
				}
				return 1
			}))
			if b.failed || !slices.Contains(b.slow, slow) || len(b.slow) > 1 {
				t.Errorf("%d units, %d is slow: %+v", n, slow, b)
			}
		}
	}
}

// TestNoGoodUnitIsBlamed plays random faults: a unit that works is never named, if
// fewer than a quarter of the units are bad.
func TestNoGoodUnitIsBlamed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		n := 5 + random.IntN(60)
		bad := random.Perm(n)[:random.IntN(n/4+1)]
		slices.Sort(bad)
		b := judgePairs(playPairs(n, without(bad...), func([]int) float64 { return 1 + random.Float64() }))
		for _, u := range b.units {
			if !slices.Contains(bad, u) {
				t.Fatalf("%d units, %v are bad: %+v", n, bad, b)
			}
		}
		if b.failed != (len(bad) > 0) {
			t.Fatalf("%d units, %v are bad: %+v", n, bad, b)
		}
	}
}

func TestEveryRoundHasEveryUnitOnce(t *testing.T) {
	for n := 2; n <= 33; n++ {
		met := make(map[[2]int]int)
		for i := range n + 1 {
			seen := make(map[int]bool)
			for _, g := range pairsOfRound(n, i) {
				met[[2]int{g[0], g[1]}]++
				for _, u := range g {
					if seen[u] {
						t.Fatalf("%d units: %d is twice in round %d", n, u, i)
					}
					seen[u] = true
				}
			}
		}
		if len(met) != n*(n-1)/2 {
			t.Errorf("%d units: %d pairs met", n, len(met))
		}
		if n <= fewUnits {
			continue
		}
		first := firstPairs(n)
		var round []pairResult
		for _, g := range first {
			round = append(round, pairResult{g, true, 1})
		}
		for _, groups := range [][][]int{first, secondPairs(round)} {
			var units []int
			for _, g := range groups {
				if len(g) < 2 || len(g) > 3 {
					t.Errorf("%d units: group %v", n, g)
				}
				units = append(units, g...)
			}
			slices.Sort(units)
			if len(units) != n || len(slices.Compact(units)) != n {
				t.Errorf("%d units: %v", n, groups)
			}
		}
	}
}

// TestThreeUnitsHaveNoSlowOne checks that one fast pair of three is no reason to call the
// third unit slow.
func TestThreeUnitsHaveNoSlowOne(t *testing.T) {
	b := judgePairs(playPairs(3, without(), func(units []int) float64 {
		if slices.Contains(units, 2) {
			return 2
		}
		return 1
	}))
	if b.slow != nil {
		t.Errorf("%+v", b)
	}
}
