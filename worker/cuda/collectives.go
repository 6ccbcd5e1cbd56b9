package cuda

import (
	"context"
	"fmt"
	"math"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/collective"
)

// AllReduce replaces buf on every rank by the op over all ranks' buf, element by element.
// As everywhere in this package, bitwise operations and sums of 16 bit integers are refused,
// because NCCL has none, and Max and Min of floats may drop a NaN.
func AllReduce[T worker.Element](ctx context.Context, c *Comm, buf *Buffer[T], op worker.Op) error {
	return c.allReduce(ctx, buf.area(), op)
}

// Reduce sets dst of rank root to the op over all ranks' src. The other ranks' dst may be
// nil. dst may be src.
func Reduce[T worker.Element](ctx context.Context, c *Comm, dst, src *Buffer[T], op worker.Op, root int) error {
	return c.reduce(ctx, dst.area(), src.area(), op, root)
}

// Broadcast replaces buf on every rank by rank root's buf.
func Broadcast[T worker.Element](ctx context.Context, c *Comm, buf *Buffer[T], root int) error {
	return c.broadcast(ctx, buf.area(), root)
}

// AllGather sets dst to all ranks' src, in rank order. src may be this rank's part of dst.
func AllGather[T worker.Element](ctx context.Context, c *Comm, dst, src *Buffer[T]) error {
	return c.allGather(ctx, dst.area(), src.area())
}

// AllGatherV is AllGather of parts with different lengths: rank i's src has counts[i]
// elements. All ranks give the same counts.
func AllGatherV[T worker.Element](ctx context.Context, c *Comm, dst *Buffer[T], counts []int, src *Buffer[T]) error {
	return c.allGatherV(ctx, dst.area(), counts, src.area())
}

// ReduceScatter sets dst to this rank's part of the op over all ranks' src, which has one
// part of dst's length for each rank. dst may be this rank's part of src.
func ReduceScatter[T worker.Element](ctx context.Context, c *Comm, dst, src *Buffer[T], op worker.Op) error {
	return c.reduceScatter(ctx, dst.area(), src.area(), op)
}

// Gather sets dst of rank root to all ranks' src, in rank order. The other ranks' dst may
// be nil.
func Gather[T worker.Element](ctx context.Context, c *Comm, dst, src *Buffer[T], root int) error {
	return c.gather(ctx, dst.area(), src.area(), root)
}

// Scatter sets dst of rank i to part i of rank root's src. The other ranks' src may be nil.
func Scatter[T worker.Element](ctx context.Context, c *Comm, dst, src *Buffer[T], root int) error {
	return c.scatter(ctx, dst.area(), src.area(), root)
}

// AllToAll sends part i of src to rank i and sets part i of dst to what rank i sends. The
// parts have the same length.
func AllToAll[T worker.Element](ctx context.Context, c *Comm, dst, src *Buffer[T]) error {
	return c.allToAll(ctx, dst.area(), src.area())
}

// AllToAllV is AllToAll of parts with different lengths: sendCounts[i] elements of src go
// to rank i, recvCounts[i] elements of dst come from it.
func AllToAllV[T worker.Element](ctx context.Context, c *Comm, dst *Buffer[T], recvCounts []int, src *Buffer[T], sendCounts []int) error {
	return c.allToAllV(ctx, dst.area(), recvCounts, src.area(), sendCounts)
}

