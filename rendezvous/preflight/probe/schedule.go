package probe

import (
	"math/rand/v2"
	"slices"
)

// allPairs is the largest number of nodes that all connect to each other.
const allPairs = 64

// matchings is how many random partners a node of a larger fleet has besides
// the regular ones.
const matchings = 4

// Schedule returns the nodes that each of n nodes connects to, by group rank.
// Up to 64 nodes connect to all others. Above that a node has O(log n)
// partners: the nodes at a distance of 1, 2, 4, ... around the ring, a few at
// random (the same for every call) and node 0, where NCCL's bootstrap begins.
// Partners connect to each other, except that node 0 connects to its own
// partners only. The partners are in the order of their distance, so that no
// node is every node's target at the same time.
func Schedule(n int) [][]int {
	out := make([][]int, max(n, 0))
	if n <= allPairs {
		for i := range out {
			for d := 1; d < n; d++ {
				out[i] = append(out[i], (i+d)%n)
			}
		}
		return out
	}
	for i := range out {
		for d := 1; d <= n/2; d *= 2 {
			out[i] = append(out[i], (i+d)%n, (i-d+n)%n)
		}
	}
	r := rand.New(rand.NewPCG(uint64(n), matchings))
	for range matchings {
		p := r.Perm(n)
		for k := 0; k+1 < n; k += 2 {
			a, b := p[k], p[k+1]
			out[a], out[b] = append(out[a], b), append(out[b], a)
		}
	}
	for i := range out {
		if i > 0 {
			out[i] = append(out[i], 0)
		}
		ahead := func(j int) int { return (j - i + n) % n }
		slices.SortFunc(out[i], func(a, b int) int { return ahead(a) - ahead(b) })
		out[i] = slices.Compact(out[i])
	}
	return out
}

// smallFleet is the largest number of nodes that send payloads between all
// pairs.
const smallFleet = 16

// isLarge reports whether the probe from node i to node j of n sends a payload.
// In a small fleet all probes do, in a large one those at a distance of a power
// of two.
func isLarge(i, j, n int) bool {
	d := distance(i, j, n)
	return n <= smallFleet || d&(d-1) == 0
}

// distance returns how far apart two of n nodes are around the ring.
func distance(i, j, n int) int {
	d := (j - i + n) % n
	return min(d, n-d)
}
