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

// Bounds of a look that a question for the signs asks for.
const (
	freshTime = 150 * time.Millisecond // that the question waits for it
	freshAge  = time.Second            // of the last look, below which no new one is made
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
	opts  NodeOptions
	fresh chan chan struct{} // has questions that wait for a look; each is closed after it

	mu    sync.Mutex // is not held while files and memory of processes are read
	round *Round     // nil: nothing runs
	ranks map[int]*watched
	due   time.Time // of the next look at processes
	last  time.Time // look at processes

	calls map[hang.CallKey]bool // old calls that were suspected
	asked time.Time             // of the last suspicion because of calls
	still suspicion
}

// watched is one worker. The goroutine that looks has tree and late.
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

	readLines func(ctx context.Context, pid int) (string, bool) // nil: stacks.OwnLines
}

// lines reads where a worker is in its program.
func (o *NodeOptions) lines(ctx context.Context, pid int) (string, bool) {
	if o.readLines != nil {
		return o.readLines(ctx, pid)
	}
	return stacks.OwnLines(ctx, pid)
}

// NewNode returns a node before its first round.
func NewNode(o NodeOptions) *Node { return &Node{opts: o, fresh: make(chan chan struct{})} }

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
		var asked chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case asked = <-n.fresh:
			n.hasten(time.Now())
		}
		if round, ok := n.look(ctx, time.Now()); ok {
			n.opts.Suspect(round)
		}
		if asked != nil {
			close(asked)
		}
	}
}

// hasten makes the next look one at processes too, unless the last one was a moment ago.
func (n *Node) hasten(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.last) >= min(freshAge, n.period()) {
		n.due = now
	}
}

// Signs returns what the workers of the round do now, by rank, and the round's number. Run
// looks at them before, unless it is in a look that takes long.
func (n *Node) Signs(ctx context.Context) (signs []hang.Sign, round int) {
	n.awaitLook(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.round == nil {
		return nil, -1
	}
	n.lookAtCalls(time.Now())
	return n.signs(time.Now()), n.round.Number
}

// awaitLook waits until Run has looked at the workers, but not for long.
func (n *Node) awaitLook(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, freshTime)
	defer cancel()
	looked := make(chan struct{})
	select {
	case n.fresh <- looked:
	case <-ctx.Done():
		return
	}
	select {
	case <-looked:
	case <-ctx.Done():
	}
}

// signs returns the signs of all ranks. The lock is held.
func (n *Node) signs(now time.Time) []hang.Sign {
	var all []hang.Sign
	for _, rank := range slices.Sorted(maps.Keys(n.ranks)) {
		all = append(all, n.ranks[rank].Sign(now))
	}
	return all
}

// look looks at the workers and reports whether the round may hang. One goroutine at a time
// calls it.
func (n *Node) look(ctx context.Context, now time.Time) (round int, suspect bool) {
	n.lookAtProcesses(ctx, now)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.round == nil {
		return 0, false
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

// lookAtProcesses reads what the workers' processes do, if it is time for that.
func (n *Node) lookAtProcesses(ctx context.Context, now time.Time) {
	n.mu.Lock()
	round, elapsed := n.round, now.Sub(n.last)
	if round == nil || now.Before(n.due) {
		n.mu.Unlock()
		return
	}
	n.due, n.last = now.Add(n.period()), now
	n.mu.Unlock()
	for _, w := range round.Workers() {
		r := n.watch(round, &w, now)
		if r == nil {
			return // another round has begun
		}
		l := hang.Look{PID: w.PID, Ended: w.Exit != nil && w.Exit.Success()}
		if w.Exit == nil {
			l = r.tree.look(elapsed)
			l.Output = w.Output.LastRead()
		}
		n.mu.Lock()
		r.Observe(now, l)
		wants := w.Exit == nil && l.State != 'D' && r.WantsLines(now, n.opts.Timeout, n.period())
		n.mu.Unlock()
		if wants && r.late < maxLate {
			n.lookAtLines(ctx, r, now)
		}
	}
}

// watch returns the worker of a round as it is watched, nil if that round is over.
func (n *Node) watch(round *Round, w *workers.Worker, now time.Time) *watched {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.round != round {
		return nil
	}
	r := n.ranks[w.Rank]
	if r == nil {
		r = &watched{Rank: hang.NewRank(w.Rank, now), tree: newTree(w.PID)}
		n.ranks[w.Rank] = r
	}
	return r
}

// lookAtLines reads where a worker of Python is in its program. A worker whose memory
// the kernel does not give in time is soon not asked again.
func (n *Node) lookAtLines(ctx context.Context, r *watched, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, linesTime)
	defer cancel()
	lines, ok := n.opts.lines(ctx, r.tree.root)
	if ctx.Err() != nil {
		r.late++
	}
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r.ObserveLines(now, lines)
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
