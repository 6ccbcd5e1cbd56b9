package collective

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Request is a call that was started and has to be waited for.
type Request struct {
	g    *Group
	call Call
	m    *Message      // of a send or receive, until it has ended
	done chan struct{} // of a collective; nil otherwise
	err  error         // of an ended request
}

// failed returns a request that has ended with err.
func failed(err error) *Request { return &Request{err: err} }

// Wait returns when the call has ended. One goroutine at a time may call it. If ctx ends
// before, the communicator is broken, as by a call that blocks.
func (r *Request) Wait(ctx context.Context) error {
	if r.m != nil {
		m := r.m
		r.m = nil
		r.err = r.g.end(ctx, m)
		return r.err
	}
	if r.done == nil {
		return r.err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.g.e != nil {
			r.g.e.Break(r.g.late(&r.call, -1, context.Cause(ctx)))
		}
		<-r.done
	}
	return r.err
}

// watch breaks a group's engine when the context of the running collective ends. It keeps
// its hold on a context between calls, because programs pass the same one again.
type watch struct {
	g *Group

	mu      sync.Mutex
	ctx     context.Context
	stop    func() bool
	call    Call          // the last one that began
	running atomic.Uint64 // its number; 0: it has ended
}

// enter begins call. The error is the cause of a context that has ended.
func (w *watch) enter(ctx context.Context, call *Call) error {
	done := ctx.Done()
	if done == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call = *call
	w.running.Store(call.Seq)
	if w.ctx == nil || w.ctx.Done() != done {
		w.drop()
		w.ctx = ctx
		w.stop = context.AfterFunc(ctx, func() { w.ended(ctx) })
	}
	if ctx.Err() != nil {
		w.leave()
		return context.Cause(ctx)
	}
	return nil
}

func (w *watch) leave() { w.running.Store(0) }

// ended breaks the engine if the running call has the context that has ended, and has not
// ended itself when it is known where the other ranks are.
func (w *watch) ended(ctx context.Context) {
	w.mu.Lock()
	call := w.call
	hit := w.running.Load() == call.Seq && w.ctx != nil && w.ctx.Done() == ctx.Done()
	w.mu.Unlock()
	if !hit {
		return
	}
	err := w.g.late(&call, -1, context.Cause(ctx))
	if w.running.Load() == call.Seq {
		w.g.e.Break(err)
	}
}

// forget lets go of the last context.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop()
}

func (w *watch) drop() {
	if w.stop != nil {
		w.stop()
	}
	w.ctx, w.stop = nil, nil
}

// membersOf returns the ranks with this color, ordered by key. all has the color and the
// key of every rank.
func membersOf(all []int64, color int64) []int {
	var ranks []int
	for r := range len(all) / 2 {
		if all[2*r] == color {
			ranks = append(ranks, r)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(all[2*a+1], all[2*b+1]) })
	return ranks
}
