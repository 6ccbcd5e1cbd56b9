package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Options of a Group.
type Options struct {
	// Positions returns where the rank of a communicator writes what it is doing. next is
	// the engine if that is a Positions, else nil; nil Positions stand for next.
	Positions func(comm uint64, rank, size int, next Positions) Positions
}

// Group makes the calls of one rank of a communicator over an Engine. All ranks must make
// the same collective calls in the same order. Messages between two ranks may go beside
// them.
type Group struct {
	e          Engine // nil for a single rank
	rank, size int
	comm       uint64
	opts       Options
	pos        Positions // nil: nowhere
	watch      watch
	wg         sync.WaitGroup // asynchronous collectives
	turns      turns
	work       Work // of the collective whose turn it is
	messages   messages
}

// messages numbers messages and keeps unused ones.
type messages struct {
	mu   sync.Mutex // guards what follows
	seqs map[stream]uint64
	free []*Message
}

// stream is the messages with one tag in one direction between this rank and another.
type stream struct {
	peer int
	tag  int32
	send bool
}

// New returns the world's group of size ranks, of which this process has the number rank.
// For a single rank e may be nil.
func New(e Engine, rank, size int, o Options) *Group { return newGroup(e, rank, size, 0, o) }

func newGroup(e Engine, rank, size int, comm uint64, o Options) *Group {
	g := &Group{e: e, rank: rank, size: size, comm: comm, opts: o}
	g.turns.ended.L = &g.turns.mu
	g.messages.seqs = map[stream]uint64{}
	g.watch.g = g
	g.pos, _ = e.(Positions)
	if o.Positions != nil && size > 1 {
		g.pos = o.Positions(comm, rank, size, g.pos)
	}
	return g
}

// Rank is this process's number in the communicator.
func (g *Group) Rank() int { return g.rank }

// Size is the number of ranks of the communicator.
func (g *Group) Size() int { return g.size }

// ID is the number of the communicator in its calls.
func (g *Group) ID() uint64 { return g.comm }

// Below returns where the engine writes positions, nil if it does not.
func (g *Group) Below() Positions {
	p, _ := g.e.(Positions)
	return p
}

// Positions returns where the group writes its calls, nil if it does not.
func (g *Group) Positions() Positions { return g.pos }

// Close closes the engine. Calls after it fail. If a collective still runs, Close breaks the
// engine and waits until the collective has let go of it; the error says that.
func (g *Group) Close() error {
	running := g.turns.close()
	g.watch.forget()
	if g.e == nil {
		g.wg.Wait()
		return nil
	}
	var unfinished error
	if running {
		unfinished = fmt.Errorf("rank %d %w", g.rank, errUnfinished)
		g.e.Break(errUnfinished)
	}
	g.turns.drain()
	g.wg.Wait()
	return errors.Join(unfinished, g.e.Close())
}

// Do carries out w. Another goroutine must not call Do meanwhile; w waits for
// asynchronous calls before it.
func (g *Group) Do(ctx context.Context, w *Work) error {
	turn, err := g.begin(w, true)
	if err != nil {
		return err
	}
	if !g.turns.has(turn) {
		g.await(ctx, turn)
	}
	err = g.carryOut(ctx, w, turn, false)
	g.turns.end(true)
	return err
}

// Start begins w after the calls before it and returns at once.
func (g *Group) Start(w *Work) *Request {
	turn, err := g.begin(w, false)
	if err != nil {
		return failed(err)
	}
	r := &Request{g: g, call: w.Call, done: make(chan struct{})}
	r.call.Seq, r.call.Comm = turn, g.comm
	later := *w
	later.SendCounts, later.RecvCounts = slices.Clone(w.SendCounts), slices.Clone(w.RecvCounts) // as they were checked
	g.wg.Go(func() {
		ctx := context.Background() // Request.Wait has the caller's
		g.await(ctx, turn)
		r.err = g.carryOut(ctx, &later, turn, true)
		g.turns.end(false)
		close(r.done)
	})
	return r
}

