package board

import (
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

// Call is a call in which a rank is.
type Call struct {
	Local, Rank int // of this node, of the world
	Text        string
	Since       time.Time // when it was first seen there

	key    callKey
	comm   board.Comm
	waits  board.Waits
	peer   int // in the communicator
	tag    int32
	seq    uint64
	caller string
}

// view is what the pages of a board say at one time.
type view struct {
	open    []Call
	members map[uint64][]member // of each communicator, those on this node
}

// member is a rank of a communicator.
type member struct {
	rank, local int
	entered     uint64 // number of the last collective that it has begun there
}

// callKey tells a call from all others of a round.
type callKey struct {
	local, line int
	entered     uint64
}

// Calls returns the calls in which the ranks of this node are.
func (n *Node) Calls() []Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.look(time.Now()).open
}

// Steps returns how far the program of each rank of this node is, of those that said it.
func (n *Node) Steps() map[int]uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.board == nil {
		return nil
	}
	steps := map[int]uint64{}
	for local := range n.board.Ranks() {
		if step := n.board.Member(local).Step; step > 0 {
			steps[n.round.FirstRank+local] = step
		}
	}
	return steps
}

// look reads all pages and remembers since when each open call is seen. The lock is held.
func (n *Node) look(now time.Time) view {
	v := view{members: map[uint64][]member{}}
	if n.board == nil {
		return v
	}
	since := map[callKey]time.Time{}
	for local := range n.board.Ranks() {
		for _, p := range n.board.Positions(local, 1) {
			last, ok := p.Last()
			v.join(&p, &last)
			if !p.Open() || !ok {
				continue
			}
			c := Call{
				Local: local, Rank: n.round.FirstRank + local, Text: describe(&p, &last), key: callKey{local, p.Line, p.Entered},
				comm: p.Comm, waits: last.Waits, peer: int(last.Peer), tag: last.Tag, seq: last.Seq, caller: last.Caller, Since: now,
			}
			if at, ok := n.since[c.key]; ok {
				c.Since = at
			}
			since[c.key] = c.Since
			v.open = append(v.open, c)
		}
	}
	n.since = since
	return v
}

// join adds the rank of a line to the members of its communicator, rank after rank. last is the line's last
// call: a collective, a message or, if it has made none, nothing.
func (v *view) join(p *board.Position, last *board.Visit) {
	m := member{rank: p.Comm.Rank, local: p.Local}
	if last.Waits == board.WaitsForAll || last.Waits == board.WaitsAside {
		m.entered = last.Seq
	}
	all := v.members[p.Comm.ID]
	if n := len(all); n > 0 && all[n-1].local == m.local { // another line of the same rank
		all[n-1].entered = max(all[n-1].entered, m.entered)
		return
	}
	v.members[p.Comm.ID] = append(all, m)
}

// describe says in which call a rank is. The rank wrote every part of it.
func describe(p *board.Position, v *board.Visit) string {
	call := collective.Call{
		Comm: p.Comm.ID, Kind: collective.Kind(v.Kind), Type: collective.DType(v.Type), Op: collective.Op(v.Op),
		Root: v.Peer, Tag: v.Tag, Seq: v.Seq, Count: v.Count,
	}
	text := call.String()
	if v.Waits == board.WaitsForReceiver || v.Waits == board.WaitsForSender {
		text = collective.Message{Call: call, Send: v.Waits == board.WaitsForReceiver, Peer: int(v.Peer)}.String()
	}
	if v.Caller != "" {
		text += " at " + term.Line(v.Caller)
	}
	return text
}