// Barrier returns when all ranks have called it, and what was in their streams has ended.
func Barrier(ctx context.Context, c *Comm) error {
	if err := c.do(ctx, &work{Work: *collective.Barrier()}); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Send sends buf to rank dst, which must receive it into a buffer of the same type and
// length. NCCL has no tags: messages between two ranks match in their order. A Send and a
// Recv of one stream come one after the other; SendRecv makes both at once.
func Send[T worker.Element](ctx context.Context, c *Comm, buf *Buffer[T], dst int) error {
	return c.message(ctx, "send", buf.area(), dst, area{}, none)
}

// Recv fills buf with what rank src sends.
func Recv[T worker.Element](ctx context.Context, c *Comm, buf *Buffer[T], src int) error {
	return c.message(ctx, "receive", area{}, none, buf.area(), src)
}

// SendRecv sends out to rank dst and fills in from rank src at the same time.
func SendRecv[T worker.Element](ctx context.Context, c *Comm, out *Buffer[T], dst int, in *Buffer[T], src int) error {
	if c != nil && (dst < 0 || src < 0) {
		return fmt.Errorf("gorun: cannot send and receive on GPUs: there is no rank %d", min(dst, src))
	}
	return c.message(ctx, "send and receive", out.area(), dst, in.area(), src)
}

// Copy copies src to dst on this rank's GPU.
func Copy[T worker.Element](ctx context.Context, c *Comm, dst, src *Buffer[T]) error {
	return c.copy(ctx, dst.area(), src.area())
}

// What follows makes the work of the functions above. It is apart from them so that the
// compiler inlines the functions of package collective, and a call allocates nothing.

func (c *Comm) allReduce(ctx context.Context, b area, op worker.Op) error {
	return c.do(ctx, &work{Work: *collective.AllReduce(b.desc, op), dst: b})
}

func (c *Comm) reduce(ctx context.Context, dst, src area, op worker.Op, root int) error {
	return c.do(ctx, &work{Work: *collective.Reduce(dst.desc, src.desc, op, root), dst: dst, src: src})
}

func (c *Comm) broadcast(ctx context.Context, b area, root int) error {
	return c.do(ctx, &work{Work: *collective.Broadcast(b.desc, root), dst: b})
}

func (c *Comm) allGather(ctx context.Context, dst, src area) error {
	return c.do(ctx, &work{Work: *collective.AllGather(dst.desc, src.desc), dst: dst, src: src})
}

func (c *Comm) allGatherV(ctx context.Context, dst area, counts []int, src area) error {
	return c.do(ctx, &work{Work: *collective.AllGatherV(dst.desc, counts, src.desc), dst: dst, src: src})
}

func (c *Comm) reduceScatter(ctx context.Context, dst, src area, op worker.Op) error {
	return c.do(ctx, &work{Work: *collective.ReduceScatter(dst.desc, src.desc, op), dst: dst, src: src})
}

func (c *Comm) gather(ctx context.Context, dst, src area, root int) error {
	return c.do(ctx, &work{Work: *collective.Gather(dst.desc, src.desc, root), dst: dst, src: src})
}

func (c *Comm) scatter(ctx context.Context, dst, src area, root int) error {
	return c.do(ctx, &work{Work: *collective.Scatter(dst.desc, src.desc, root), dst: dst, src: src})
}

func (c *Comm) allToAll(ctx context.Context, dst, src area) error {
	return c.do(ctx, &work{Work: *collective.AllToAll(dst.desc, src.desc, c.Size()), dst: dst, src: src})
}

func (c *Comm) allToAllV(ctx context.Context, dst area, recvCounts []int, src area, sendCounts []int) error {
	return c.do(ctx, &work{Work: *collective.AllToAllV(dst.desc, recvCounts, src.desc, sendCounts), dst: dst, src: src})
}

// none stands for the end that a message has not. It is less than all that a program gives
// for a rank.
const none = math.MinInt

// message makes one end of a message, or both.
func (c *Comm) message(ctx context.Context, doing string, out area, to int, in area, from int) error {
	if c == nil {
		return errNoComm
	}
	w := &work{src: out, dst: in, to: to, from: from}
	w.Call = collective.Call{Kind: collective.KindSend, Type: out.desc.Type, Count: uint64(out.desc.Count)}
	if to < 0 {
		w.Call.Type, w.Call.Count = in.desc.Type, uint64(in.desc.Count)
	}
	var err error
	switch {
	case max(to, from) >= c.at.Size || max(to, from) < 0:
		err = fmt.Errorf("there is no rank %d: the communicator has ranks 0 to %d", max(to, from), c.at.Size-1)
	case (to == c.at.Rank) != (from == c.at.Rank):
		err = fmt.Errorf("rank %d is this rank itself", c.at.Rank)
	case out.at == 0 && out.desc.Count > 0 || in.at == 0 && in.desc.Count > 0:
		err = errFreed
	case to == from && out.desc.Count != in.desc.Count && to == c.at.Rank:
		err = fmt.Errorf("this rank sends %d elements to itself and receives %d", out.desc.Count, in.desc.Count)
	case to >= 0 && from >= 0:
		err = w.checkOverlap(c.at.Rank)
	}
	if err != nil {
		return fmt.Errorf("gorun: cannot %s on GPUs: %w", doing, err)
	}
	ctx, cancel := c.at.Deadline(ctx)
	defer cancel()
	return c.put(ctx, w)
}

// copy copies on this GPU.
func (c *Comm) copy(ctx context.Context, dst, src area) error {
	switch {
	case c == nil:
		return errNoComm
	case dst.desc.Count != src.desc.Count:
		return fmt.Errorf("gorun: cannot copy on the GPU: the source has %d elements, the result %d", src.desc.Count, dst.desc.Count)
	case src.desc.Count == 0:
		return nil
	case dst.at == 0 || src.at == 0:
		return voiced(errFreed)
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	if err := c.stream.reserve(ctx); err != nil {
		return err
	}
	err := func() error {
		if err := c.lock(ctx); err != nil {
			return err
		}
		defer c.mu.leave()
		if f := c.failed.Load(); f != nil { // Close may have given the stream back
			return f.err
		}
		if err := c.dev.enter(); err != nil {
			return err
		}
		defer c.dev.leave()
		if err := c.dev.driver.Copy(dst.at, src.at, src.bytes(), c.stream.handle); err != nil {
			return err
		}
		return c.stream.count()
	}()
	if err != nil {
		return c.fail(err)
	}
	return nil
}
