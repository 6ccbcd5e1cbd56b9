package gossip

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkStart64 measures the start of 64 agents at once in one process.
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
			c.Endpoints.Serves = 0
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
			if err := g.joinEndpoint(b.Context(), 0); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	for _, g := range gs { // every agent can reach the endpoint's agent, which knows all
		eventually(b, 10*time.Second, func() bool { return g == gs[0] && len(g.snapshot().All) == n || seesEndpoint(g) }, func() string {
			return fmt.Sprintf("the endpoint's agent sees %d of %d", len(gs[0].snapshot().All), n)
		})
	}
	b.StopTimer()
	for _, g := range gs {
		_ = g.list.Shutdown()
	}
	b.StartTimer()
}

// seesEndpoint reports whether g sees an agent that serves an endpoint.
func seesEndpoint(g *Gossip) bool {
	served, _ := g.servedEndpoints()
	return len(served) > 0
}
