package cuda

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/cuda/internal/driver"
)

// A sleep is the thread's own, because a timer of Go's may be a millisecond late.
const (
	// spinTime is how long a wait asks without sleeping.
	spinTime = time.Millisecond
	// longestPause bounds a sleep between two questions, so that an abort is seen.
	longestPause = 200 * time.Microsecond
	// pauseShare makes a sleep at most this share of the time that the wait has taken.
	pauseShare = 50
	// lookEvery is how many questions to the driver go between two looks at the world while
	// the wait spins.
	lookEvery = 16
	// patience is how long a wait lasts before the other ranks are asked for their calls.
	patience = 2 * time.Second
)

// Wait waits until all calls in c's stream have ended. If ctx ends before, the communicator
// is broken, and the error says where the other ranks are.
func (c *Comm) Wait(ctx context.Context) error {
	if c == nil {
		return errNoComm
	}
	ctx, cancel := c.at.Deadline(ctx)
	defer cancel()
	if err := c.ready(ctx); err != nil {
		return err
	}
	return c.await(ctx, c.stream, 0)
}

// await waits until a stream is idle, or has come to an event that is not 0. It polls,
// because nothing that blocks could be stopped.
func (c *core) await(ctx context.Context, s *Stream, e driver.Event) error {
	begin, looked := time.Now(), time.Now()
	marked := false
	for n := 1; ; n++ {
		if f := c.failed.Load(); f != nil {
			return f.err
		}
		done, err := c.ask(s, e)
		if err != nil {
			return c.fail(err)
		}
		if done {
			if marked {
				c.unmark()
			}
			return nil
		}
		if c.at.Board != nil && c.at.Board.Aborted() {
			return c.fail(c.at.Ended())
		}
		now := time.Now()
		spent := now.Sub(begin)
		if n%lookEvery == 0 || spent > spinTime {
			if err := c.look(ctx); err != nil {
				return c.fail(err)
			}
		}
		if spent < spinTime {
			runtime.Gosched()
			continue
		}
		if !marked {
			c.mark()
			marked = true
		}
		if now.Sub(looked) > patience {
			looked = now
			if err := c.mismatch(); err != nil {
				return c.fail(err)
			}
		}
		pause(min(longestPause, spent/pauseShare))
	}
}

// ask asks the driver whether the wait is over.
func (c *core) ask(s *Stream, e driver.Event) (done bool, err error) {
	if err := c.dev.enter(); err != nil {
		return false, err
	}
	defer c.dev.leave()
	if e != 0 {
		return c.dev.driver.Reached(e)
	}
	return c.dev.driver.Idle(s.handle)
}

// look says why a wait cannot go on.
func (c *core) look(ctx context.Context) error {
	if why := c.at.Ended(); why != nil {
		if _, gone := errors.AsType[*collective.PeerError](why); gone {
			if wrong := c.mismatchHere(); wrong != nil { // which is why the other rank gave up
				return wrong
			}
		}
		return why
	}
	if ctx.Err() != nil {
		return c.late(ctx)
	}
	if !c.mu.try() {
		return nil // a call is going into a stream
	}
	defer c.mu.leave()
	if c.failed.Load() != nil || c.comm == 0 {
		return nil
	}
	return c.dev.nccl.AsyncError(c.comm, &c.poll.state)
}

// late returns the error of a wait whose context has ended.
func (c *core) late(ctx context.Context) error {
	c.last.mu.Lock()
	call, m := c.last.call, c.last.message
	c.last.mu.Unlock()
	if m.Call.Kind != 0 {
		return failed(m, &collective.HangError{Call: m.Call, Others: c.otherEnd(&m), Err: context.Cause(ctx)})
	}
	e := &collective.HangError{Call: call, Err: context.Cause(ctx)}
	if call.Kind == 0 {
		return e
	}
	if c.at.Positions != nil {
		c.last.mu.Lock()
		c.at.Positions.Enter(&call, -1, false)
		c.last.mu.Unlock()
		e.Others = c.at.Positions.Others(&call, -1)
		c.last.mu.Lock()
		c.at.Positions.Leave(&call, -1)
		c.last.mu.Unlock()
	}
	return failed(call, e)
}

// otherEnd returns where the rank at the other end of a message is.
func (c *core) otherEnd(m *collective.Message) []collective.Position {
	there, far := false, c.at.Host.Below()
	if p := &c.pairs[m.Peer]; p.local != elsewhere {
		_, there = c.at.Board.ReadMessage(p.local, board.End{Comm: c.key, Peer: c.at.LocalRank, Send: !m.Send, Seq: m.Call.Seq})
	} else if far != nil {
		for _, at := range far.Others(&collective.Call{Comm: c.about(c.at.Rank, !m.Send)}, m.Peer) {
			there = at.Call.Seq >= m.Call.Seq
		}
	}
	switch {
	case there:
		return []collective.Position{{Rank: m.Peer, World: c.world[m.Peer], Arrived: true, Inside: true, Call: m.Call}}
	case c.at.Positions == nil:
		return nil
	}
	return c.at.Positions.Others(&m.Call, m.Peer)
}

// mark shows the other ranks and the agent that this rank waits in its last call.
func (c *core) mark() {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	c.at.Line.Reopen()
	c.at.Line.MarkWaiting(-1)
}

// unmark ends what mark began.
func (c *core) unmark() {
	c.last.mu.Lock()
	defer c.last.mu.Unlock()
	c.at.Line.Leave()
}
