//go:build !race

package collective_test

import (
	"context"
	"testing"

	"github.com/gorun/gorun/worker/collective"
)

// TestCallsAllocateNothing counts the allocations of both ranks, in calls over TCP with
// the algorithms of all sizes. The race detector allocates, so it is not there.
func TestCallsAllocateNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context()) // a context that may end costs nothing either
	defer cancel()
	const calls, warm = 200, 20
	for name, call := range map[string]func(g *collective.Group, buf []float32) error{
		"all-reduce": func(g *collective.Group, buf []float32) error {
			return g.Do(ctx, collective.AllReduce(collective.Of(buf), collective.Sum))
		},
		"big all-reduce": func(g *collective.Group, buf []float32) error {
			return g.Do(ctx, collective.AllReduce(collective.Of(buf[:cap(buf)]), collective.Sum))
		},
		"barrier": func(g *collective.Group, _ []float32) error { return g.Do(ctx, collective.Barrier()) },
		"messages": func(g *collective.Group, buf []float32) error {
			half := len(buf) / 2
			return g.SendRecv(ctx, collective.Of(buf[:half]), 1-g.Rank(), collective.Of(buf[half:]), 1-g.Rank(), 0)
		},
	} {
		var average float64
		noErrors(t, each(t, groups(t, 2), func(r int, g *collective.Group) error {
			buf := make([]float32, 100, 40_000)
			for range warm {
				if err := call(g, buf); err != nil {
					return err
				}
			}
			if r == 0 {
				average = testing.AllocsPerRun(calls, func() {
					if err := call(g, buf); err != nil {
						t.Error(err)
					}
				})
				return nil
			}
			for range 1 + calls {
				if err := call(g, buf); err != nil {
					return err
				}
			}
			return nil
		}))
		if average > 1 {
			t.Errorf("%s: %v allocations a call", name, average)
		}
	}
}
