package probe

import (
	"math/bits"
	"reflect"
	"slices"
	"testing"
)

func TestSmallFleetsProbeAllPairs(t *testing.T) {
	for n := range allPairs + 1 {
		for i, partners := range Schedule(n) {
			got := slices.Sorted(slices.Values(partners))
			if len(got) != n-1 || len(slices.Compact(slices.Clone(got))) != n-1 || slices.Contains(got, i) {
				t.Fatalf("%d nodes: node %d probes %v", n, i, partners)
			}
		}
	}
}

func TestLargeFleetsProbeFewPairsAndEveryNode(t *testing.T) {
	for _, n := range []int{65, 66, 127, 128, 129, 1000, 4097} {
		s := Schedule(n)
		if !reflect.DeepEqual(s, Schedule(n)) {
			t.Fatalf("%d nodes: not the same twice", n)
		}
		most := 2*bits.Len(uint(n)) + matchings + 1
		into := make([]int, n)
		for i, partners := range s {
			if len(partners) > most || len(partners) > MaxPeers {
				t.Errorf("%d nodes: node %d has %d partners, more than %d", n, i, len(partners), most)
			}
			if i > 0 && !slices.Contains(partners, 0) {
				t.Errorf("%d nodes: node %d does not probe node 0", n, i)
			}
			seen := map[int]bool{i: true}
			for _, j := range partners {
				if seen[j] || j < 0 || j >= n {
					t.Fatalf("%d nodes: node %d probes %v", n, i, partners)
				}
				seen[j] = true
				into[j]++
				if j != 0 && !slices.Contains(s[j], i) {
					t.Errorf("%d nodes: %d probes %d, which does not probe it", n, i, j)
				}
			}
		}
		if slices.Min(into) < 2*bits.Len(uint(n))-4 {
			t.Errorf("%d nodes: only %d probes reach some node", n, slices.Min(into))
		}
	}
}

// TestLargeProbes checks that payloads are sent along the ring and its chords,
// in both directions alike.
func TestLargeProbes(t *testing.T) {
	for _, n := range []int{2, 16, 17, 64, 100, 1000} {
		for i := range n {
			count := 0
			for j := range n {
				if i == j {
					continue
				}
				if isLarge(i, j, n) != isLarge(j, i, n) {
					t.Fatalf("%d nodes: %d and %d do not agree", n, i, j)
				}
				if isLarge(i, j, n) {
					count++
				}
			}
			if n <= 16 && count != n-1 || n > 16 && (count < 4 || count > 2*bits.Len(uint(n))) {
				t.Fatalf("%d nodes: node %d sends %d payloads", n, i, count)
			}
		}
	}
}
