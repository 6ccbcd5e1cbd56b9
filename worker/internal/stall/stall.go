// Package stall finds collectives that cannot end, because ranks on other nodes make
// another call.
//
// A rank sees another call as soon as it reads a message of that call. But ranks in
// different calls may each wait for a message of a rank that waits too, so that nobody
// reads. Therefore a rank that has waited for a while asks the others where they are. That
// costs nothing while calls end in time, but for setting a timer.
package stall

import (
	"context"
	"sync"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

// patience is how long a call may wait before the other ranks are asked, and asked again.
const patience = 2 * time.Second

// Engine is an engine whose calls are watched.
type Engine struct {
	collective.Below
	rank  int // this rank in the world
	timer *time.Timer

	mu      sync.Mutex
	running bool
	call    collective.Call // the running one, or the last
}

// New returns an engine that watches below. rank is this rank in the world.
func New(below collective.Engine, rank int) *Engine {
	e := &Engine{Below: collective.Below{Engine: below}, rank: rank}
	e.timer = time.AfterFunc(patience, e.look)
	e.timer.Stop()
	return e
}

// Do is described at collective.Engine.
func (e *Engine) Do(ctx context.Context, w *collective.Work) error {
	e.mark(&w.Call, true)
	e.timer.Reset(patience)
	err := e.Engine.Do(ctx, w)
	e.timer.Stop()
	e.mark(&w.Call, false)
	return err
}

func (e *Engine) mark(call *collective.Call, running bool) {
	e.mu.Lock()
	e.call, e.running = *call, running
	e.mu.Unlock()
}

// Split is described at collective.Engine.
func (e *Engine) Split(ctx context.Context, comm uint64, ranks []int) (collective.Engine, error) {
	below, err := e.Engine.Split(ctx, comm, ranks)
	if err != nil {
		return nil, err
	}
	if watched, ok := below.(*Engine); ok {
		return watched, nil
	}
	return New(below, e.rank), nil
}

// look breaks the engine if another rank is in another call with the number of the running
// one. Otherwise it looks again later.
func (e *Engine) look() {
	call, running := e.state()
	if !running {
		return
	}
	for _, at := range e.Others(&call, -1) {
		if !at.Inside || at.Call.Comm != call.Comm || at.Call.Seq != call.Seq || at.Call.Signature() == call.Signature() {
			continue
		}
		if now, running := e.state(); running && now.Seq == call.Seq {
			e.Break(&collective.MismatchError{Rank: e.rank, Mine: call, Peer: at.World, Theirs: at.Call})
		}
		return
	}
	if now, running := e.state(); running && now.Seq == call.Seq {
		e.timer.Reset(patience)
	}
}

func (e *Engine) state() (collective.Call, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.call, e.running
}
