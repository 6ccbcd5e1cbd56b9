package probe

import (
	"math/rand/v2"
	"slices"
)

// allPairs is the largest number of nodes of which every one connects to every
// other.
const allPairs = 64

// matchings is how many random partners a node of a larger fleet has besides
// the regular ones.
const matchings = 4

// Schedule says whom each of n nodes connects to, by group rank: up to 64 nodes
// all others, above that O(log n) partners: those at a distance of 1, 2, 4, ...
// around the ring, a few at random (the same for every call) and node 0, where
// NCCL's bootstrap begins. Who connects to a partner is connected to by it,
// except that node 0 connects to its own partners only. The partners are in the
// order of their distance, so that at a time no node is everybody's target.
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
		behind := func(j int) int { return (j - i + n) % n }
		slices.SortFunc(out[i], func(a, b int) int { return behind(a) - behind(b) })
		out[i] = slices.Compact(out[i])
	}
	return out
}

// small is the largest number of nodes that try all of each other.
const small = 16

// large tells whether the probe from node i to node j of n sends a payload: all
// do in a small fleet, and those at a distance of a power of two in a large one.
func large(i, j, n int) bool {
	d := distance(i, j, n)
	return n <= small || d&(d-1) == 0
}

// distance is how far apart two of n nodes are around the ring.
func distance(i, j, n int) int {
	d := (j - i + n) % n
	return min(d, n-d)
}
