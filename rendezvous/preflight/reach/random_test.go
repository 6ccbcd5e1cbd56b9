package reach_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// breakage is a random fault, and the nodes and networks that a finding must
// name.
type breakage struct {
	name  string
	nodes []int
	nets  []string // as the finding's values have them
	cuts  func(from, to int) bool
}

// breakNodes closes some nodes in one direction or in both.
func breakNodes(r *rand.Rand, n int) breakage {
	way := r.IntN(3)
	nodes := drawNumbers(r, n, 1+r.IntN(max(1, min(n/5, 24))))
	broken := make([]bool, n)
	for _, i := range nodes {
		broken[i] = true
	}
	return breakage{
		name: fmt.Sprintf("way %d of nodes %v", way, nodes), nodes: nodes,
		cuts: func(from, to int) bool { return way != 0 && broken[from] || way != 1 && broken[to] },
	}
}

// breakNets cuts the way between two subnets.
func breakNets(r *rand.Rand, n, subnets int) breakage {
	k := drawNumbers(r, subnets, 2)
	net := func(i int) int { return i * subnets / n }
	one := r.IntN(2) == 0
	return breakage{
		name: fmt.Sprintf("networks %v, one way %v", k, one),
		nets: []string{fmt.Sprintf("in 10.%d.0.0/16", k[0]), fmt.Sprintf("in 10.%d.0.0/16", k[1])},
		cuts: func(from, to int) bool {
			a, b := net(from), net(to)
			return a == k[0] && b == k[1] || !one && a == k[1] && b == k[0]
		},
	}
}

// and joins two breakages.
func (b breakage) and(c breakage) breakage {
	return breakage{
		b.name + " and " + c.name, append(b.nodes, c.nodes...), append(b.nets, c.nets...),
		func(from, to int) bool { return b.cuts(from, to) || c.cuts(from, to) },
	}
}

// blamed returns the nodes and the networks that a finding names.
func blamed(x preflight.Finding) (nodes []int, nets []string) {
	for _, v := range x.Values {
		if strings.HasPrefix(v.Value, "in ") {
			nets = append(nets, v.Value)
			continue
		}
		nodes = append(nodes, v.Nodes...)
	}
	slices.Sort(nets)
	slices.Sort(nodes)
	return nodes, nets
}

var reachSeed = flag.Uint64("reach.seed", 0, "of the random breakage; 0: any")

// TestReachNamesRandomBreakage checks that findings name what is broken and
// nothing else, both from all pairs of a small fleet and from the sample of a
// large one.
func TestReachNamesRandomBreakage(t *testing.T) {
	rounds := []struct{ n, times int }{{6, 600}, {17, 600}, {64, 150}, {65, 100}, {200, 60}, {1000, 10}}
	if testing.Short() {
		rounds = rounds[1:3]
	}
	seed := rand.Uint64()
	if *reachSeed != 0 {
		seed = *reachSeed
	}
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	results := []preflight.Result{preflight.TimedOut, preflight.Refused, preflight.NoRoute, preflight.Reset, preflight.Stalled}
	for _, of := range rounds {
		n := of.n
		for _, subnets := range []int{1, 3} {
			s := newSimnet(spread(n, subnets))
			healthy := slices.Clone(s.run().Probes)
			for range of.times {
				b := breakNodes(r, n)
				if subnets > 1 && n/subnets > 3 { // the finding may name the nodes of a network this small
					switch r.IntN(3) {
					case 0:
						b = breakNets(r, n, subnets)
					case 1:
						if n > 64 {
							b = b.and(breakNets(r, n, subnets))
						}
					}
				}
				result := results[r.IntN(len(results))]
				id := "I02"
				if result == preflight.Stalled {
					id = "I05"
				}
				copy(s.fleet.Probes, healthy)
				for i := range s.fleet.Probes {
					if p := &s.fleet.Probes[i]; b.cuts(p.From, p.To) && (p.Large || result != preflight.Stalled) {
						p.Result = result
					}
				}
				got := compare(&s.fleet)
				if len(got) != 1 || got[0].ID != id {
					t.Fatalf("seed %d, %d nodes, %s: %+v", seed, n, b.name, got)
				}
				if nodes, nets := blamed(got[0]); !slices.Equal(nodes, b.nodes) || !slices.Equal(nets, b.nets) {
					t.Fatalf("seed %d, %d nodes in %d networks, %s, %s: named %v and %v\n%s", seed, n, subnets, b.name, result, nodes, nets, got[0].Text)
				}
			}
		}
	}
}
