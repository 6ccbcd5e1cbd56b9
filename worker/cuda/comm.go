package cuda

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/cuda/internal/driver"
	"github.com/gorun/gorun/worker/cuda/internal/nccl"
	"github.com/gorun/gorun/worker/internal/attach"
)

type ptr = driver.Ptr

// Comm is a communicator of GPUs, with a stream in which its calls go. All its ranks must
// make the same collective calls in the same order; what Comm.On returns is the same
// communicator. If a call fails for another reason than its arguments, such as the end of
// its context, every communicator of the world is broken on all ranks, on GPUs and CPUs.
type Comm struct {
	*core
	stream *Stream
}

// core is what a communicator's streams have in common.
type core struct {
	at   *attach.Comm
	dev  *Device
	comm nccl.Comm
	ranks

	mu   turn // taken by calls into NCCL on the communicator
	word ptr  // device memory for calls without data
	last lastCall
	own  resources
	poll pollWord
	held guard

	start   start
	failed  atomic.Pointer[failure]
	aborted chan struct{} // closed when NCCL has let go of a communicator that failed
}

// ranks is what a communicator knows of its ranks.
type ranks struct {
	world []int  // their numbers in the world
	self  peer   // this rank, as the others of its node read it
	peers []peer // the others of this node
	pairs []pair // this rank with each rank
	key   uint64 // names the communicator's messages: no other one of any world has it
}

// peer is a rank that shares this node's board.
type peer struct {
	rank  int // in the communicator
	local int
	calls *board.Peer
}

// start is what the beginning of a communicator leaves.
type start struct {
	warm  chan struct{} // closed after the first all-reduce
	times Timings       // complete when warm is closed
}

// turn is a mutex. A context ends the wait for it.
type turn chan struct{}

// enter takes t. The error is why ctx ended before.
func (t turn) enter(ctx context.Context) error {
	if t.try() {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try takes t if it is free.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// leave gives t back.
func (t turn) leave() { <-t }

// lock waits for the calls into NCCL of other goroutines. The end of ctx breaks the
// communicator, as it does in a call.
func (c *core) lock(ctx context.Context) error {
	if c.mu.enter(ctx) != nil {
		return c.fail(c.late(ctx))
	}
	return nil
}

// lastCall is the last collective that went into a stream. It is set under the
// communicator's mutex too, and so are the last messages of pairs. Its own mutex is also held
// while other ranks are shown a call.
type lastCall struct {
	mu      sync.Mutex
	call    collective.Call
	message collective.Message // the last that went in after call; of kind 0: none
}

// resources is what Close gives back. Its mutex is never held by a call into NCCL.
type resources struct {
	mu      sync.Mutex
	closed  bool
	streams []*Stream
	memory  []*memory
	hosts   []unsafe.Pointer // memory of copies whose end nobody saw
}

// failure is why a communicator is broken.
type failure struct{ err error }

// pollWord is memory for the answer of a poll.
type pollWord struct{ state int32 }

// Rank is this process's number in the communicator, -1 if c is nil.
func (c *Comm) Rank() int {
	if c == nil {
		return -1
	}
	return c.at.Rank
}

// Size is the number of ranks of the communicator, 0 if c is nil.
func (c *Comm) Size() int {
	if c == nil {
		return 0
	}
	return c.at.Size
}

// Device is the GPU of this rank, nil if c is nil.
func (c *Comm) Device() *Device {
	if c == nil {
		return nil
	}
	return c.dev
}

// Timings waits for the first all-reduce, which is made in the background, and says when
// each part of the start was done.
func (c *Comm) Timings(ctx context.Context) (Timings, error) {
	if c == nil {
		return Timings{}, errNoComm
	}
	if err := c.ready(ctx); err != nil {
		return Timings{}, err
	}
	return c.start.times, nil
}

// ready waits for the first all-reduce.
func (c *core) ready(ctx context.Context) error {
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	select {
	case <-c.start.warm:
		return nil
	default:
	}
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case <-c.start.warm:
			return nil
		case <-ctx.Done():
			return c.fail(c.late(ctx))
		case <-tick.C:
			if f := c.failed.Load(); f != nil {
				return f.err
			}
			if why := c.at.Ended(); why != nil {
				return c.fail(why)
			}
		}
	}
}

const (
	// causeTime bounds how long a call that failed because of another rank waits for the
	// agent's abort, which has the cause. A process that is killed closes its connections at
	// once, but ends only when the driver has cleared its part of the GPU.
	causeTime = 2 * time.Second
	// mutexTime bounds how long an abort waits for a call that is going into a stream.
	mutexTime = 10 * time.Millisecond
	// abortTime bounds how long Close waits for NCCL's end of a communicator that failed.
	abortTime = 2 * time.Second
	// closeTime bounds each part of a close in order.
	closeTime = 5 * time.Second
)

