package rendezvous

import (
	"time"
)

// Config is what a Machine is told once.
type Config struct {
	Self        Node
	MaxRestarts int
	Endpoints   int           // number of endpoints; the first world needs nodes that serve a majority of them
	Where       string        // the endpoints, for messages
	Flags       string        // that every node must have alike to come there, for messages; "" for those of endpoints
	Proofs      bool          // as coordinator: seat only nodes whose id is proven
	Check       bool          // as coordinator: compare the nodes before a world is proposed
	Fenced      bool          // the backend is a Fence: it makes worlds unique
	Grow        bool          // a node that comes while an elastic job runs starts the next round
	Takeover    bool          // another agent may coordinate when the coordinator is lost
	Join        time.Duration // the whole rendezvous of a round
	LastCall    time.Duration // wait for more nodes above the minimum
	Rejoin      time.Duration // wait for survivors after the loss of the coordinator
	Retry       time.Duration // between two attempts to reach a coordinator
	Token       func() string // draws a world's token
}

// The time that a decided job waits for the others to take the outcome.
const (
	ackTimeout  = 2 * time.Second
	killTimeout = 10 * time.Second // after a kill, the job ends here with or without the others
	statusEvery = time.Second
)
