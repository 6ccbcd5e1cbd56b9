package launch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// A worker that never reaches the store makes all others wait, up to torch's
// half hour. gorun sees both sides of that.
const (
	arrivalsEvery = 5 * time.Second
	lateAfter     = 30 * time.Second // between the first arrival and a word about the others
)

// arrivals tells which workers have connected to the store.
type arrivals struct {
	world rendezvous.World
	group int         // this node's group rank
	pids  map[int]int // pid → rank of this node's workers
}

// missing says who has not connected while others have; empty if nobody has
// (the program does not use the store) or everybody. Newer clients tell their
// pid, which names the ranks of this node; of other nodes only the number of
// connections is known, and with several nodes at one address only the total.
func (a arrivals) missing(clients []tcpstore.Client) string {
	byAddr, total := map[string]int{}, 0
	here := map[int]bool{}
	for _, c := range clients {
		if c.Requests == 0 {
			continue // a connection for callbacks
		}
		total++
		byAddr[c.Remote.Addr().Unmap().String()]++
		if rank, ok := a.pids[c.PID]; ok {
			here[rank] = true
		}
	}
	if total == 0 || total >= a.world.Size {
		return ""
	}
	var who []string
	for g, m := range a.world.Members {
		n := byAddr[m.Addr]
		switch {
		case g == a.group && len(here) > 0:
			for r := m.FirstRank; r < m.FirstRank+m.Workers; r++ {
				if !here[r] {
					who = append(who, fmt.Sprintf("rank %d", r))
				}
			}
		case n < m.Workers && n > 0:
			who = append(who, fmt.Sprintf("%d of %d workers of %s", m.Workers-n, m.Workers, m.Name()))
		case n == 0 && a.distinct(m.Addr):
			who = append(who, fmt.Sprintf("all %d workers of %s", m.Workers, m.Name()))
		}
	}
	text := fmt.Sprintf("%d of %d workers have connected to the store", total, a.world.Size)
	if len(who) > 0 {
		text += "; missing: " + strings.Join(who[:min(len(who), 16)], ", ")
	}
	return text
}

// distinct reports whether connections from that address can be told from other
// nodes': on one machine all of them come from the store's own address.
func (a arrivals) distinct(addr string) bool {
	return !strings.HasPrefix(addr, "127.")
}

// watchArrivals says every half minute whom the others wait for, until ctx ends.
func (a *agent) watchArrivals(ctx context.Context, w *workers, server *tcpstore.Server) {
	tick := time.NewTicker(arrivalsEvery)
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			clients := server.Clients()
			if len(clients) == 0 || now.Sub(clients[0].Since) < lateAfter || now.Sub(said) < lateAfter {
				continue
			}
			if text := w.missing(server); text != "" {
				said = now
				a.events.Put(noteEvent{text})
			}
		}
	}
}

// missing says who never came to the store while others did. Who came and has
// ended since is no news.
func (w *workers) missing(server *tcpstore.Server) string {
	if server.Complete() {
		return ""
	}
	return w.arrivals().missing(server.Clients())
}

// arrivals is what is known of this round's workers.
func (w *workers) arrivals() arrivals {
	a := arrivals{world: w.world, group: w.group, pids: map[int]int{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wk := range w.list {
		a.pids[wk.proc.Pid()] = wk.rank
	}
	return a
}
