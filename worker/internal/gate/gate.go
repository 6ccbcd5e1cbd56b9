// Package gate lets one goroutine at a time do what may take long, until the gate is shut.
//
// Invariants: nobody waits at a gate, or works inside, longer than its context, nor after
// the gate is shut, if the work ends with the context that Enter returns.
package gate

import "context"

// Gate is open until Shut, or until the context of New ends.
type Gate struct {
	turn chan struct{} // has a token while a goroutine is inside
	open context.Context
	shut context.CancelCauseFunc
}

// New returns a gate that is open as long as ctx, at most.
func New(ctx context.Context) *Gate {
	g := &Gate{turn: make(chan struct{}, 1)}
	g.open, g.shut = context.WithCancelCause(ctx)
	return g
}

// Err returns why the gate is shut, or nil.
func (g *Gate) Err() error { return context.Cause(g.open) }

// Enter waits until nobody is inside. The context that it returns ends with ctx, and when
// the gate is shut. The caller calls leave at its end, unless there is an error: the cause
// of the end of the one or the other.
func (g *Gate) Enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	case <-g.open.Done():
		return nil, nil, g.Err()
	}
	if g.Err() != nil {
		<-g.turn
		return nil, nil, g.Err()
	}
	inside, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.open, func() { cancel(g.Err()) })
	return inside, func() {
		stop()
		cancel(nil)
		<-g.turn
	}, nil
}

// Occupied reports whether somebody is inside.
func (g *Gate) Occupied() bool { return len(g.turn) > 0 }

// Shut shuts the gate because of why, and waits until nobody is inside.
func (g *Gate) Shut(why error) {
	g.shut(why)
	g.turn <- struct{}{}
	<-g.turn
}
