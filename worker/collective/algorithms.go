package collective

import (
	"context"
	"fmt"
	"math/bits"
)

// ringFrom is the size in bytes from which an all-reduce uses the ring. Smaller
// buffers need few steps (log2 n instead of 2(n-1)). Larger buffers need few bytes
// moved by each rank (2(n-1)/n of the buffer instead of log2 n times all of it).
const ringFrom = 32 << 10

// AllReduce replaces b on every rank by the op over all ranks' b.
func (g *Group) AllReduce(ctx context.Context, b Buffer, op Op) error {
	if err := op.check(b.Type); err != nil {
		return fmt.Errorf("cannot all-reduce: %w", err)
	}
	call := Call{Kind: KindAllReduce, Type: b.Type, Op: op, Count: uint64(b.Count)}
	return g.collective(ctx, call, func(call Call) error {
		run := g.doubling
		if len(b.Data) >= ringFrom && b.Count >= g.size {
			run = g.ring
		}
		if err := run(ctx, call, b); err != nil {
			return err
		}
		Finish(op, b, g.size)
		return nil
	})
}

// doubling exchanges the whole buffer with ranks at distance 1, 2, 4 and so on. Both
// sides compute lower op higher, so both get the same bits. With p the largest power of
// two up to the size, a rank from p on sends its buffer to a partner first and gets the
// result last.
func (g *Group) doubling(ctx context.Context, call Call, b Buffer) error {
	tmp := Buffer{b.Type, b.Count, g.scratch(len(b.Data))}
	core := 1 << (bits.Len(uint(g.size)) - 1)
	if g.rank >= core {
		call.Step = 0
		if err := g.t.Send(ctx, g.rank-core, call, b.Data); err != nil {
			return err
		}
		call.Step = 1 << 16
		return g.t.Recv(ctx, g.rank-core, call, b.Data)
	}
	extra := g.rank + core
	if extra < g.size {
		if err := g.t.Recv(ctx, extra, call, tmp.Data); err != nil {
			return err
		}
		Combine(call.Op, b, b, tmp)
	}
	for bit := 1; bit < core; bit <<= 1 {
		call.Step++
		peer := g.rank ^ bit
		if err := g.exchange(ctx, call, peer, b.Data, peer, tmp.Data); err != nil {
			return err
		}
		if g.rank < peer {
			Combine(call.Op, b, b, tmp)
		} else {
			Combine(call.Op, b, tmp, b)
		}
	}
	if extra < g.size {
		call.Step = 1 << 16
		return g.t.Send(ctx, extra, call, b.Data)
	}
	return nil
}

// ring passes parts of the buffer to the next rank. In the first n-1 steps each rank
// combines the part that it receives with its own; then rank r has the result of part
// r+1. In the next n-1 steps the results go round.
func (g *Group) ring(ctx context.Context, call Call, b Buffer) error {
	n := g.size
	next, prev := (g.rank+1)%n, (g.rank+n-1)%n
	part := func(i int) Buffer {
		i = (i%n + n) % n
		return b.slice(b.Count*i/n, b.Count*(i+1)/n)
	}
	tmp := g.scratch((b.Count/n + 1) * b.Type.Size())
	for s := range n - 1 {
		out, in := part(g.rank-s), part(g.rank-s-1)
		theirs := Buffer{in.Type, in.Count, tmp[:len(in.Data)]}
		if err := g.exchange(ctx, call, next, out.Data, prev, theirs.Data); err != nil {
			return err
		}
		Combine(call.Op, in, theirs, in)
		call.Step++
	}
	for s := range n - 1 {
		out, in := part(g.rank+1-s), part(g.rank-s)
		if err := g.exchange(ctx, call, next, out.Data, prev, in.Data); err != nil {
			return err
		}
		call.Step++
	}
	return nil
}

// Broadcast replaces b on every rank by root's b. It sends along a binomial tree.
func (g *Group) Broadcast(ctx context.Context, b Buffer, root int) error {
	if root < 0 || root >= g.size {
		return fmt.Errorf("cannot broadcast from rank %d: the world has ranks 0 to %d", root, g.size-1)
	}
	call := Call{Kind: KindBroadcast, Type: b.Type, Root: int32(root), Count: uint64(b.Count)}
	return g.collective(ctx, call, func(call Call) error {
		v := (g.rank - root + g.size) % g.size // this rank, counted from the root
		at := func(v int) int { return (v + root) % g.size }
		top := 1 << bits.Len(uint(g.size-1))
		low := top // lowest set bit of v: the parent is v without it
		if v != 0 {
			low = v & -v
			if err := g.t.Recv(ctx, at(v-low), call, b.Data); err != nil {
				return err
			}
		}
		for bit := low >> 1; bit > 0; bit >>= 1 {
			if v+bit < g.size {
				if err := g.t.Send(ctx, at(v+bit), call, b.Data); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Barrier returns when every rank has called it. In step k a rank receives a message
// from the rank 2^k before it. After step k it knows that the 2^(k+1)-1 ranks before it
// have called.
func (g *Group) Barrier(ctx context.Context) error {
	return g.collective(ctx, Call{Kind: KindBarrier}, func(call Call) error {
		for d := 1; d < g.size; d <<= 1 {
			to, from := (g.rank+d)%g.size, (g.rank-d+g.size)%g.size
			if err := g.exchange(ctx, call, to, nil, from, nil); err != nil {
				return err
			}
			call.Step++
		}
		return nil
	})
}
