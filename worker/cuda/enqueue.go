package cuda

import (
	"context"
	"fmt"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/cuda/internal/nccl"
)

// area is the memory of a buffer: where it is, and what it holds.
type area struct {
	at   ptr
	desc collective.Buffer // without Data
}

// part returns where element i is.
func (a *area) part(i int) uintptr { return uintptr(a.at) + uintptr(i*a.desc.Type.Size()) }

// bytes is the size of a.
func (a *area) bytes() int { return a.desc.Count * a.desc.Type.Size() }

// work is one call.
type work struct {
	collective.Work
	dst, src area
	// For messages.
	to, from int
}

// message returns the message that w receives, else the one that it sends.
func (w *work) message() collective.Message {
	m := collective.Message{Call: w.Call, Send: true, Peer: w.to}
	if w.from >= 0 {
		m.Send, m.Peer, m.Call.Count = false, w.from, uint64(w.dst.desc.Count)
	}
	return m
}

// wrap says which call failed.
func (w *work) wrap(err error) error {
	if w.Call.Kind == collective.KindSend {
		return failed(w.message(), err)
	}
	return failed(w.Call, err)
}

// failed is the error of a call on GPUs.
func failed(call fmt.Stringer, err error) error {
	return fmt.Errorf("%v on GPUs failed: %w", call, err)
}

// element is how NCCL moves elements of a type: some as several of another.
type element struct {
	t     nccl.Type
	times int
}

// elements has NCCL's types. Integers of 16 bits, which it has not, are moved as bytes.
func elementOf(t collective.DType) element {
	switch t {
	case collective.Int8:
		return element{nccl.Int8, 1}
	case collective.Uint8:
		return element{nccl.Uint8, 1}
	case collective.Int16, collective.Uint16:
		return element{nccl.Uint8, 2}
	case collective.Int32:
		return element{nccl.Int32, 1}
	case collective.Uint32:
		return element{nccl.Uint32, 1}
	case collective.Int64:
		return element{nccl.Int64, 1}
	case collective.Uint64:
		return element{nccl.Uint64, 1}
	case collective.Float16:
		return element{nccl.Float16, 1}
	case collective.BFloat16:
		return element{nccl.BFloat16, 1}
	case collective.Float32:
		return element{nccl.Float32, 1}
	}
	return element{nccl.Float64, 1}
}

// opOf returns NCCL's operation. The error says that it has none.
func opOf(op collective.Op, t collective.DType) (nccl.Op, error) {
	if t == collective.Int16 || t == collective.Uint16 {
		return 0, fmt.Errorf("NCCL does not compute with %v: take int32, or reduce on CPUs", t)
	}
	switch op {
	case collective.Sum:
		return nccl.Sum, nil
	case collective.Prod:
		return nccl.Prod, nil
	case collective.Max:
		return nccl.Max, nil
	case collective.Min:
		return nccl.Min, nil
	case collective.Avg:
		return nccl.Avg, nil
	}
	return 0, fmt.Errorf("NCCL has no operation %v: reduce on CPUs", op)
}

// do checks a collective and puts it into the stream.
func (c *Comm) do(ctx context.Context, w *work) error {
	if c == nil {
		return errNoComm
	}
	if err := c.check(w); err != nil {
		return fmt.Errorf("gorun: cannot start %v on GPUs: %w", w.Call.Kind, err)
	}
	ctx, cancel := c.at.Deadline(ctx)
	defer cancel()
	return c.put(ctx, w)
}

// check says what is wrong with the arguments of a collective.
func (c *Comm) check(w *work) error {
	if w.dst.at == 0 && w.dst.desc.Count > 0 || w.src.at == 0 && w.src.desc.Count > 0 {
		return errFreed
	}
	if err := w.Work.Check(c.at.Rank, c.at.Size); err != nil {
		return err
	}
	if w.Call.Op != collective.NoOp {
		if _, err := opOf(w.Call.Op, w.Call.Type); err != nil {
			return err
		}
	}
	return w.checkOverlap(c.at.Rank)
}

// checkOverlap allows a source and a result in the same memory only where NCCL does: in the
// same place, or at this rank's part of the longer one.
func (w *work) checkOverlap(rank int) error {
	src, dst := &w.src, &w.dst
	if src.bytes() == 0 || dst.bytes() == 0 || uintptr(src.at)+uintptr(src.bytes()) <= uintptr(dst.at) || uintptr(dst.at)+uintptr(dst.bytes()) <= uintptr(src.at) {
		return nil
	}
	switch w.Call.Kind {
	case collective.KindReduce:
		if src.at == dst.at {
			return nil
		}
	case collective.KindAllGather:
		if uintptr(src.at) == dst.part(rank*src.desc.Count) {
			return nil
		}
	case collective.KindReduceScatter:
		if uintptr(dst.at) == src.part(rank*dst.desc.Count) {
			return nil
		}
	}
	return fmt.Errorf("the source and the result share memory")
}

// put puts a call into the stream. Its arguments are right.
func (c *Comm) put(ctx context.Context, w *work) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	if c.at.Board != nil && c.at.Board.Aborted() {
		return c.fail(c.at.Ended())
	}
	if ctx.Err() != nil {
		return c.fail(w.wrap(context.Cause(ctx)))
	}
	if err := c.stream.reserve(ctx); err != nil {
		return err
	}
	err := c.putNow(ctx, w)
	if err != nil {
		return c.fail(w.wrap(err))
	}
	return nil
}

