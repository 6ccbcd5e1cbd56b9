package recorder

import (
	"context"
	"sync"

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
	targets := n.targets
	n.mu.Unlock()
	return Collect(ctx, targets)
}