// fail breaks the communicator because of err, and the world's others, and returns the
// error for the program. The first reason stays. NCCL ends its part apart from that.
func (c *core) fail(err error) error {
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	why := c.outcome(err)
	if !c.failed.CompareAndSwap(nil, &failure{why}) {
		return c.failed.Load().err
	}
	if !errors.Is(err, ErrClosed) && c.at.Ended() == nil {
		c.at.Break(why)
	}
	go func() {
		defer close(c.aborted)
		ctx, cancel := context.WithTimeout(context.Background(), mutexTime)
		defer cancel()
		if c.mu.enter(ctx) == nil { // else the abort ends what holds it
			defer c.mu.leave()
		}
		_ = c.end()
	}()
	return why
}

// end aborts NCCL's communicator, if there is one. Its result changes nothing.
func (c *core) end() error {
	comm := c.comm
	if comm == 0 {
		return nil
	}
	return c.dev.abort(comm)
}

// outcome returns the error of a call for the program. An error of NCCL, and a rank that is
// gone, may be the consequence of a process that died, which the agent knows a moment later.
func (c *core) outcome(err error) error {
	_, failed := errors.AsType[*nccl.Error](err)
	if gone, ok := errors.AsType[*collective.PeerError](err); failed || ok && !gone.Closed {
		c.awaitCause(err)
	}
	if why := c.at.Ended(); failed && why != nil {
		err = why
	}
	return c.at.Outcome(err)
}

// awaitCause waits for the agent's abort, but not if err says itself why a rank gave up.
func (c *core) awaitCause(err error) {
	if _, said := errors.AsType[*collective.GaveUp](err); said || !c.at.HasAgent() {
		return
	}
	end := time.After(causeTime)
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for c.at.Board == nil || !c.at.Board.Aborted() {
		select {
		case <-c.at.Context().Done():
			return
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// Close waits for the calls of all streams, at most 5 s, ends the communicator and frees
// what was allocated from it. All ranks should call it. Afterwards calls fail with ErrClosed.
func (c *Comm) Close() error {
	if c == nil {
		return nil
	}
	c.own.mu.Lock()
	again := c.own.closed
	c.own.closed = true
	c.own.mu.Unlock()
	if again {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := c.ready(ctx)
	if err == nil {
		err = c.settle(ctx)
	}
	if err == nil {
		err = c.closeInOrder(ctx)
	}
	if err == nil { // else others still look for the calls
		err = c.at.Leave()
	}
	if c.failed.Load() != nil { // the GPU may still use everything
		select {
		case <-c.aborted:
		case <-time.After(abortTime):
		}
	}
	return voiced(err)
}

// settle waits for the calls of all streams.
func (c *core) settle(ctx context.Context) error {
	c.own.mu.Lock()
	streams := slices.Clone(c.own.streams)
	c.own.mu.Unlock()
	for _, s := range streams {
		if err := c.await(ctx, s, 0); err != nil {
			return err
		}
	}
	return nil
}

// closeInOrder ends a communicator whose calls have all ended.
func (c *core) closeInOrder(ctx context.Context) error {
	if !c.failed.CompareAndSwap(nil, &failure{ErrClosed}) {
		return c.failed.Load().err
	}
	close(c.aborted) // there is nothing to abort
	done := make(chan error, 1)
	go func() {
		if c.mu.enter(ctx) != nil {
			return // the end of ctx is seen below
		}
		defer c.mu.leave()
		err := c.dev.enter()
		if err == nil {
			defer c.dev.leave()
			err = c.release()
		}
		done <- err
	}()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return errors.New("NCCL has not closed its communicator in time: do all ranks close theirs?")
		case <-tick.C:
			if why := c.at.Ended(); errors.Is(why, worker.ErrAborted) {
				return why
			}
		}
	}
}

// release gives everything back. The thread has the GPU's context.
func (c *core) release() error {
	c.own.mu.Lock()
	memory, streams := c.own.memory, c.own.streams
	c.own.mu.Unlock()
	var errs []error
	for _, m := range memory {
		errs = append(errs, m.release(c))
	}
	errs = append(errs, c.dev.nccl.Finalize(c.comm), c.dev.nccl.Destroy(c.comm), c.dev.driver.Free(c.word))
	for _, s := range streams {
		errs = append(errs, s.release())
	}
	return errors.Join(errs...)
}
