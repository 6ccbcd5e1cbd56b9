package collective

import (
	"errors"
	"sync"
	"sync/atomic"
)

// turns orders the collectives of a group as they were called. Turns are numbered from 1. A
// call that finds no other before it takes and ends its turn without a lock.
type turns struct {
	state atomic.Uint64 // the number of the last turn, and the bits below
	done  atomic.Uint64 // turns that have ended

	mu    sync.Mutex // of ended
	ended sync.Cond  // done has grown, and somebody may wait for that
}

const (
	turnsClosed   = 1 << 63 // no turn may follow
	turnsBlocking = 1 << 62 // a call that is not asynchronous has a turn or waits for it
	turnsNumber   = turnsBlocking - 1
)

var (
	// errClosed is the error of a call after Close.
	errClosed = errors.New("this rank has closed the communicator")
	// errUnfinished is why Close breaks the engine.
	errUnfinished = errors.New("closed the communicator while a collective of its own still ran: wait for every Request before that")

	errTwo = errors.New("another collective of this rank is running; they must be made one at a time, in the same order on all ranks")
)

// next returns the number of a new turn. The error says why there is none.
func (t *turns) next(blocking bool) (uint64, error) {
	for {
		was := t.state.Load()
		is := was + 1
		if blocking {
			is |= turnsBlocking
		}
		switch {
		case was&turnsClosed != 0:
			return 0, errClosed
		case blocking && was&turnsBlocking != 0:
			return 0, errTwo
		case t.state.CompareAndSwap(was, is):
			return is & turnsNumber, nil
		}
	}
}

// has reports whether it is this turn now: the ones before have ended.
func (t *turns) has(turn uint64) bool { return t.done.Load()+1 == turn }

// await returns when it is this turn.
func (t *turns) await(turn uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.has(turn) {
		t.ended.Wait()
	}
}

// end ends the present turn. blocking is that of its call of next.
func (t *turns) end(blocking bool) {
	done := t.done.Add(1)
	last := t.state.Load()
	if blocking {
		last = t.state.And(^uint64(turnsBlocking))
	}
	if last&turnsNumber != done || last&turnsClosed != 0 {
		t.mu.Lock() // a call that saw done before it grew is asleep now, or Close is
		t.ended.Broadcast()
		t.mu.Unlock()
	}
}

// close lets no turn follow. It reports whether the last one has not ended yet.
func (t *turns) close() (running bool) {
	last := t.state.Or(turnsClosed) & turnsNumber
	return t.done.Load() != last
}

// drain returns when all turns have ended. It follows close.
func (t *turns) drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.done.Load() != t.state.Load()&turnsNumber {
		t.ended.Wait()
	}
}

func (t *turns) closed() bool { return t.state.Load()&turnsClosed != 0 }
