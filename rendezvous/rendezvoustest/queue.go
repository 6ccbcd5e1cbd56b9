package rendezvoustest

import (
	"sync"

	"github.com/gorun/gorun/rendezvous"
)

// queue is an agent's mailbox: whoever posts never waits.
type queue struct {
	ready chan struct{}

	mu     sync.Mutex
	events []rendezvous.Event
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) post(e rendezvous.Event) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *queue) take() []rendezvous.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.events
	q.events = nil
	return out
}
