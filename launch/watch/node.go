package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/hang"
	"github.com/gorun/gorun/launch/stacks"
	"github.com/gorun/gorun/launch/workers"
)

// boardsEvery is the time between two looks at the calls of Go workers.
const boardsEvery = 250 * time.Millisecond

// Times between two looks at the workers' processes.
const (
	oftenest = 500 * time.Millisecond
	rarest   = 5 * time.Second
)

// Bounds of reading where a worker is, which takes about a millisecond on a calm machine.
const (
	linesTime = time.Second
	maxLate   = 3 // times that it may take longer
)

// suspectEvery is the shortest time between two suspicions because of calls.
const suspectEvery = time.Second

// Round is a round whose workers are watched.
type Round struct {
	Number  int
	Workers func() []workers.Worker
}

// Node watches the workers of this node.
type Node struct {
	opts NodeOptions

	mu    sync.Mutex
	round *Round // nil: nothing runs
	ranks map[int]*watched
	due   time.Time // of the next look at processes
	last  time.Time // look at processes

	calls map[hang.CallKey]bool // old calls that were suspected
	asked time.Time             // of the last suspicion because of calls
	still suspicion
}

// watched is one worker.
type watched struct {
	*hang.Rank
	tree *tree
	late int // times that its lines did not come in time
}

// suspicion says when to suspect again that nothing moves: the longer nothing comes of it,
// the later.
type suspicion struct {
	next time.Time
	wait time.Duration
}

// NodeOptions says what a Node needs.
type NodeOptions struct {
	Timeout time.Duration // without progress; 0: nothing is watched
	Board   func() *board.Node
	Suspect func(round int) // takes the suspicion that the round hangs, without blocking
}

// NewNode returns a node before its first round.
func NewNode(o NodeOptions) *Node { return &Node{opts: o} }

// Begin starts to watch a round, in place of the last one.
func (n *Node) Begin(r Round) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.round, n.ranks, n.calls = &r, map[int]*watched{}, map[hang.CallKey]bool{}
	n.due, n.last, n.still = time.Time{}, time.Time{}, suspicion{}
}

// End ends the watch of the round: its workers are being stopped.
func (n *Node) End() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.round = nil
}

// Run looks at the workers until ctx ends.
func (n *Node) Run(ctx context.Context) {
	if n.opts.Timeout <= 0 {
		return
	}
	every := time.NewTicker(boardsEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if round, ok := n.look(ctx, time.Now()); ok {
			n.opts.Suspect(round)
		}
	}
}

// Signs returns what the workers of the round do, by rank, and the round's number.
func (n *Node) Signs() (signs []hang.Sign, round int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.round == nil {
		return nil, -1
	}
	n.lookAtCalls(time.Now())
	return n.signs(time.Now()), n.round.Number
}

// signs returns the signs of all ranks. The lock is held.
func (n *Node) signs(now time.Time) []hang.Sign {
	var all []hang.Sign
	for _, rank := range slices.Sorted(maps.Keys(n.ranks)) {
		all = append(all, n.ranks[rank].Sign(now))
	}
	return all
}

// look looks at the workers and reports whether the round may hang.
func (n *Node) look(ctx context.Context, now time.Time) (round int, suspect bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.round == nil {
		return 0, false
	}
	if !now.Before(n.due) {
		n.due = now.Add(n.period())
		n.lookAtProcesses(ctx, now)
	}
	n.lookAtCalls(now)
	signs := n.signs(now)
	byCalls, byStillness := n.newCalls(signs, now), n.still.elapsed(hang.NearlyStill(signs, n.opts.Timeout), n.opts.Timeout, now)
	return n.round.Number, byCalls || byStillness
}

// lookAtCalls reads what the workers say of themselves. The lock is held.
func (n *Node) lookAtCalls(now time.Time) {
	for rank, c := range n.opts.Board().Ranks(now) {
		if w := n.ranks[rank]; w != nil {
			w.ObserveCalls(now, c)
		}
	}
}

// period returns the time between two looks at processes.
func (n *Node) period() time.Duration { return min(max(n.opts.Timeout/20, oftenest), rarest) }

// lookAtProcesses reads what the workers' processes do. The lock is held.
func (n *Node) lookAtProcesses(ctx context.Context, now time.Time) {
	for _, w := range n.round.Workers() {
		r := n.ranks[w.Rank]
		if r == nil {
			r = &watched{Rank: hang.NewRank(w.Rank, now), tree: newTree(w.PID)}
			n.ranks[w.Rank] = r
		}
		if w.Exit != nil {
			r.Observe(now, hang.Look{PID: w.PID, Ended: w.Exit.Success()})
			continue
		}
		l := r.tree.look(now.Sub(n.last))
		l.Output = w.Output.LastRead()
		r.Observe(now, l)
		if r.late < maxLate && l.State != 'D' && r.WantsLines(now, n.opts.Timeout, n.period()) {
			n.lookAtLines(ctx, r, now)
		}
	}
	n.last = now
}

// lookAtLines reads where a worker of Python is in its program. A worker whose memory
// the kernel does not give in time is soon not asked again. The lock is held.
func (n *Node) lookAtLines(ctx context.Context, r *watched, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, linesTime)
	defer cancel()
	if lines, ok := stacks.OwnLines(ctx, r.tree.root); ok {
		r.ObserveLines(now, lines)
	}
	if ctx.Err() != nil {
		r.late++
	}
}

// newCalls reports whether a call has become old enough for a closed cycle. The lock is held.
func (n *Node) newCalls(signs []hang.Sign, now time.Time) bool {
	if now.Sub(n.asked) < suspectEvery {
		return false
	}
	open := hang.MayClose(signs)
	found := false
	for key := range open {
		found = found || !n.calls[key]
	}
	n.calls = open
	if found {
		n.asked = now
	}
	return found
}

// elapsed reports whether it is time to suspect that nothing moves.
func (s *suspicion) elapsed(still bool, timeout time.Duration, now time.Time) bool {
	switch {
	case !still:
		*s = suspicion{}
		return false
	case now.Before(s.next):
		return false
	}
	s.wait = max(2*s.wait, timeout/2)
	s.next = now.Add(s.wait)
	return true
}
