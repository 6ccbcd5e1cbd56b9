package launch

import (
	"sync"
	"syscall"

	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/rendezvous"
)

// Events of the agent that are not the machine's.
type (
	signalEvent struct{ sig syscall.Signal }
	keeperEvent struct{}
	noteEvent   struct{ text string }
	tableEvent  struct{ text string } // lines of a table
	otherEvent  struct {              // an agent with another secret
		at     string // its host
		dialed bool   // this agent wanted to reach it
	}
	builtEvent struct {
		program program.Program
		code    int // exit code if err is not nil
		err     error
	}
	reportedEvent struct {
		round, rank int
		message     string
	}
	placedEvent struct{} // the devices are ready
	endedEvent  struct{} // the workers have ended; what follows waits for their GPUs
	// troubleEvent is what this agent cannot get over.
	troubleEvent struct{ err error }
)

// queue is an unbounded mailbox: whoever posts never waits for the loop. What
// fills it is bounded elsewhere (streams, workers).
type queue struct {
	ready chan struct{} // has an element while there may be events

	mu     sync.Mutex
	events []any
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) put(e any) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *queue) take() []any {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.events
	q.events = nil
	return out
}

// trouble is put for an error after which this agent cannot go on.
func (q *queue) trouble(err error) { q.put(troubleEvent{err}) }

// post is put for the machine's events.
func (q *queue) post(e rendezvous.Event) { q.put(e) }
