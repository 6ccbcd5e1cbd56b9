package drive

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

// Queue is an unbounded mailbox with one reader. Put never waits. What fills it is
// bounded elsewhere (streams, workers).
type Queue[E any] struct {
	ready chan struct{} // has an element while there may be events

	mu     sync.Mutex
	events []E
}

// NewQueue makes an empty queue.
func NewQueue[E any]() *Queue[E] { return &Queue[E]{ready: make(chan struct{}, 1)} }

// Put adds an event.
func (q *Queue[E]) Put(e E) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// TakeAll empties the queue and returns all events, in the order in which they were put.
func (q *Queue[E]) TakeAll() []E {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.events
	q.events = nil
	return out
}

// Events yields what is put into q, and a Tick whenever m wants one, until ctx ends.
// It still yields what was taken out of q by then. E is rendezvous.Event or, for an
// owner with events of its own, any.
func Events[E any](ctx context.Context, m *Machine, q *Queue[E]) iter.Seq[E] {
	tick := []E{any(rendezvous.Tick{}).(E)}
	return func(yield func(E) bool) {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			if next := m.Next(); !next.IsZero() {
				timer.Reset(max(0, time.Until(next)))
			} else {
				timer.Stop()
			}
			batch := tick
			select {
			case <-timer.C:
			case <-q.ready:
				batch = q.TakeAll()
			case <-ctx.Done():
				return
			}
			for _, e := range batch {
				if !yield(e) {
					return
				}
			}
		}
	}
}
