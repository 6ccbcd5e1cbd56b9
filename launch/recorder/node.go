package recorder

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/launch/flight"
)

// Node has the recorders of the ranks that run on a node now. Any goroutine may call its
// methods.
type Node struct {
	mu      sync.Mutex
	targets []Target
}

// Set replaces the recorders.
func (n *Node) Set(targets []Target) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.targets = targets
}

// Collect asks all of them.
func (n *Node) Collect(ctx context.Context) flight.Answer {
	n.mu.Lock()
	targets := slices.Clone(n.targets)
	n.mu.Unlock()
	a := Collect(ctx, targets)
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, t := range targets { // another round may have begun
		if i < len(n.targets) && n.targets[i].PID == t.PID && n.targets[i].dump == t.dump {
			n.targets[i].seen = t.seen
		}
	}
	return a
}

// WaitForDumps waits until all recorders have written a dump, or ctx ends. It returns at
// once if there are none.
func (n *Node) WaitForDumps(ctx context.Context) {
	n.mu.Lock()
	targets := slices.DeleteFunc(slices.Clone(n.targets), func(t Target) bool { return t.dump == "" })
	n.mu.Unlock()
	before := map[int]stamp{}
	for _, t := range targets {
		before[t.Rank] = t.stamp()
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for len(targets) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		targets = slices.DeleteFunc(targets, func(t Target) bool { return t.stamp() != before[t.Rank] })
	}
}

// DumpKey is the key of the workers' store at which torch's heartbeat threads look once a
// second. If it holds the number of a rank, every rank writes its dump.
const DumpKey = "exception_dump"

// DumpValue returns the value of DumpKey.
func DumpValue(rank int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(rank)) }
