package worker

import (
	"context"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/internal/attach"
)

// joinBoard makes b the world's board. The mapping lives as long as the process, so that
// no late call can touch memory that is gone.
func (w *World) joinBoard(b *board.Board) {
	if b == nil || w.set.LocalRank >= b.Ranks() {
		b.Close() // no page of it is this rank's
		return
	}
	w.joined.Store(b)
	w.callers.Number = func(place string) uint16 { return b.Site(w.set.LocalRank, place) }
	b.Join(w.set.LocalRank, w.set.Rank, os.Getpid())
}

// board returns what the ranks of this node share; nil: there is none, or not yet.
func (w *World) board() *board.Board { return w.joined.Load() }

// boardAbort returns the abort that the board has, nil if it has none. The board has it
// before the agent's frame arrives. The world then ends.
func (w *World) boardAbort() *AbortError {
	if w.board() == nil || !w.board().Aborted() {
		return nil
	}
	abort := aborted(w.board().Cause())
	w.end(abort)
	return abort
}

// callerOf returns the line of the program where a rank of this node made a call, "" if the
// board does not say. rank is its number in the world.
func (w *World) callerOf(call *collective.Call, rank int) string {
	if w.board() == nil {
		return ""
	}
	whole := *call
	whole.Step = 0 // which call it is, not which message of it
	for local := range w.board().Ranks() {
		if w.board().Member(local).Rank != rank {
			continue
		}
		for _, at := range w.board().Positions(local, maxVisits) {
			if at.Comm.ID != call.Comm {
				continue
			}
			for _, v := range at.Calls {
				if callOf(&at, &v) == whole {
					return v.Caller
				}
			}
		}
	}
	return ""
}

// maxVisits bounds the calls that callerOf looks at. A rank may have gone on since.
const maxVisits = 64

// positions writes on the board what one communicator of this rank calls, and reads there
// what the other ranks of this node call. It asks next for the ranks of other nodes.
type positions struct {
	w    *World
	comm board.Comm
	next collective.Positions // nil: other nodes are not asked

	collectives *board.Line // nil: the rank has no line left
	mu          sync.Mutex
	messages    []*openMessage
}

// openMessage is a line for messages.
type openMessage struct {
	line *board.Line
	call *collective.Call // nil: none is open
	peer int
}

// maxMessages bounds a communicator's lines for messages. Other ranks do not see what is
// open beyond.
const maxMessages = 3

// positions returns where a communicator writes its calls: on the board, if there is one.
// rank and size are those of the communicator.
func (w *World) positions(comm uint64, rank, size int, next collective.Positions) collective.Positions {
	if w.board() == nil {
		return next
	}
	c := board.Comm{ID: comm, Rank: rank, Size: size}
	return &positions{w: w, comm: c, next: next, collectives: w.board().OpenLine(w.set.LocalRank, c)}
}

// Enter is described at collective.Positions.
func (p *positions) Enter(call *collective.Call, peer int, send bool) {
	if p.next != nil {
		p.next.Enter(call, peer, send)
	}
	line, other, waits := p.collectives, call.Root, board.WaitsForAll
	if send && call.Kind != collective.KindSend {
		waits = board.WaitsAside
	}
	if call.Kind == collective.KindSend {
		line, other, waits = p.lineOf(call, peer), int32(peer), board.WaitsForSender
		if send {
			waits = board.WaitsForReceiver
		}
	}
	line.Enter(board.Call{
		Kind: uint8(call.Kind), Type: uint8(call.Type), Op: uint8(call.Op), Waits: waits,
		Site: p.w.callers.Find().Number,
		Peer: other, Tag: call.Tag, Seq: call.Seq, Count: call.Count,
	})
}

// lineOf finds a line without an open message and gives it to call, nil if there is none.
func (p *positions) lineOf(call *collective.Call, peer int) *board.Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		if m.call == nil {
			m.call, m.peer = call, peer
			return m.line
		}
	}
	if len(p.messages) >= maxMessages {
		return nil
	}
	line := p.w.board().OpenLine(p.w.set.LocalRank, p.comm)
	if line != nil {
		p.messages = append(p.messages, &openMessage{line, call, peer})
	}
	return line
}

// Leave is described at collective.Positions.
func (p *positions) Leave(call *collective.Call, peer int) {
	if p.next != nil {
		p.next.Leave(call, peer)
	}
	if call.Kind != collective.KindSend {
		p.collectives.Leave()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		if m.call == call {
			m.line.Leave()
			m.call = nil
			return
		}
	}
}

// close gives the lines back.
func (p *positions) close() {
	p.collectives.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		m.line.Close()
	}
}

// Others is described at collective.Positions. The board knows more than next of the
// ranks of this node: it needs no answer of them.
func (p *positions) Others(call *collective.Call, peer int) []collective.Position {
	known := map[int]collective.Position{}
	if p.next != nil {
		for _, at := range p.next.Others(call, peer) {
			known[at.Rank] = at
		}
	}
	for local := range p.w.board().Ranks() {
		if at, ok := p.read(local, call); ok && (peer < 0 || at.Rank == peer) {
			known[at.Rank] = at
		}
	}
	var all []collective.Position
	for _, rank := range slices.Sorted(maps.Keys(known)) {
		all = append(all, known[rank])
	}
	return all
}

