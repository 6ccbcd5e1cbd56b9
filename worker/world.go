package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
	"github.com/gorun/gorun/worker/internal/caller"
	"github.com/gorun/gorun/worker/internal/gate"
)

// World is this process's place among the ranks of its job.
type World struct {
	set    Settings
	agent  *agent                      // nil without an agent
	joined atomic.Pointer[board.Board] // see board; Step reads it while Comm joins
	ctx    context.Context
	end    context.CancelCauseFunc
	wg     sync.WaitGroup // the reader of the agent's frames

	opts    options
	callers caller.Table // lines of the program that call

	memory memory

	gate     *gate.Gate // of goroutines that connect
	mu       sync.Mutex // held for a moment
	links    links
	kv       kv
	stepSent time.Time
}

// options of a World.
type options struct {
	deadline time.Duration // of each call; 0: none
	separate bool          // true: shares no memory with other ranks
}

// Option changes how a World works.
type Option func(*options)

// WithDeadline gives every call on a communicator at most d, beside what its context says.
// Without this option there is no deadline: ranks may compute for as long as they like
// before they come to a call.
func WithDeadline(d time.Duration) Option { return func(o *options) { o.deadline = d } }

// WithoutSharedMemory makes this rank send messages to the ranks of its node too, and
// through them all ranks: for measurements, and to find out whether memory is at fault.
func WithoutSharedMemory() Option { return func(o *options) { o.separate = true } }

// Init makes the World that the environment describes. It is Start with FromEnv.
func Init(ctx context.Context, opts ...Option) (*World, error) {
	s, err := FromEnv(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return Start(ctx, s, opts...)
}

// Start makes the World that s describes. It connects to the agent if there is one, and
// waits at most 10 s for it. The world lives until Close, until ctx ends or until the
// job is aborted. If the job is already aborted, the error is an *AbortError.
func Start(ctx context.Context, s Settings, opts ...Option) (*World, error) {
	if err := s.check(); err != nil {
		return nil, voiced(err)
	}
	w := &World{set: s}
	for _, o := range opts {
		o(&w.opts)
	}
	w.ctx, w.end = context.WithCancelCause(ctx)
	w.gate = gate.New(w.ctx)
	if s.Socket == "" {
		return w, nil
	}
	a, err := dialAgent(ctx, s.Socket, s.Rank, s.Round)
	if err != nil {
		err = voiced(err)
		w.end(err)
		return nil, err
	}
	w.agent = a
	w.joinBoard(a.board)
	w.wg.Go(func() { w.end(voiced(a.listen())) }) // ends when Close closes the connection
	return w, nil
}

// Rank is this worker's number in the world, from 0 to Size-1.
func (w *World) Rank() int { return w.set.Rank }

// Size is the number of workers in the world.
func (w *World) Size() int { return w.set.Size }

// LocalRank is this worker's number on its node, from 0 to LocalSize-1.
func (w *World) LocalRank() int { return w.set.LocalRank }

// LocalSize is the number of workers on this node.
func (w *World) LocalSize() int { return w.set.LocalSize }

// Node is the number of this node (torchrun's group rank).
func (w *World) Node() int { return w.set.Node }

// RestartCount is how many times the job was restarted because of a failure.
func (w *World) RestartCount() int { return w.set.RestartCount }

// Device is the UUID of this worker's own GPU, empty if it has none.
func (w *World) Device() string { return w.set.Device }

// RunID names the job; it is empty when gorun did not start it.
func (w *World) RunID() string { return w.set.RunID }

// Context returns a context that ends with the world. Its context.Cause is an
// *AbortError after an abort, and ErrClosed after Close.
func (w *World) Context() context.Context { return w.ctx }

// Fail reports to the agent that this rank failed because of err, which ends the round
// for all ranks. It returns when the agent's socket has the message, after at most 5 s;
// then the process may end. The ranks to which this rank is connected learn of it too,
// which is all that happens without an agent. If err is the consequence of an abort, Fail
// does nothing.
func (w *World) Fail(err error) error {
	if _, ok := errors.AsType[*AbortError](err); ok {
		return nil
	}
	var unsent error
	if w.agent != nil { // first, so that the agent knows the cause before its consequences
		f := contract.Frame{Type: contract.TypeFail, Rank: w.set.Rank, Message: message(err)}
		if unsent = w.agent.send(f); unsent != nil {
			unsent = fmt.Errorf("gorun: cannot report to the agent that rank %d failed: %w", w.set.Rank, unsent)
		}
	}
	w.mu.Lock()
	engine := w.links.engine
	w.mu.Unlock()
	if engine != nil {
		engine.Break(errors.New(message(err)))
	}
	return unsent
}

// stepPause is the least time between two steps that the agent hears of.
const stepPause = 200 * time.Millisecond

// Step tells the agent that the program is at step n, for those who watch the job (gorun
// status --json). It may be called as often as the program likes.
func (w *World) Step(n int) {
	if w.board() != nil {
		w.board().SetStep(w.set.LocalRank, uint64(max(0, n)))
		return // the agent reads it there
	}
	if w.agent == nil {
		return
	}
	w.mu.Lock()
	now := time.Now()
	due := now.Sub(w.stepSent) >= stepPause
	if due {
		w.stepSent = now
	}
	w.mu.Unlock()
	if due {
		// An error does not matter: the world ends when the agent is lost.
		_ = w.agent.send(contract.Frame{Type: contract.TypeStep, Rank: w.set.Rank, Step: int64(n)})
	}
}

// Close leaves the world. It closes the communicator, sends a bye to the agent and waits
// for every goroutine that Start started. A call of Comm or Store that waits returns
// ErrClosed. Close may be called more than once.
func (w *World) Close() error {
	w.gate.Shut(ErrClosed)
	w.mu.Lock()
	links, kv := w.links, w.kv
	w.links.comm, w.links.split, w.kv.store, w.kv.server = nil, nil, nil, nil
	w.mu.Unlock()
	broken := links.broken() != nil || w.ctx.Err() != nil
	err := voiced(links.close())
	w.leaveStore(broken || links.comm == nil && kv.store == nil, kv.server)
	kv.store.close()
	w.end(ErrClosed)
	if w.agent != nil {
		// An error does not matter: a lost agent needs no bye.
		_ = w.agent.send(contract.Frame{Type: contract.TypeBye, Rank: w.set.Rank})
		w.agent.conn.Close()
		w.wg.Wait()
	}
	return err
}