// begin returns the turn of w. The error says why it has none.
func (g *Group) begin(w *Work, blocking bool) (turn uint64, err error) {
	if err = w.Check(g.rank, g.size); err == nil {
		turn, err = g.turns.next(blocking)
	}
	if err != nil {
		err = fmt.Errorf("cannot start %v: %w", w.Call.Kind, err)
	}
	return turn, err
}

// await returns when it is the turn of a call. If ctx ends before, the engine breaks, which
// ends the calls before it.
func (g *Group) await(ctx context.Context, turn uint64) {
	if g.e != nil {
		defer context.AfterFunc(ctx, func() { g.e.Break(context.Cause(ctx)) })()
	}
	g.turns.await(turn)
}

// carryOut makes the call with this number, whose turn it is. aside says that the program
// goes on meanwhile.
func (g *Group) carryOut(ctx context.Context, w *Work, seq uint64, aside bool) error {
	if g.size == 1 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w.alone()
		return nil
	}
	g.work = *w
	g.work.Call.Comm, g.work.Call.Seq = g.comm, seq
	call := &g.work.Call
	if g.pos != nil {
		g.pos.Enter(call, -1, aside)
		defer g.pos.Leave(call, -1)
	}
	if err := g.watch.enter(ctx, call); err != nil {
		err = g.late(call, -1, err)
		g.e.Break(err)
		return wrap(call, err)
	}
	err := g.e.Do(ctx, &g.work)
	if ctx.Done() != nil {
		g.watch.leave()
	}
	g.work.Dst, g.work.Src = Buffer{}, Buffer{}
	return wrap(call, err)
}

// late returns the error of call, which waits for rank peer, or for all if peer is -1, and
// whose context has ended because of cause.
func (g *Group) late(call *Call, peer int, cause error) error {
	e := &HangError{Call: *call, Err: cause}
	if g.pos != nil {
		e.Others = g.pos.Others(call, peer)
	}
	return e
}

func wrap(call *Call, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v failed: %w", *call, err)
}

// Send sends b to rank to, which must receive it with the same type, count and tag.
// It may return before that and may block until then.
func (g *Group) Send(ctx context.Context, b Buffer, to int, tag int32) error {
	m, err := g.post(b, to, tag, true)
	if err != nil {
		return fmt.Errorf("cannot send: %w", err)
	}
	return g.end(ctx, m)
}

// Recv fills b with what rank from sends.
func (g *Group) Recv(ctx context.Context, b Buffer, from int, tag int32) error {
	m, err := g.post(b, from, tag, false)
	if err != nil {
		return fmt.Errorf("cannot receive: %w", err)
	}
	return g.end(ctx, m)
}

// SendRecv sends out to rank to and fills in from rank from, at the same time.
func (g *Group) SendRecv(ctx context.Context, out Buffer, to int, in Buffer, from int, tag int32) error {
	if to == g.rank && from == g.rank { // a ring of one rank
		if in.Type != out.Type || in.Count != out.Count {
			return fmt.Errorf("cannot send and receive: this rank sends %v x %d to itself and receives %v x %d", out.Type, out.Count, in.Type, in.Count)
		}
		copy(in.Data, out.Data)
		return context.Cause(ctx)
	}
	for _, rank := range [2]int{to, from} {
		if err := g.checkPeer(rank); err != nil {
			return fmt.Errorf("cannot send and receive: %w", err)
		}
	}
	receive, err := g.post(in, from, tag, false)
	if err != nil {
		return fmt.Errorf("cannot send and receive: %w", err)
	}
	send, err := g.post(out, to, tag, true)
	if err != nil {
		return fmt.Errorf("cannot send and receive: %w", err)
	}
	err = g.end(ctx, receive)
	if sendErr := g.end(ctx, send); err == nil { // if one fails, the engine breaks and ends the other
		err = sendErr
	}
	return err
}

// Isend is Send that does not wait.
func (g *Group) Isend(b Buffer, to int, tag int32) *Request {
	m, err := g.post(b, to, tag, true)
	if err != nil {
		return failed(fmt.Errorf("cannot send: %w", err))
	}
	return &Request{g: g, m: m}
}

