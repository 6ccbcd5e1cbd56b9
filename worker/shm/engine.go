package shm

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

// Engine carries out the collectives of one communicator whose ranks are all on this
// node. Messages between two ranks go to the engine below.
type Engine struct {
	collective.Below // for messages between two ranks

	node    *Node
	members []Member // by rank
	rank    int
	peers   []peer // of each rank, this one included

	waiter *board.Waiter
	calls  uint32 // collectives so far
	steps  uint32 // steps of all collectives so far
	now    exchange
}

// Member is a rank of a communicator.
type Member struct {
	Local int // its local rank on the node
	World int // its rank in the world, for errors
}

// peer is one rank's part of the communicator.
type peer struct {
	*block
	entry   *entry
	operand uint64 // where the rank says that the operand of the present call lies in the board's memory, plus 1
}

// New returns the engine of communicator comm, whose members are given by rank. All of
// them must call New; it waits for them. If one of them has no memory for another
// communicator, New returns below on all of them.
func New(ctx context.Context, n *Node, comm uint64, members []Member, below collective.Engine) (collective.Engine, error) {
	e := &Engine{
		Below: collective.Below{Engine: below}, node: n, members: members, rank: -1, peers: make([]peer, len(members)),
		waiter: n.board.Waiter(n.local, &n.directory(0).stop, nil),
	}
	for i, m := range members {
		if m.Local < 0 || m.Local >= n.board.Ranks() {
			return nil, fmt.Errorf("there is no local rank %d: the node has %d", m.Local, n.board.Ranks())
		}
		if m.Local == n.local {
			e.rank = i
		}
	}
	if e.rank < 0 {
		return nil, fmt.Errorf("local rank %d is not among the ranks of the communicator", n.local)
	}
	if err := n.open(comm, len(members)); err != nil {
		return nil, e.fail(err)
	}
	complete := true
	for i, m := range members {
		entry, b, err := n.find(ctx, e.waiter, m.Local, comm)
		if err != nil {
			return nil, e.fail(err)
		}
		e.peers[i] = peer{block: b, entry: entry}
		complete = complete && b != nil
	}
	if !complete {
		e.leave()
		return below, nil
	}
	return e, nil
}

// leave counts this rank out of the communicator.
func (e *Engine) leave() {
	for _, p := range e.peers {
		p.entry.left.Add(^uint64(0))
	}
}

// Enter is described at collective.Positions. The board shows collectives, so that the
// engine below need not know of them.
func (e *Engine) Enter(call *collective.Call, peer int, send bool) {
	if call.Kind == collective.KindSend {
		e.Below.Enter(call, peer, send)
	}
}

// Leave is described at collective.Positions.
func (e *Engine) Leave(call *collective.Call, peer int) {
	if call.Kind == collective.KindSend {
		e.Below.Leave(call, peer)
	}
}

// Do carries out one collective. Only Break and an abort end it early, not its context: a
// Group breaks the engine when that ends.
func (e *Engine) Do(_ context.Context, w *collective.Work) error {
	err := e.node.err()
	if err == nil {
		err = e.do(w)
	}
	if err != nil {
		return e.fail(err)
	}
	return nil
}

// fail breaks the engine because of err and returns what the caller gets.
func (e *Engine) fail(err error) error {
	switch {
	case errors.Is(err, board.ErrAborted): // every rank has that already
		return err
	case errors.Is(err, board.ErrStopped):
		err = e.node.stopped(e.world)
	}
	e.Break(err)
	return err
}

// world returns the rank in the world of a local rank, -1 if it is no member.
func (e *Engine) world(local int) int {
	for _, m := range e.members {
		if m.Local == local {
			return m.World
		}
	}
	return -1
}

// Split returns the engine of a communicator of some of the ranks.
func (e *Engine) Split(ctx context.Context, comm uint64, ranks []int) (collective.Engine, error) {
	below, err := e.Engine.Split(ctx, comm, ranks)
	if err != nil {
		return nil, err
	}
	members := make([]Member, len(ranks))
	for i, r := range ranks {
		members[i] = e.members[r]
	}
	return New(ctx, e.node, comm, members, below)
}

// Break makes every call of every rank return.
func (e *Engine) Break(why error) {
	e.node.Break(why)
	e.Engine.Break(why)
}

// Close ends the engine. Ranks that wait for this one in a later call get an error. If the
// node is broken they have the reason already.
func (e *Engine) Close() error {
	if e.node.err() == nil {
		e.calls++
		mine := e.line(e.rank)
		mine.what = 0
		mine.word.Publish(e.calls)
	}
	e.leave()
	return e.Engine.Close()
}

// line returns the line of the present call.
func (e *Engine) line(rank int) *line { return &e.peers[rank].lines[e.calls%2] }

// slot returns the slot of a rank for a step of the present call.
func (e *Engine) slot(rank int, step uint32) *[slotSize]byte {
	return &e.peers[rank].slots[(e.calls+step)%2]
}

// begin says that this rank is in the call and waits until all are. data has been put.
func (e *Engine) begin(c *collective.Call) error {
	mine := e.line(e.rank)
	mine.say(c)
	mine.word.Publish(e.calls)
	for i := range e.peers {
		theirs := e.line(i)
		if err := e.waiter.Await(context.Background(), &theirs.word, e.calls); err != nil {
			return err
		}
		if !theirs.agrees(mine) {
			return e.disagreement(c, i)
		}
	}
	return nil
}

// disagreement is the error of a call that rank i does not make.
func (e *Engine) disagreement(c *collective.Call, i int) error {
	theirs := e.line(i).call()
	if theirs.Kind == 0 {
		return &collective.PeerError{Rank: e.members[i].World, Closed: true, Err: errors.New("has closed its communicator")}
	}
	theirs.Comm = c.Comm
	return &collective.MismatchError{
		Rank: e.members[e.rank].World, Mine: *c,
		Peer: e.members[i].World, Theirs: theirs,
	}
}

// step says that this rank has done one more step and waits until all have.
func (e *Engine) step() error {
	e.steps++
	e.peers[e.rank].step.Publish(e.steps)
	for i := range e.peers {
		if err := e.waiter.Await(context.Background(), &e.peers[i].step, e.steps); err != nil {
			return err
		}
	}
	return nil
}
