// Package rendezvoustest is what every backend must pass: the same jobs, played by
// agents that are goroutines around a real rendezvous.Machine, with simulated
// workers.
//
// Run plays them in real time, with streams over loopback. Simulate plays them in
// virtual time, with a memory.Net. A backend brings a Fleet.
//
// In every case a Ledger checks that a round of a job has one world, that the world
// starts only where and after every member has accepted it, that it starts nowhere
// while a worker of another round lives on a node that takes part (with a Fence: on
// any node), and that no agent ends before its workers.
package rendezvoustest

import (
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Fleet makes the backends of agents and does to them what a test asks for.
type Fleet interface {
	Traits() Traits
	// Open makes the backend of a node, whose Endpoint it sets.
	Open(Seat) (rendezvous.Backend, error)
	// Kill cuts an agent that is about to end off from its backend for good, so that
	// the backend gets no message, as from a killed process. A backend that cannot do
	// that lets the agent leave.
	Kill(id rendezvous.NodeID)
	// Cut cuts an agent off from the backend, or reconnects it.
	Cut(id rendezvous.NodeID, cut bool)
	// Halt takes the whole backend away, or gives it back.
	Halt(down bool)
	// Leftovers returns what the backend still holds of a run, a line each.
	Leftovers(runID string) ([]string, error)
}

// Seat is a node that needs a backend.
type Seat struct {
	Node      *rendezvous.Node
	Index     int                    // of the node in its run, from 0
	Endpoints int                    // nodes below this index serve an endpoint, if the backend has endpoints
	OneName   bool                   // these nodes serve the same endpoint, a name that stands for all nodes
	Host      func(index int) string // IP address of a node of this run
}

// Traits say what a fleet is and can do.
type Traits struct {
	Fences bool          // its backends implement rendezvous.Fence
	Cuts   bool          // Cut works
	Halts  bool          // Halt works
	TTL    time.Duration // how long a membership lasts without its agent
	Record time.Duration // how long, at most, a world's record lasts without its sealer
}

// Timing of a job. Everything is well below what a person would choose.
type Timing struct {
	Interval    time.Duration // between signs of life on a stream
	SilentAfter time.Duration
	Silence     time.Duration
	Dial        time.Duration
	Rejoin      time.Duration
	Limit       time.Duration // within which a case expects anything to happen
}

// timing fits the time after which the backend's memberships end.
func timing(tr Traits) Timing {
	ttl := max(tr.TTL, 2*time.Second)
	return Timing{
		Interval: ttl / 12, SilentAfter: ttl / 4, Silence: ttl + ttl/4, Dial: ttl / 3, Rejoin: ttl + ttl/4,
		Limit: 60 * time.Second,
	}
}

// Wiring is the network between the agents.
type Wiring interface {
	// Attach makes the end of the agent at a host (an IP address).
	Attach(host string, post func(rendezvous.Event)) (End, error)
	// Cut stops everything between two agents' addresses, or lets it go on.
	Cut(a, b string, cut bool)
}
