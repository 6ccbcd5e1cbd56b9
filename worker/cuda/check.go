package cuda

import (
	"slices"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

// compare compares a call that others can read with those of the same number that the other
// ranks of this node have made. A rank that comes later compares with this one.
func (c *core) compare(call *collective.Call) error {
	for i := range c.peers {
		theirs, ok := c.peers[i].calls.Call(call.Seq)
		if ok && !same(&theirs, call) {
			return c.difference(*call, &c.peers[i], &theirs)
		}
	}
	return nil
}

// same reports whether another rank's call is this one.
func same(theirs *board.Call, mine *collective.Call) bool {
	return theirs.Kind == uint8(mine.Kind) && theirs.Type == uint8(mine.Type) && theirs.Op == uint8(mine.Op) &&
		theirs.Peer == mine.Root && theirs.Count == mine.Count && theirs.Seq == mine.Seq
}

// difference returns the error of two ranks of this node in different calls.
func (c *core) difference(mine collective.Call, p *peer, theirs *board.Call) error {
	return &collective.MismatchError{
		Rank: c.at.WorldRank, Mine: mine, MyCaller: c.callerOf(&c.self, mine.Seq),
		Peer: c.world[p.rank], Theirs: callOf(theirs, mine.Comm), TheirCaller: c.callerOf(p, mine.Seq),
	}
}

// callOf returns a call of the board.
func callOf(b *board.Call, comm uint64) collective.Call {
	return collective.Call{
		Comm: comm, Kind: collective.Kind(b.Kind), Type: collective.DType(b.Type), Op: collective.Op(b.Op),
		Root: b.Peer, Seq: b.Seq, Count: b.Count,
	}
}

// lately is how many calls mismatch looks back.
const lately = 60

// callerOf returns the line of the program where a rank of this node made a call, "" if the
// board does not say.
func (c *core) callerOf(p *peer, seq uint64) string {
	for _, at := range c.at.Board.Positions(p.local, lately) {
		if at.Comm.ID != c.at.ID {
			continue
		}
		for _, v := range at.Calls {
			if v.Seq == seq {
				return v.Caller
			}
		}
	}
	return ""
}

// mismatchHere compares the last calls and messages of this rank with those of the other
// ranks of its node.
func (c *core) mismatchHere() error {
	last := c.lastCall()
	for n := last.Seq; n > 0 && n+lately > last.Seq; n-- {
		mine, ok := c.self.calls.Call(n)
		if !ok {
			break
		}
		call := callOf(&mine, c.at.ID)
		if err := c.compare(&call); err != nil {
			return err
		}
	}
	return c.messagesHere()
}

// mismatch is mismatchHere that also asks the ranks of other nodes. They say their last
// call, which can be compared only if it has the number of this rank's.
func (c *core) mismatch() error {
	if err := c.mismatchHere(); err != nil {
		return err
	}
	if err := c.messagesElsewhere(); err != nil {
		return err
	}
	call := c.lastCall()
	if c.at.Positions == nil || call.Kind == 0 {
		return nil
	}
	for _, at := range c.at.Positions.Others(&call, -1) {
		theirs := at.Call
		theirs.Step = 0
		if theirs.Kind == 0 || theirs.Kind == collective.KindSend || theirs.Comm != call.Comm || theirs.Seq != call.Seq {
			continue
		}
		if theirs.Signature() != call.Signature() {
			return &collective.MismatchError{Rank: c.at.WorldRank, Mine: call, Peer: at.World, Theirs: theirs, TheirCaller: at.Caller}
		}
	}
	return nil
}

// lastCall is the last collective that went into a stream. It waits for no call.
func (c *core) lastCall() collective.Call {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	return c.last.call
}

// pair is what goes between this rank and another one.
type pair struct {
	local   int     // the other's local rank, or elsewhere
	out, in message // the last in each direction
}

// elsewhere stands for the local rank of a rank that does not share this one's board.
const elsewhere = -1

// message is one end of a message. The parts of an all-to-all of unequal parts are messages
// too, also the empty ones.
type message struct {
	number uint64 // from 1, of the messages in this direction between the two ranks
	shown  board.Message
}

// end returns the last message in a direction.
func (p *pair) end(send bool) *message {
	if send {
		return &p.out
	}
	return &p.in
}

// same reports whether two ranks mean the same message. Each has its own site.
func (m *message) same(theirs *board.Message) bool {
	return m.shown.Kind == theirs.Kind && m.shown.Type == theirs.Type && m.shown.Count == theirs.Count
}

// compareMessages shows the other ranks of this node which messages a call consists of, and
// compares each with the other end, as far as that rank has come there.
func (c *core) compareMessages(w *work) error {
	if w.Call.Kind != collective.KindSend && w.Call.Kind != collective.KindAllToAllV {
		return nil
	}
	shown := board.Message{Kind: uint8(w.Call.Kind), Type: uint8(w.Call.Type), Seq: w.Call.Seq}
	if c.at.Board != nil {
		shown.Site = c.at.Site()
	}
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	if w.Call.Kind == collective.KindAllToAllV {
		for r := range c.pairs {
			if err := c.showMessage(r, true, shown, w.SendCounts[r]); err != nil {
				return err
			}
			if err := c.showMessage(r, false, shown, w.RecvCounts[r]); err != nil {
				return err
			}
		}
		return nil
	}
	if w.to >= 0 {
		w.Call.Seq = c.pairs[w.to].out.number + 1
		if err := c.showMessage(w.to, true, shown, w.src.desc.Count); err != nil {
			return err
		}
	}
	if w.from >= 0 {
		w.Call.Seq = c.pairs[w.from].in.number + 1
		if err := c.showMessage(w.from, false, shown, w.dst.desc.Count); err != nil {
			return err
		}
	}
	if max(w.to, w.from) != c.at.Rank { // else it is a copy
		c.last.message = w.message()
	}
	return nil
}

// showMessage makes the next message between this rank and rank r of the communicator.
func (c *core) showMessage(r int, send bool, shown board.Message, count int) error {
	if r == c.at.Rank {
		return nil
	}
	p := &c.pairs[r]
	m := p.end(send)
	m.number++
	if shown.Count = uint64(count); shown.Seq == 0 {
		shown.Seq = m.number
	}
	m.shown = shown
	if p.local == elsewhere {
		return nil
	}
	e := board.End{Comm: c.key, Peer: p.local, Send: send, Seq: m.number}
	c.at.Board.WriteMessage(c.at.LocalRank, e, shown)
	return c.compareMessage(r, e, m)
}

// compareMessage compares this rank's end of a message with the other one.
func (c *core) compareMessage(r int, e board.End, mine *message) error {
	other := board.End{Comm: c.key, Peer: c.at.LocalRank, Send: !e.Send, Seq: e.Seq}
	theirs, ok := c.at.Board.ReadMessage(e.Peer, other)
	if !ok || mine.same(&theirs) {
		return nil
	}
	return &collective.MismatchError{
		Rank: c.at.WorldRank, Mine: c.callFor(mine.shown), MyCaller: c.at.Board.Caller(c.at.LocalRank, mine.shown.Site),
		Peer: c.world[r], Theirs: c.callFor(theirs), TheirCaller: c.at.Board.Caller(e.Peer, theirs.Site), Sends: e.Send,
	}
}

// callFor returns the call that a message belongs to, for errors: an all-to-all of unequal
// parts has the count of this part.
func (c *core) callFor(m board.Message) collective.Call {
	call := collective.Call{Comm: c.at.ID, Kind: collective.Kind(m.Kind), Type: collective.DType(m.Type), Seq: m.Seq, Count: m.Count}
	if call.Kind == collective.KindAllToAllV {
		call.Kind = collective.KindAllToAll
	}
	return call
}

// messagesHere compares the last messages of this rank with the other ranks of its node.
func (c *core) messagesHere() error {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	for r := range c.pairs {
		p := &c.pairs[r]
		if p.local == elsewhere {
			continue
		}
		for _, send := range []bool{true, false} {
			last := p.end(send).number
			for n := last; n > 0 && n+lately > last; n-- {
				e := board.End{Comm: c.key, Peer: p.local, Send: send, Seq: n}
				mine := message{number: n}
				var ok bool
				if mine.shown, ok = c.at.Board.ReadMessage(c.at.LocalRank, e); !ok {
					break
				}
				if err := c.compareMessage(r, e, &mine); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// messagesElsewhere compares the last message in each direction with the ranks of other
// nodes, if it is the last one there too.
func (c *core) messagesElsewhere() error {
	others, mine := c.at.Host.Below(), c.lastMessages()
	if others == nil || mine == nil {
		return nil
	}
	for _, send := range []bool{true, false} {
		for _, at := range others.Others(&collective.Call{Comm: c.about(c.at.Rank, !send)}, -1) {
			p := &mine[at.Rank]
			m := p.end(send)
			if p.local != elsewhere || at.Call.Kind == 0 || at.Call.Seq != m.number {
				continue
			}
			my, theirs := c.callFor(m.shown), at.Call
			theirs.Comm, theirs.Seq = my.Comm, my.Seq
			if my != theirs {
				return &collective.MismatchError{Rank: c.at.WorldRank, Mine: my, Peer: at.World, Theirs: theirs, Sends: send}
			}
		}
	}
	return nil
}

// lastMessages returns the last messages of this rank, nil if there are none with ranks of
// other nodes.
func (c *core) lastMessages() []pair {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	for _, p := range c.pairs {
		if p.local == elsewhere && p.out.number+p.in.number > 0 {
			return slices.Clone(c.pairs)
		}
	}
	return nil
}

// lastMessage answers a rank of another node, which asks for this rank's last message to it
// or from it.
func (c *core) lastMessage(about uint64) (call collective.Call, known bool) {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	for r := range c.pairs {
		for _, send := range []bool{true, false} {
			if c.about(r, send) != about {
				continue
			}
			m := c.pairs[r].end(send)
			call = c.callFor(m.shown)
			call.Seq = m.number
			return call, m.number > 0
		}
	}
	return call, false
}

// about is the number by which rank r of the communicator asks another rank for that one's
// last message to it, or from it.
func (c *core) about(r int, send bool) uint64 {
	call := collective.Call{Comm: c.key, Kind: collective.KindSend, Root: int32(r)}
	if send {
		call.Seq = 1
	}
	return call.Signature()
}
