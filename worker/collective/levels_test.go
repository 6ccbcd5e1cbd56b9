package collective_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/rails"
)

// simulateNodes returns the groups of ranks on the given nodes, by rank, whose collectives
// go in two levels.
func simulateNodes(t testing.TB, n *simulatedNet, nodes []uint64) []*collective.Group {
	t.Helper()
	n.nodes = nodes
	world := make([]int, len(nodes))
	for r := range world {
		world[r] = r
	}
	gs := make([]*collective.Group, len(nodes))
	for r := range gs {
		below := collective.NewMessages(&simulatedRank{n: n, me: r, world: world}, r, len(nodes))
		layout := rails.LayoutOf(nodes, r)
		var local collective.Engine
		if here := layout.Here(); len(here) > 1 {
			var err error
			if local, err = below.Split(t.Context(), 0, here); err != nil {
				t.Fatal(err)
			}
		}
		e, err := rails.New(t.Context(), 0, layout, local, below)
		if err != nil {
			t.Fatal(err)
		}
		gs[r] = collective.New(e, r, len(nodes), collective.Options{})
	}
	return gs
}

// layouts are nodes with equal and unequal numbers of ranks, also such whose ranks do not
// follow each other.
var layouts = [][]uint64{
	{1, 1, 2, 2},
	{1, 1, 1, 1, 2, 2, 2, 2},
	{1, 2, 1, 2},
	{1, 1, 1, 2, 2},
	{1, 1, 2, 3, 3, 3},
	{1, 2, 2, 1, 2, 3, 3, 3},
	{1, 1, 1, 1, 1, 2, 2, 2, 2},
	{1, 1, 1, 2, 2, 2, 3, 3, 3},
	{1, 2, 2, 2, 2, 2, 2},
}

// TestTwoLevelsEqualThePlainResult goes through all operations and sizes in two levels. The sizes are around those where the algorithms change.
func TestTwoLevelsEqualThePlainResult(t *testing.T) {
	for _, nodes := range layouts {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(6, uint64(len(nodes))))
			size := len(nodes)
			var steps []step
			for kind := collective.KindAllReduce; kind <= collective.KindReduceScatterV; kind++ {
				if kind == collective.KindSend {
					continue
				}
				for _, op := range ops {
					d := dtypes[rng.IntN(len(dtypes))]
					if allows(d, op) && (reduces(kind) || op == collective.Sum) {
						steps = append(steps, step{kind, d, op, rng.IntN(size), rng.IntN(40), rng.IntN(7)})
					}
				}
				for _, count := range []int{0, 1, 8191, 8193, 24_001} {
					if kind != collective.KindAllReduce && kind != collective.KindReduce && kind != collective.KindBroadcast {
						count /= size // other calls have this much of each rank
					}
					op := []collective.Op{collective.Sum, collective.Avg}[rng.IntN(2)]
					steps = append(steps, step{kind, collective.Float32, op, rng.IntN(size), count, rng.IntN(7)})
				}
			}
			noErrors(t, each(t, simulateNodes(t, newSimulatedNet(0, -1), nodes), func(r int, g *collective.Group) error {
				for _, s := range steps {
					if err := s.run(t, g); err != nil {
						return fmt.Errorf("%v: %w", s, err)
					}
				}
				return nil
			}))
		})
	}
}

// TestTwoLevelsSaveTraffic compares the bytes between nodes with those of one level over all
// ranks.
func TestTwoLevelsSaveTraffic(t *testing.T) {
	for _, nodes := range layouts {
		for kind := collective.KindAllReduce; kind <= collective.KindReduceScatter; kind++ {
			if kind == collective.KindSend || kind == collective.KindBarrier {
				continue
			}
			for _, count := range []int{32, 50_000} {
				s := step{kind: kind, dtype: collective.Float32, op: collective.Sum, root: len(nodes) - 1, count: count}
				between := func(make func(*simulatedNet) []*collective.Group) int {
					n := newSimulatedNet(0, -1)
					n.nodes = nodes
					noErrors(t, each(t, make(n), func(_ int, g *collective.Group) error { return s.run(t, g) }))
					return n.between
				}
				two := between(func(n *simulatedNet) []*collective.Group { return simulateNodes(t, n, nodes) })
				one := between(func(n *simulatedNet) []*collective.Group { return n.groups(len(nodes)) })
				t.Logf("%v on %v: %d bytes between nodes, %d in one level", s, nodes, two, one)
				if two > one {
					t.Errorf("%v on %v: %d bytes between nodes, more than the %d of one level", s, nodes, two, one)
				}
			}
		}
	}
}

// TestLevelsNameTheProgramsCall checks that a mismatch in two levels has the calls that the
// program made, on every rank that says what does not match.
func TestLevelsNameTheProgramsCall(t *testing.T) {
	nodes := []uint64{1, 1, 2, 2}
	for _, count := range []int{1, 100_000} {
		errs := each(t, simulateNodes(t, newSimulatedNet(0, -1), nodes), func(r int, g *collective.Group) error {
			op := collective.Sum
			if nodes[r] == 2 {
				op = collective.Avg
			}
			return g.Do(t.Context(), collective.AllReduce(collective.Of(make([]float32, count)), op))
		})
		found := false
		for r, err := range errs {
			m, ok := errors.AsType[*collective.MismatchError](err)
			if !ok {
				continue
			}
			found = true
			calls := map[collective.Op]bool{m.Mine.Op: true, m.Theirs.Op: true}
			if m.Mine.Kind != collective.KindAllReduce || m.Theirs.Kind != collective.KindAllReduce || !calls[collective.Sum] || !calls[collective.Avg] ||
				m.Mine.Count != uint64(count) || m.Theirs.Count != uint64(count) {
				t.Errorf("%d elements, rank %d: %v", count, r, err)
			}
		}
		if !found {
			t.Errorf("%d elements: no rank says what does not match: %v", count, errs)
		}
	}
}
