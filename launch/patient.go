package launch

import (
	"io"
	"time"
)

// patient writes beside its callers, who never wait: a terminal that is stopped
// (Ctrl-S), a full pipe or a dead log must not hold up the end of a job. What
// does not fit into the queue is dropped.
type patient struct {
	w     io.Writer
	hurry func() // makes w wait for less
	queue chan []byte
	done  chan struct{}
}

const (
	patientQueue = 1024            // writes
	patientFlush = 2 * time.Second // for what is left at the end
)

func newPatient(w io.Writer, hurry func()) *patient {
	return &patient{w: w, hurry: hurry, queue: make(chan []byte, patientQueue), done: make(chan struct{})}
}

// run writes until finish.
func (p *patient) run() {
	defer close(p.done)
	for b := range p.queue {
		_, _ = p.w.Write(b)
	}
}

// Write queues b; it always succeeds.
func (p *patient) Write(b []byte) (int, error) {
	select {
	case p.queue <- append([]byte(nil), b...):
	default:
	}
	return len(b), nil
}

// finish waits a moment until everything is written. Nothing may be written
// afterwards.
func (p *patient) finish() {
	close(p.queue)
	for range 2 {
		select {
		case <-p.done:
		case <-time.After(patientFlush / 2):
		}
		p.hurry()
	}
}
