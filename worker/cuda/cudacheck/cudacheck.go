// Package cudacheck makes every call of package cuda with one type of elements and compares
// the results with the closed form. Tests run it on a stand-in, and benchmarks on GPUs.
package cudacheck

import (
	"context"
	"fmt"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
)

// Calls makes every call with parts of n elements of a rank and returns the first wrong
// result. All ranks of the communicator, two at least, must call it.
func Calls[T Number](ctx context.Context, c *cuda.Comm, n int) error {
	k := checker[T]{ctx, c, n, &[]*cuda.Buffer[T]{}}
	if err := k.all(); err != nil {
		return err
	}
	for _, b := range *k.made {
		if err := b.Free(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Number is an element with which NCCL computes.
type Number interface {
	~int8 | ~uint8 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// checker makes calls on the buffers of one rank and compares the results with the closed
// form.
type checker[T Number] struct {
	ctx  context.Context
	c    *cuda.Comm
	n    int // elements of a rank's part
	made *[]*cuda.Buffer[T]
}

// buffer returns a buffer in which element i is value(i).
func (k checker[T]) buffer(n int, value func(i int) int) (*cuda.Buffer[T], error) {
	b, err := cuda.Alloc[T](k.ctx, k.c, n)
	if err != nil {
		return nil, err
	}
	*k.made = append(*k.made, b)
	host := make([]T, n)
	for i := range host {
		host[i] = T(value(i))
	}
	return b, b.CopyFrom(k.ctx, host)
}

func zeros(int) int { return 0 }

// expect compares a buffer with what a call must have written.
func (k checker[T]) expect(what string, b *cuda.Buffer[T], want func(i int) int) error {
	host := make([]T, b.Len())
	if err := b.CopyTo(k.ctx, host); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for i, v := range host {
		if v != T(want(i)) {
			return fmt.Errorf("%s of %T x %d: %v at %d, want %v", what, v, len(host), v, i, T(want(i)))
		}
	}
	return nil
}

// value is element i of a rank: small, so that sums fit into a byte.
func value(rank, i int) int { return rank + 1 + i%5 }

func (k checker[T]) mine(i int) int { return value(k.c.Rank(), i) }

// all makes every call once.
func (k checker[T]) all() error {
	ctx, c, size, me := k.ctx, k.c, k.c.Size(), k.c.Rank()
	part, whole := k.n, k.n*size
	for _, step := range []func() error{
		func() error { return k.reductions() },
		func() error {
			b, err := k.buffer(part, k.mine)
			if err == nil {
				err = cuda.Broadcast(ctx, c, b, size-1)
			}
			if err != nil {
				return err
			}
			return k.expect("broadcast", b, func(i int) int { return value(size-1, i) })
		},
		func() error { // in place
			b, err := k.buffer(whole, zeros)
			if err != nil {
				return err
			}
			own := b.Slice(me*part, (me+1)*part)
			src, err := k.buffer(part, k.mine)
			if err == nil {
				err = cuda.Copy(ctx, c, own, src)
			}
			if err == nil {
				err = cuda.AllGather(ctx, c, b, own)
			}
			if err != nil {
				return err
			}
			return k.expect("all-gather", b, func(i int) int { return value(i/max(part, 1), i%max(part, 1)) })
		},
		func() error {
			src, err := k.buffer(part, k.mine)
			if err != nil {
				return err
			}
			dst, err := k.buffer(whole, zeros)
			if err != nil {
				return err
			}
			if me != 1 {
				dst = nil
			}
			if err := cuda.Gather(ctx, c, dst, src, 1); err != nil || me != 1 {
				return err
			}
			return k.expect("gather", dst, func(i int) int { return value(i/max(part, 1), i%max(part, 1)) })
		},
		func() error {
			src, err := k.buffer(whole, k.mine)
			if err != nil {
				return err
			}
			dst, err := k.buffer(part, zeros)
			if err == nil {
				err = cuda.Scatter(ctx, c, dst, src, 1)
			}
			if err != nil {
				return err
			}
			return k.expect("scatter", dst, func(i int) int { return value(1, me*part+i) })
		},
		func() error {
			src, err := k.buffer(whole, k.mine)
			if err != nil {
				return err
			}
			dst, err := k.buffer(whole, zeros)
			if err == nil {
				err = cuda.AllToAll(ctx, c, dst, src)
			}
			if err != nil {
				return err
			}
			return k.expect("all-to-all", dst, func(i int) int { return value(i/max(part, 1), me*part+i%max(part, 1)) })
		},
		k.unequal,
		k.messages,
		func() error { return cuda.Barrier(ctx, c) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (k checker[T]) reductions() error {
	ctx, c, size, me := k.ctx, k.c, k.c.Size(), k.c.Rank()
	sum := func(i int) (s int) {
		for r := range size {
			s += value(r, i)
		}
		return s
	}
	product := func(i int) int {
		p := 1
		for r := range size {
			p *= value(r, i)
		}
		return p
	}
	for _, op := range []struct {
		op   worker.Op
		want func(i int) int
	}{
		{worker.Sum, sum},
		{worker.Max, func(i int) int { return value(size-1, i) }},
		{worker.Min, func(i int) int { return value(0, i) }},
		{worker.Prod, product},
	} {
		b, err := k.buffer(k.n, k.mine)
		if err == nil {
			err = cuda.AllReduce(ctx, c, b, op.op)
		}
		if err == nil {
			err = k.expect("all-reduce: "+op.op.String(), b, op.want)
		}
		if err != nil {
			return err
		}
	}
	src, err := k.buffer(k.n*size, k.mine)
	if err != nil {
		return err
	}
	dst, err := k.buffer(k.n, zeros)
	if err == nil {
		err = cuda.ReduceScatter(ctx, c, dst, src, worker.Sum)
	}
	if err == nil {
		err = k.expect("reduce-scatter", dst, func(i int) int { return sum(me*k.n + i) })
	}
	if err == nil {
		err = cuda.Reduce(ctx, c, dst, src.Slice(0, k.n), worker.Max, 1)
	}
	if err != nil || me != 1 {
		return err
	}
	return k.expect("reduce", dst, func(i int) int { return value(size-1, i) })
}

// unequal makes the calls whose parts have different lengths: rank r sends r+1+p elements
// to rank p.
func (k checker[T]) unequal() error {
	ctx, c, size, me := k.ctx, k.c, k.c.Size(), k.c.Rank()
	var counts, out, in []int
	total, outs, ins := 0, 0, 0
	for r := range size {
		counts, out, in = append(counts, r*k.n), append(out, me+1+r), append(in, r+1+me)
		total, outs, ins = total+r*k.n, outs+me+1+r, ins+r+1+me
	}
	// Buffers of one length everywhere, of which the ranks use different parts.
	src, err := k.buffer(max(size*k.n, 4*size*size), k.mine)
	if err != nil {
		return err
	}
	dst, err := k.buffer(max(size*size*k.n, 4*size*size), zeros)
	if err != nil {
		return err
	}
	all := dst.Slice(0, total)
	if err := cuda.AllGatherV(ctx, c, all, counts, src.Slice(0, counts[me])); err != nil {
		return err
	}
	at := func(i int) (r, j int) {
		for r, n := range counts {
			if i < n {
				return r, i
			}
			i -= n
		}
		return 0, 0
	}
	if err := k.expect("all-gather of unequal parts", all, func(i int) int { return value(at(i)) }); err != nil {
		return err
	}
	if err := cuda.AllToAllV(ctx, c, dst.Slice(0, ins), in, src.Slice(0, outs), out); err != nil {
		return err
	}
	return k.expect("all-to-all of unequal parts", dst.Slice(0, ins), func(i int) int {
		for r := range size {
			if i < in[r] {
				before := 0 // elements that rank r sends to lower ranks
				for p := range me {
					before += r + 1 + p
				}
				return value(r, before+i)
			}
			i -= in[r]
		}
		return -1
	})
}

func (k checker[T]) messages() error {
	ctx, c, size, me := k.ctx, k.c, k.c.Size(), k.c.Rank()
	out, err := k.buffer(k.n, k.mine)
	if err != nil {
		return err
	}
	in, err := k.buffer(k.n, zeros)
	if err != nil {
		return err
	}
	next, before := (me+1)%size, (me+size-1)%size
	if err := cuda.SendRecv(ctx, c, out, next, in, before); err != nil {
		return err
	}
	if err := k.expect("send and receive", in, func(i int) int { return value(before, i) }); err != nil {
		return err
	}
	switch me {
	case 0:
		return cuda.Send(ctx, c, out, 1)
	case 1:
		if err := cuda.Recv(ctx, c, in, 0); err != nil {
			return err
		}
		return k.expect("receive", in, func(i int) int { return value(0, i) })
	}
	return nil
}
