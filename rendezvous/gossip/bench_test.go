package gossip

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkStart64 is the cost of 64 agents that start at once in one process.
func BenchmarkStart64(b *testing.B) {
	for b.Loop() {
		start64(b)
	}
}

func start64(b *testing.B) {
	const n = 64
	gs := make([]*Gossip, n)
	at := freePort(b, "127.0.0.1")
	for i := range gs {
		c := config(1+i, at)
		if i == 0 {
			c.Serves = 0
		}
		g, err := Open(c)
		if err != nil {
			b.Fatal(err)
		}
		gs[i] = g
	}
	var wg sync.WaitGroup
	for _, g := range gs[1:] {
		wg.Go(func() {
			if err := g.ask(b.Context(), at); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	for _, g := range gs { // every agent can reach the endpoint's agent, which knows all
		eventually(b, 10*time.Second, func() bool { return g == gs[0] && len(g.snapshot().All) == n || sees(g) }, func() string {
			return fmt.Sprintf("the endpoint's agent sees %d of %d", len(gs[0].snapshot().All), n)
		})
	}
	b.StopTimer()
	for _, g := range gs {
		_ = g.list.Shutdown()
	}
	b.StartTimer()
}

// sees reports whether an endpoint's agent is seen.
func sees(g *Gossip) bool {
	by, _ := g.served()
	return len(by) > 0
}
