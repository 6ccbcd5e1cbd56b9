package worker

import (
	"context"
	"fmt"
)

// gate lets one goroutine at a time connect this rank to the others, which may take a
// minute. It is open until World.Close or the end of the world, which end the wait of all.
type gate struct {
	turn  chan struct{} // has a token while a goroutine is inside
	open  context.Context
	close context.CancelCauseFunc
}

func newGate(world context.Context) gate {
	g := gate{turn: make(chan struct{}, 1)}
	g.open, g.close = context.WithCancelCause(world)
	return g
}

// enter waits until no other goroutine is inside. The context that it returns ends with ctx
// and when the gate closes; leave must be called if there is no error.
func (g *gate) enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("gorun: another goroutine still connects this rank: %w", context.Cause(ctx))
	case <-g.open.Done():
		return nil, nil, context.Cause(g.open)
	}
	if g.open.Err() != nil {
		<-g.turn
		return nil, nil, context.Cause(g.open)
	}
	inside, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.open, func() { cancel(context.Cause(g.open)) })
	return inside, func() {
		stop()
		cancel(nil)
		<-g.turn
	}, nil
}

// shut closes the gate and waits until nobody is inside, which is soon. The error of those
// who wait is why.
func (g *gate) shut(why error) {
	g.close(why)
	g.turn <- struct{}{}
	<-g.turn
}
