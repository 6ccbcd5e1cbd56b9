package cuda

import (
	"context"
	"sync"
	"time"
)

// guardTime is the time between two looks at a call that NCCL does not return from.
const guardTime = 20 * time.Millisecond

// guard ends the communicator when a call into NCCL outlives its context, or the world. Most
// calls return when the work is in the stream, but the first of its kind connects ranks, for
// which it waits. The holder of the communicator's mutex makes one call at a time.
type guard struct {
	mu    sync.Mutex
	ctx   context.Context // of the call; nil: there is none
	timer *time.Timer
	armed bool // the timer runs; it is not set for each call, which would cost 0.5 µs
}

// init makes g the guard of c. It watches nothing yet.
func (g *guard) init(c *core) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(guardTime, func() { g.look(c) })
	g.timer.Stop()
}

// enter begins to watch a call. It allocates nothing.
func (g *guard) enter(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx = ctx
	if !g.armed {
		g.armed = true
		g.timer.Reset(guardTime)
	}
}

// leave ends what enter began.
func (g *guard) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx = nil
}

// look breaks c if the call cannot go on, which makes NCCL return from it.
func (g *guard) look(c *core) {
	g.mu.Lock()
	ctx := g.ctx
	if g.armed = ctx != nil; g.armed {
		g.timer.Reset(guardTime)
	}
	g.mu.Unlock()
	switch {
	case ctx == nil || c.failed.Load() != nil:
	case c.at.Ended() != nil:
		_ = c.fail(c.at.Ended())
	case ctx.Err() != nil:
		_ = c.fail(c.late(ctx))
	}
}
