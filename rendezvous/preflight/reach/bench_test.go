package reach_test

import (
	"fmt"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

func BenchmarkReach(b *testing.B) {
	for _, n := range []int{64, 1000, 10000} {
		for _, sick := range []string{"healthy", "one node", "two networks"} {
			b.Run(fmt.Sprintf("%d nodes, %s", n, sick), func(b *testing.B) {
				s := newSimnet(spread(n, 2))
				s.connect = func(p preflight.Probe) preflight.Result {
					if sick == "one node" && p.To == n/3 || sick == "two networks" && (p.From < n/2) != (p.To < n/2) {
						return preflight.TimedOut
					}
					return preflight.OK
				}
				f := s.run()
				for b.Loop() {
					compare(f)
				}
			})
		}
	}
}
