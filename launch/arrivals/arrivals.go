// Package arrivals names the workers that have not connected to the store while
// others wait for them there. A worker that never connects makes all others wait,
// up to torch's half hour. Only the store's node can see both.
//
// Invariants: the package reports nothing if no worker uses the store, or if all
// workers have connected, even if some have left since.
package arrivals

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

const (
	checkInterval  = 5 * time.Second
	reportInterval = 30 * time.Second // time between the first arrival and the first line about the others
	maxNamed       = 16
)

// Store is the part of the store that the package uses.
type Store interface {
	Clients() []tcpstore.Client // oldest first
	Complete() bool             // all workers have connected
}

// Round describes the round of the expected workers.
type Round struct {
	World *rendezvous.World
	Group int                // this node's group rank
	PIDs  func() map[int]int // pid → rank of this node's workers
	Store Store
}

// Watch says every half minute which workers the others wait for, until ctx ends.
func (r Round) Watch(ctx context.Context, report func(text string)) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			clients := r.Store.Clients()
			if len(clients) == 0 || now.Sub(clients[0].Since) < reportInterval || now.Sub(said) < reportInterval {
				continue
			}
			if text := r.Missing(); text != "" {
				said = now
				report(text)
			}
		}
	}
}

// Missing names the workers that never connected. It returns "" if no worker
// connected (the program does not use the store) or if all did. Newer clients send
// their pid, by which Missing names the ranks of this node. For other nodes it
// knows only the number of connections, and for several nodes at one address only
// the total.
func (r Round) Missing() string {
	if r.Store.Complete() {
		return ""
	}
	byAddr, total := map[string]int{}, 0
	here, pids := map[int]bool{}, r.PIDs()
	for _, c := range r.Store.Clients() {
		if c.Requests == 0 {
			continue // a connection for callbacks
		}
		total++
		byAddr[c.Remote.Addr().Unmap().String()]++
		if rank, ok := pids[c.PID]; ok {
			here[rank] = true
		}
	}
	if total == 0 || total >= r.World.Size {
		return ""
	}
	var missing []string
	for g, m := range r.World.Members {
		n := byAddr[m.Addr]
		switch {
		case g == r.Group && len(here) > 0:
			for rank := m.FirstRank; rank < m.FirstRank+m.Workers; rank++ {
				if !here[rank] {
					missing = append(missing, fmt.Sprintf("rank %d", rank))
				}
			}
		case n < m.Workers && n > 0:
			missing = append(missing, fmt.Sprintf("%d of %d workers of %s", m.Workers-n, m.Workers, m.Name()))
		case n == 0 && !shared(m.Addr):
			missing = append(missing, fmt.Sprintf("all %d workers of %s", m.Workers, m.Name()))
		}
	}
	text := fmt.Sprintf("%d of %d workers have connected to the store", total, r.World.Size)
	if len(missing) > 0 {
		text += "; missing: " + strings.Join(missing[:min(len(missing), maxNamed)], ", ")
	}
	return text
}

// shared reports whether connections of several nodes come from an address: on one
// machine all of them come from the store's own address.
func shared(addr string) bool { return strings.HasPrefix(addr, "127.") }