// putNow hands a call to NCCL.
func (c *Comm) putNow(ctx context.Context, w *work) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.mu.leave()
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	w.Call.Comm = c.at.ID
	if w.Call.Kind != collective.KindSend {
		c.last.mu.Lock()
		w.Call.Seq = c.last.call.Seq + 1
		c.last.call, c.last.message.Call.Kind = w.Call, 0
		if c.at.Positions != nil { // which get no memory of the caller's stack
			c.at.Positions.Enter(&c.last.call, -1, false)
			c.at.Positions.Leave(&c.last.call, -1)
		}
		c.last.mu.Unlock()
		if err := c.compare(&c.last.call); err != nil {
			return err
		}
	}
	if err := c.compareMessages(w); err != nil {
		return err
	}
	if err := c.dev.enter(); err != nil {
		return err
	}
	defer c.dev.leave()
	c.held.enter(ctx)
	defer c.held.leave()
	if code := c.issue(w); code != 0 {
		return c.dev.nccl.Failure("NCCL", code, c.comm)
	}
	return c.stream.count()
}

// issue calls NCCL. The result is NCCL's.
func (c *Comm) issue(w *work) int32 {
	n, to, e := c.dev.nccl, nccl.To{Comm: c.comm, Stream: uintptr(c.stream.handle)}, elementOf(w.Call.Type)
	count, root := int(w.Call.Count)*e.times, int(w.Call.Root)
	var op nccl.Op
	if w.Call.Op != collective.NoOp {
		op, _ = opOf(w.Call.Op, w.Call.Type)
	}
	src, dst := uintptr(w.src.at), uintptr(w.dst.at)
	switch w.Call.Kind {
	case collective.KindAllReduce:
		return n.AllReduce(dst, dst, count, e.t, op, to)
	case collective.KindReduce:
		return n.Reduce(src, dst, count, e.t, op, root, to)
	case collective.KindBroadcast:
		return n.Broadcast(dst, dst, count, e.t, root, to)
	case collective.KindAllGather:
		return n.AllGather(src, dst, count, e.t, to)
	case collective.KindReduceScatter:
		return n.ReduceScatter(src, dst, count, e.t, op, to)
	case collective.KindBarrier:
		return n.AllReduce(uintptr(c.word), uintptr(c.word), 1, nccl.Int32, nccl.Max, to)
	}
	n.GroupStart()
	code := c.issueGroup(w, e, to)
	if end := n.GroupEnd(); code == 0 {
		code = end
	}
	return code
}

// issueGroup calls NCCL for calls that consist of several, up to the first that fails.
func (c *Comm) issueGroup(w *work, e element, to nccl.To) (code int32) {
	size, rank := c.at.Size, c.at.Rank
	count, root := int(w.Call.Count), int(w.Call.Root)
	switch w.Call.Kind {
	case collective.KindAllToAll:
		for r := 0; r < size && code == 0; r++ {
			code = c.exchangeWith(w, e, r, r*count, count, r*count, count, to)
		}
	case collective.KindAllToAllV:
		out, in := 0, 0
		for r := 0; r < size && code == 0; r++ {
			code = c.exchangeWith(w, e, r, out, w.SendCounts[r], in, w.RecvCounts[r], to)
			out, in = out+w.SendCounts[r], in+w.RecvCounts[r]
		}
	case collective.KindAllGatherV:
		at := 0
		for r, n := range w.RecvCounts {
			src := w.dst.part(at)
			if r == rank {
				src = uintptr(w.src.at)
			}
			if n > 0 && code == 0 {
				code = c.dev.nccl.Broadcast(src, w.dst.part(at), n*e.times, e.t, r, to)
			}
			at += n
		}
	case collective.KindGather:
		code = c.exchangeWith(w, e, root, 0, count, 0, 0, to)
		for r := 0; r < size && code == 0 && rank == root; r++ {
			code = c.exchangeWith(w, e, r, 0, 0, r*count, count, to)
		}
	case collective.KindScatter:
		for r := 0; r < size && code == 0 && rank == root; r++ {
			code = c.exchangeWith(w, e, r, r*count, count, 0, 0, to)
		}
		if code == 0 {
			code = c.exchangeWith(w, e, root, 0, 0, 0, count, to)
		}
	case collective.KindSend:
		if w.to >= 0 {
			code |= c.exchangeWith(w, e, w.to, 0, w.src.desc.Count, 0, 0, to)
		}
		if w.from >= 0 && code == 0 {
			code = c.exchangeWith(w, e, w.from, 0, 0, 0, w.dst.desc.Count, to)
		}
	}
	return code
}

// exchangeWith sends and receives parts of a call. Empty ones are left out.
func (c *Comm) exchangeWith(w *work, e element, peer, out, outCount, in, inCount int, to nccl.To) (code int32) {
	if outCount > 0 {
		code = c.dev.nccl.Send(w.src.part(out), outCount*e.times, e.t, peer, to)
	}
	if inCount > 0 && code == 0 {
		code = c.dev.nccl.Recv(w.dst.part(in), inCount*e.times, e.t, peer, to)
	}
	return code
}