// read reads where a local rank is on this communicator: in its collective, else in a
// message, else after its last collective. It returns false for a rank that is not on this
// communicator and for this rank.
func (p *positions) read(local int, call *collective.Call) (found collective.Position, ok bool) {
	if local == p.w.set.LocalRank {
		return found, false
	}
	for _, at := range p.w.board().Positions(local, 1) {
		c := at.Comm
		if c.ID != p.comm.ID || c.Size != p.comm.Size || c.Rank < 0 || c.Rank >= c.Size || c.Rank == p.comm.Rank {
			continue
		}
		found.Rank, found.World, ok = c.Rank, p.w.board().Member(local).Rank, true
		last, made := at.Last()
		if !made {
			continue
		}
		isMessage := collective.Kind(last.Kind) == collective.KindSend
		if !isMessage && call.Kind != collective.KindSend {
			found.Arrived = last.Seq >= call.Seq
		}
		if found.Inside || isMessage && !at.Open() {
			continue
		}
		found.Inside, found.Caller, found.Call = at.Open(), last.Caller, callOf(&at, &last)
		found.Send, found.Peer = last.Waits == board.WaitsForReceiver, int(last.Peer)
	}
	return found, ok
}

// callOf returns a call from the board.
func callOf(at *board.Position, v *board.Visit) collective.Call {
	c := collective.Call{
		Comm: at.Comm.ID, Kind: collective.Kind(v.Kind), Type: collective.DType(v.Type), Op: collective.Op(v.Op),
		Tag: v.Tag, Seq: v.Seq, Count: v.Count,
	}
	if c.Kind != collective.KindSend {
		c.Root = v.Peer
	}
	return c
}

// Attach returns what another package of the worker tree needs to make calls on the ranks
// of c by means of its own, as package cuda does. Programs have no use for it. All ranks of
// c must call it.
func (c *Comm) Attach(ctx context.Context) (*attach.Comm, error) {
	own, err := c.Split(ctx, 0, c.Rank())
	if err != nil {
		return nil, err
	}
	w := c.w
	a := &attach.Comm{
		ID: own.g.ID() + 1, Rank: own.Rank(), Size: own.Size(), WorldRank: w.set.Rank,
		LocalRank: w.set.LocalRank, Device: w.set.Device,
		Host: own.g, Board: w.board(),
	}
	of := &attached{c: own, id: a.ID, lines: []collective.Positions{own.g.Positions()}}
	a.World = of
	if a.Size == 1 {
		return a, nil
	}
	if a.Board != nil {
		a.BoardID = hash(w.boardID())
	}
	a.Positions = w.positions(a.ID, a.Rank, a.Size, own.g.Below())
	if p, ok := a.Positions.(*positions); ok {
		a.Line = p.collectives
	}
	of.lines = append(of.lines, a.Positions)
	return a, nil
}

// attached is the world as an attached communicator sees it.
type attached struct {
	c      *Comm                  // for Host
	id     uint64                 // of the calls
	lines  []collective.Positions // of both communicators
	silent func()                 // ends what Answer began; nil: nothing
}

// Leave is described at attach.World.
func (a *attached) Leave() error {
	for _, l := range a.lines {
		if p, ok := l.(*positions); ok {
			p.close()
		}
	}
	if a.silent != nil {
		a.silent()
	}
	w := a.c.w
	w.mu.Lock()
	had := len(w.links.split)
	w.links.split = slices.DeleteFunc(w.links.split, func(g *collective.Group) bool { return g == a.c.g })
	open, mesh := len(w.links.split) < had, w.links.mesh
	w.mu.Unlock()
	if !open { // World.Close closes it
		return nil
	}
	err := a.c.g.Close()
	if mesh != nil && a.c.Size() > 1 {
		mesh.Forget(a.c.g.ID())
		mesh.Forget(a.id)
	}
	return err
}

// Answer is described at attach.World.
func (a *attached) Answer(last func(comm uint64) (collective.Call, bool)) {
	a.c.w.mu.Lock()
	defer a.c.w.mu.Unlock()
	if mesh := a.c.w.links.mesh; mesh != nil {
		a.silent = mesh.Answer(last)
	}
}

// Context is described at attach.World.
func (a *attached) Context() context.Context { return a.c.w.ctx }

// HasAgent is described at attach.World.
func (a *attached) HasAgent() bool { return a.c.w.agent != nil }

// Ended is described at attach.World.
func (a *attached) Ended() error {
	w := a.c.w
	if abort := w.boardAbort(); abort != nil {
		return abort
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if why := w.gate.Err(); why != nil {
		return why
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links.broken()
}

// Break is described at attach.World.
func (a *attached) Break(why error) {
	w := a.c.w
	w.mu.Lock()
	engine := w.links.engine
	w.mu.Unlock()
	if engine != nil {
		engine.Break(why)
	}
}

// Outcome is described at attach.World.
func (a *attached) Outcome(err error) error { return a.c.outcome(err) }

// Site is described at attach.World.
func (a *attached) Site() uint16 { return a.c.w.callers.Find().Number }

// Deadline is described at attach.World.
func (a *attached) Deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return a.c.w.deadline(ctx)
}
