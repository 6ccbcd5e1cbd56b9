package cuda

import (
	"fmt"

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

// mismatchHere compares the last calls of this rank with those of the other ranks of its
// node.
func (c *core) mismatchHere() error {
	last := c.lastCall()
	for n := last.Seq; n > 0 && n+lately > last.Seq; n-- {
		mine, ok := c.self.calls.Call(n)
		if !ok {
			return nil
		}
		call := callOf(&mine, c.at.ID)
		if err := c.compare(&call); err != nil {
			return err
		}
	}
	return nil
}

// mismatch is mismatchHere that also asks the ranks of other nodes. They say their last
// call, which can be compared only if it has the number of this rank's.
func (c *core) mismatch() error {
	call := c.lastCall()
	if c.at.Positions == nil || call.Kind == 0 {
		return nil
	}
	if err := c.mismatchHere(); err != nil {
		return err
	}
	for _, at := range c.at.Positions.Others(&call, -1) {
		theirs := at.Call
		theirs.Step = 0
		if theirs.Kind == 0 || theirs.Kind == collective.KindSend || theirs.Comm != call.Comm || theirs.Seq != call.Seq {
			continue
		}
		if theirs.Signature() != call.Signature() {
			return &collective.MismatchError{Rank: c.at.WorldRank, Mine: call, Peer: c.world[at.Rank], Theirs: theirs, TheirCaller: at.Caller}
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

// wrap says which call failed.
func wrap(call *collective.Call, err error) error {
	if err == nil || call.Kind == 0 {
		return err
	}
	return fmt.Errorf("%v on GPUs failed: %w", *call, err)
}
