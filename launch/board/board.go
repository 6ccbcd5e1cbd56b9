// Package board is the agent's side of the memory that the workers of a node share: it
// makes the board of a round when the first worker asks for it, stops the workers that
// wait there, and reads where they are.
//
// Invariants: a round of workers that link no board costs nothing. The board of a round
// is handed to workers of that round only. What workers write is never trusted.
package board

import (
	"net"
	"sync"
	"time"

	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
)

// rankMemory is the range of bytes for each rank. A byte costs nothing until it is used.
const rankMemory = 256 << 20

// Node makes the boards of a node, one for each round.
type Node struct {
	mu     sync.Mutex
	round  Round
	failed bool         // this round's board cannot be made
	board  *board.Board // nil: no worker has asked for it
	cause  *contract.Cause
	since  map[callKey]time.Time // when the open calls were first seen
	cpus   []numa.Set            // CPUs of each worker; nil: they are not divided
	claim  net.Listener          // of these CPUs
}

// NewNode returns a node before its first round.
func NewNode() *Node { return &Node{} }

// Round describes the round whose workers get a board.
type Round struct {
	Number    int
	FirstRank int  // rank of this node's first worker
	Ranks     int  // workers of this node
	Spin      bool // each worker is bound to CPUs of its own
	// Divide returns CPUs for each worker, so that none waits for another on the same CPU;
	// nil: the workers are not to have CPUs of their own.
	Divide func() []numa.Set
}

// Begin starts a round. The board of the last round goes.
func (n *Node) Begin(r Round) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop()
	n.round, n.failed, n.cause = r, false, nil
}

// Close ends the last round.
func (n *Node) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop()
	n.round = Round{}
}

func (n *Node) drop() {
	_ = n.board.Close() // nothing depends on it any more
	n.board, n.since, n.cpus = nil, nil, nil
	if n.claim != nil {
		n.claim.Close()
		n.claim = nil
	}
}

// divide divides the CPUs among the round's workers. The lock is held.
func (n *Node) divide() {
	if n.round.Divide == nil || n.round.Spin {
		return
	}
	sets := n.round.Divide()
	if len(sets) != n.round.Ranks {
		return
	}
	if n.claim = claimCPUs(sets); n.claim != nil {
		n.cpus = sets
	}
}

// Hand calls send with the descriptor of the round's board and with the CPUs that a rank
// of the world may use as its own, if there are such. Hand returns false if there is no
// board: another round runs, or the system has no such memory. The workers then talk over
// TCP.
func (n *Node) Hand(round, rank int, send func(fd int, cpus []int)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.round.Ranks == 0 || n.round.Number != round || n.failed {
		return false
	}
	if n.board == nil {
		b, err := board.Create(board.Options{Ranks: n.round.Ranks, Memory: n.round.Ranks * rankMemory, Spin: n.round.Spin})
		if err != nil {
			n.failed = true
			return false
		}
		if n.board = b; n.cause != nil {
			b.Abort(*n.cause)
		}
		n.divide()
	}
	var cpus []int
	if local := rank - n.round.FirstRank; local >= 0 && local < len(n.cpus) {
		cpus = n.cpus[local]
	}
	send(int(n.board.File().Fd()), cpus)
	return true
}

// Abort ends every wait on the round's board.
func (n *Node) Abort(c contract.Cause) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cause == nil {
		n.cause = &c
	}
	if n.board != nil {
		n.board.Abort(c)
	}
}
