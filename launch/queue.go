package launch

import (
	"syscall"

	"github.com/gorun/gorun/launch/program"
	"github.com/gorun/gorun/launch/socket"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/drive"
)

// Events of the agent that are not the machine's.
type (
	signalEvent struct{ sig syscall.Signal }
	keeperEvent struct{}
	noteEvent   struct{ text string }
	builtEvent  struct {
		program program.Program
		code    int // exit code if err is not nil
		err     error
	}
	reportEvent struct{ socket.Report } // a worker has failed
	placedEvent struct{}                // the devices are ready
	endedEvent  struct{}                // the workers have ended; what follows waits for their GPUs
	// failedEvent is an error after which this node cannot stay in the job.
	failedEvent struct {
		kind rendezvous.Kind
		text string
	}
)

// queue is the loop's mailbox.
type queue struct{ *drive.Queue[any] }

func newQueue() *queue { return &queue{drive.NewQueue[any]()} }

// post is Put for the machine's events.
func (q *queue) post(e rendezvous.Event) { q.Put(e) }
