package collective

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Group runs collectives over a Transport. All ranks must make the same collective
// calls in the same order, and so one call at a time. Send and Recv may run beside each
// other.
type Group struct {
	t          Transport
	rank, size int

	busy atomic.Bool // true: a collective is running; guards the fields below
	seq  uint64
	tmp  []byte

	mu         sync.Mutex
	sent, rcvd map[int]uint64 // messages to and from each rank
}

// New returns a group of size ranks, of which this process has the number rank. For a
// single rank t may be nil.
func New(t Transport, rank, size int) *Group {
	return &Group{t: t, rank: rank, size: size, sent: map[int]uint64{}, rcvd: map[int]uint64{}}
}

// Close closes the transport.
func (g *Group) Close() error {
	if g.t == nil {
		return nil
	}
	return g.t.Close()
}

// Send sends b to rank to, which must receive it with the same type and count.
// It may return before that and may block until then.
func (g *Group) Send(ctx context.Context, b Buffer, to int) error {
	if err := g.checkPeer(to); err != nil {
		return fmt.Errorf("cannot send: %w", err)
	}
	call := Call{Kind: KindSend, Type: b.Type, Count: uint64(b.Count), Seq: g.next(g.sent, to)}
	return wrap(call, g.t.Send(ctx, to, call, b.Data))
}

// Recv fills b with what rank from sends.
func (g *Group) Recv(ctx context.Context, b Buffer, from int) error {
	if err := g.checkPeer(from); err != nil {
		return fmt.Errorf("cannot receive: %w", err)
	}
	call := Call{Kind: KindSend, Type: b.Type, Count: uint64(b.Count), Seq: g.next(g.rcvd, from)}
	return wrap(call, g.t.Recv(ctx, from, call, b.Data))
}

// SendRecv sends out to rank to and fills in from rank from, at the same time.
func (g *Group) SendRecv(ctx context.Context, out Buffer, to int, in Buffer, from int) error {
	if to == g.rank && from == g.rank { // a ring of one rank
		if in.Type != out.Type || in.Count != out.Count {
			return fmt.Errorf("cannot send %v x %d and receive %v x %d", out.Type, out.Count, in.Type, in.Count)
		}
		copy(in.Data, out.Data)
		return context.Cause(ctx)
	}
	for _, rank := range []int{to, from} {
		if err := g.checkPeer(rank); err != nil {
			return fmt.Errorf("cannot send and receive: %w", err)
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- g.Send(ctx, out, to) }()
	err := g.Recv(ctx, in, from)
	if sendErr := <-sent; err == nil {
		err = sendErr
	}
	return err
}

func (g *Group) checkPeer(rank int) error {
	switch {
	case rank < 0 || rank >= g.size:
		return fmt.Errorf("there is no rank %d: the world has ranks 0 to %d", rank, g.size-1)
	case rank == g.rank:
		return fmt.Errorf("rank %d is this rank itself", rank)
	}
	return nil
}

func (g *Group) next(counts map[int]uint64, peer int) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts[peer]++
	return counts[peer]
}

// collective numbers call and runs it.
func (g *Group) collective(ctx context.Context, call Call, run func(Call) error) error {
	if !g.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("cannot start %v: another collective of this rank is running; they must be made one at a time, in the same order on all ranks", call.Kind)
	}
	defer g.busy.Store(false)
	g.seq++
	call.Seq = g.seq
	if g.size == 1 {
		return context.Cause(ctx)
	}
	return wrap(call, run(call))
}

func wrap(call Call, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v failed: %w", call, err)
}

// exchange sends out to rank to and receives into from rank from, at the same time.
func (g *Group) exchange(ctx context.Context, call Call, to int, out []byte, from int, into []byte) error {
	sent := make(chan error, 1)
	go func() { sent <- g.t.Send(ctx, to, call, out) }()
	err := g.t.Recv(ctx, from, call, into)
	// If one of the two fails, the transport is broken and so the other ends too.
	if sendErr := <-sent; err == nil {
		err = sendErr
	}
	return err
}

// scratch returns n bytes that stay valid until the next collective.
func (g *Group) scratch(n int) []byte {
	if cap(g.tmp) < n {
		g.tmp = scratch(n)
	}
	return g.tmp[:n]
}