// Irecv is Recv that does not wait.
func (g *Group) Irecv(b Buffer, from int, tag int32) *Request {
	m, err := g.post(b, from, tag, false)
	if err != nil {
		return failed(fmt.Errorf("cannot receive: %w", err))
	}
	return &Request{g: g, m: m}
}

// post starts one end of a message. The result goes to end.
func (g *Group) post(b Buffer, peer int, tag int32, send bool) (*Message, error) {
	if err := g.checkPeer(peer); err != nil {
		return nil, err
	}
	g.messages.mu.Lock()
	defer g.messages.mu.Unlock() // the order of numbers is that of posts
	if g.turns.closed() {
		return nil, errClosed
	}
	var m *Message
	if n := len(g.messages.free); n > 0 {
		m, g.messages.free = g.messages.free[n-1], g.messages.free[:n-1]
	} else {
		m = &Message{}
	}
	s := stream{peer, tag, send}
	g.messages.seqs[s]++
	m.Call = Call{Comm: g.comm, Kind: KindSend, Type: b.Type, Tag: tag, Seq: g.messages.seqs[s], Count: uint64(b.Count)}
	m.Send, m.Peer, m.Buf = send, peer, b
	g.e.Post(m)
	return m, nil
}

// end waits for m.
func (g *Group) end(ctx context.Context, m *Message) error {
	if g.pos != nil {
		g.pos.Enter(&m.Call, m.Peer, m.Send)
		defer g.pos.Leave(&m.Call, m.Peer)
	}
	err := g.e.Wait(ctx, m)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		g.e.Break(g.late(&m.Call, m.Peer, err))
		err = g.e.Wait(context.Background(), m) // soon: it must not use the buffer any more
	}
	if err != nil {
		return fmt.Errorf("%v failed: %w", m, err)
	}
	g.messages.mu.Lock()
	m.Buf = Buffer{}
	g.messages.free = append(g.messages.free, m)
	g.messages.mu.Unlock()
	return nil
}

func (g *Group) checkPeer(rank int) error {
	switch {
	case rank < 0 || rank >= g.size:
		return fmt.Errorf("there is no rank %d: the communicator has ranks 0 to %d", rank, g.size-1)
	case rank == g.rank:
		return fmt.Errorf("rank %d is this rank itself", rank)
	}
	return nil
}

// Split returns the group of the ranks that give the same color, ordered by key and, for
// equal keys, by their rank in g. It is nil for a rank with a negative color. All ranks
// of g must call it.
func (g *Group) Split(ctx context.Context, color, key int) (*Group, error) {
	mine := [2]int64{int64(color), int64(key)}
	all := make([]int64, 2*g.size)
	w := AllGather(Of(all), Of(mine[:]))
	turn, err := g.begin(w, true)
	if err != nil {
		return nil, fmt.Errorf("cannot split the communicator: %w", err)
	}
	defer g.turns.end(true) // not before the engine has split, so that Close waits for that too
	if !g.turns.has(turn) {
		g.await(ctx, turn)
	}
	if err := g.carryOut(ctx, w, turn, false); err != nil {
		return nil, fmt.Errorf("cannot split the communicator: %w", err)
	}
	id := Call{Comm: g.comm, Kind: KindAllGather, Seq: turn, Count: uint64(color)}
	if color < 0 {
		return nil, nil
	}
	ranks := membersOf(all, int64(color))
	rank := 0
	for i, r := range ranks {
		if r == g.rank {
			rank = i
		}
	}
	comm := max(id.Signature(), 1)
	if len(ranks) == 1 {
		return newGroup(nil, 0, 1, comm, g.opts), nil
	}
	e, err := g.e.Split(ctx, comm, ranks)
	if err != nil {
		return nil, fmt.Errorf("cannot split the communicator: %w", err)
	}
	return newGroup(e, rank, len(ranks), comm, g.opts), nil
}
