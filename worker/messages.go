package worker

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gorun/gorun/worker/collective"
)

// A tag tells messages between two ranks apart: a receive gets the first message that
// was sent with its tag. Calls without a tag have the tag 0.

// tagOf returns the one tag that a call may give.
func tagOf(tag []int) (int32, error) {
	switch {
	case len(tag) == 0:
		return 0, nil
	case len(tag) > 1:
		return 0, fmt.Errorf("gorun: a message has one tag, not %d", len(tag))
	case tag[0] < math.MinInt32 || tag[0] > math.MaxInt32:
		return 0, fmt.Errorf("gorun: the tag %d does not fit 32 bits", tag[0])
	}
	return int32(tag[0]), nil
}

// start checks what calls for messages have in common.
func (c *Comm) start(tag []int) (int32, error) {
	if c == nil {
		return 0, errNoComm
	}
	return tagOf(tag)
}

// Send sends buf to rank dst, which must receive it into a buffer of the same type
// and length. It returns when buf may be changed, which may be before that.
func Send[T Element](ctx context.Context, c *Comm, buf []T, dst int, tag ...int) error {
	t, err := c.start(tag)
	if err != nil {
		return err
	}
	ctx, cancel := c.w.deadline(ctx)
	defer cancel()
	return c.outcome(c.g.Send(ctx, collective.Of(buf), dst, t))
}

// Recv fills buf with what rank src sends.
func Recv[T Element](ctx context.Context, c *Comm, buf []T, src int, tag ...int) error {
	t, err := c.start(tag)
	if err != nil {
		return err
	}
	ctx, cancel := c.w.deadline(ctx)
	defer cancel()
	return c.outcome(c.g.Recv(ctx, collective.Of(buf), src, t))
}

// SendRecv sends out to rank dst and fills in from rank src at the same time. Unlike a
// Send and then a Recv, it cannot block when the ranks send in a ring.
func SendRecv[T Element](ctx context.Context, c *Comm, out []T, dst int, in []T, src int, tag ...int) error {
	t, err := c.start(tag)
	if err != nil {
		return err
	}
	ctx, cancel := c.w.deadline(ctx)
	defer cancel()
	return c.outcome(c.g.SendRecv(ctx, collective.Of(out), dst, collective.Of(in), src, t))
}

// Request is a call that was started and not waited for yet. Its buffers belong to the
// call until Wait returns.
type Request struct {
	c   *Comm
	r   *collective.Request
	err error // why the call could not be started
}

// Isend is Send that does not wait: Request.Wait does.
func Isend[T Element](c *Comm, buf []T, dst int, tag ...int) *Request {
	t, err := c.start(tag)
	if err != nil {
		return &Request{err: err}
	}
	return &Request{c: c, r: c.g.Isend(collective.Of(buf), dst, t)}
}

// Irecv is Recv that does not wait.
func Irecv[T Element](c *Comm, buf []T, src int, tag ...int) *Request {
	t, err := c.start(tag)
	if err != nil {
		return &Request{err: err}
	}
	return &Request{c: c, r: c.g.Irecv(collective.Of(buf), src, t)}
}

// Wait returns when the call has ended. If ctx ends before, the communicator is broken as
// by a call that blocks. One goroutine at a time may wait for a request.
func (r *Request) Wait(ctx context.Context) error {
	if r == nil {
		return errNoRequest
	}
	if r.err != nil {
		return r.err
	}
	ctx, cancel := r.c.w.deadline(ctx)
	defer cancel()
	return r.c.outcome(r.r.Wait(ctx))
}

// errNoRequest is the error of a wait for a nil Request.
var errNoRequest = errors.New("gorun: cannot wait: the request is nil: no call was started for it")

// WaitAll waits for all requests and returns the errors of those that failed.
func WaitAll(ctx context.Context, requests ...*Request) error {
	var errs []error
	for _, r := range requests {
		if err := r.Wait(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// async starts a collective.
func (c *Comm) async(w *collective.Work) *Request {
	if c == nil {
		return &Request{err: errNoComm}
	}
	return &Request{c: c, r: c.g.Start(w)}
}

// The collectives below do not wait: Request.Wait does. Several may be under way on one
// communicator; they are carried out in the order in which they were started, which must
// be the same on all ranks. A collective that waits comes after those that were started
// before.

// IAllReduce is AllReduce that does not wait.
func IAllReduce[T Element](c *Comm, buf []T, op Op) *Request {
	return c.async(collective.AllReduce(collective.Of(buf), op))
}

// IReduce is Reduce that does not wait.
func IReduce[T Element](c *Comm, dst, src []T, op Op, root int) *Request {
	return c.async(collective.Reduce(collective.Of(dst), collective.Of(src), op, root))
}

// IBroadcast is Broadcast that does not wait.
func IBroadcast[T Element](c *Comm, buf []T, root int) *Request {
	return c.async(collective.Broadcast(collective.Of(buf), root))
}

// IAllGather is AllGather that does not wait.
func IAllGather[T Element](c *Comm, dst, src []T) *Request {
	return c.async(collective.AllGather(collective.Of(dst), collective.Of(src)))
}

// IReduceScatter is ReduceScatter that does not wait.
func IReduceScatter[T Element](c *Comm, dst, src []T, op Op) *Request {
	return c.async(collective.ReduceScatter(collective.Of(dst), collective.Of(src), op))
}

// IAllGatherV is AllGatherV that does not wait.
func IAllGatherV[T Element](c *Comm, dst []T, counts []int, src []T) *Request {
	return c.async(collective.AllGatherV(collective.Of(dst), counts, collective.Of(src)))
}

// IGather is Gather that does not wait.
func IGather[T Element](c *Comm, dst, src []T, root int) *Request {
	return c.async(collective.Gather(collective.Of(dst), collective.Of(src), root))
}

// IScatter is Scatter that does not wait.
func IScatter[T Element](c *Comm, dst, src []T, root int) *Request {
	return c.async(collective.Scatter(collective.Of(dst), collective.Of(src), root))
}

// IAllToAll is AllToAll that does not wait.
func IAllToAll[T Element](c *Comm, dst, src []T) *Request {
	return c.async(collective.AllToAll(collective.Of(dst), collective.Of(src), c.size()))
}

// IAllToAllV is AllToAllV that does not wait.
func IAllToAllV[T Element](c *Comm, dst []T, recvCounts []int, src []T, sendCounts []int) *Request {
	return c.async(collective.AllToAllV(collective.Of(dst), recvCounts, collective.Of(src), sendCounts))
}

// IBarrier is Barrier that does not wait.
func IBarrier(c *Comm) *Request { return c.async(collective.Barrier()) }
