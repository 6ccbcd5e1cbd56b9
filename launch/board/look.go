package board

import (
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/hang"
	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

// Call is a call in which a rank is.
type Call struct {
	Local, Rank int // of this node, of the world
	Text        string
	Since       time.Time // when it was first seen there

	key    callKey
	text   string // Text without the caller
	waits  board.Waits
	peer   int // in the communicator
	tag    int32
	caller string
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
	return n.look(time.Now())
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

// Ranks returns what the workers of this node that joined say of themselves, by rank.
func (n *Node) Ranks(now time.Time) map[int]hang.Calls {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.board == nil {
		return nil
	}
	open := n.look(now)
	all := map[int]hang.Calls{}
	for local := range n.board.Ranks() {
		m := n.board.Member(local)
		if m.Rank < 0 {
			continue
		}
		calls := hang.Calls{Step: m.Step}
		for _, p := range n.board.Positions(local, 1) {
			calls.Entered += p.Entered + p.Done
			calls.Lines = append(calls.Lines, n.line(&p, open, now))
		}
		all[n.round.FirstRank+local] = calls
	}
	return all
}

// line returns where a rank is on one line of its page. The lock is held.
func (n *Node) line(p *board.Position, open []Call, now time.Time) hang.Line {
	l := hang.Line{Comm: p.Comm.ID, Me: p.Comm.Rank, Size: p.Comm.Size}
	if last, ok := p.Last(); ok {
		l.Last = term.Line(last.Caller)
		if last.Waits == board.WaitsForAll || last.Waits == board.WaitsAside {
			l.Seq = last.Seq
		}
	} else {
		l.Unsure = p.Entered > 0 // the rank has not written it as a whole
	}
	for _, c := range open {
		if c.key.local == p.Local && c.key.line == p.Line && c.key.entered == p.Entered {
			l.Open = &hang.Call{Text: c.text, Where: term.Line(c.caller), Waits: waits[c.waits], Peer: c.peer, Tag: c.tag, Number: p.Entered, Age: max(0, now.Sub(c.Since))}
		}
	}
	return l
}

// waits has what a call waits for, as package hang names it.
var waits = map[board.Waits]hang.For{board.WaitsForReceiver: hang.ForReceiver, board.WaitsForSender: hang.ForSender, board.WaitsAside: hang.Aside}

// look reads all open calls and remembers since when each is seen. The lock is held.
func (n *Node) look(now time.Time) (open []Call) {
	if n.board == nil {
		return nil
	}
	since := map[callKey]time.Time{}
	for local := range n.board.Ranks() {
		for _, p := range n.board.Positions(local, 1) {
			last, ok := p.Last()
			if !p.Open() || !ok {
				continue
			}
			c := Call{
				Local: local, Rank: n.round.FirstRank + local, text: describe(&p, &last), key: callKey{local, p.Line, p.Entered},
				waits: last.Waits, peer: int(last.Peer), tag: last.Tag, caller: last.Caller, Since: now,
			}
			c.Text = c.text
			if c.caller != "" {
				c.Text += " at " + term.Line(c.caller)
			}
			if at, ok := n.since[c.key]; ok {
				c.Since = at
			}
			since[c.key] = c.Since
			open = append(open, c)
		}
	}
	n.since = since
	return open
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
	return text
}
