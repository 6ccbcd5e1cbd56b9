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
	queue chan func()
	done  chan struct{}
}

const (
	patientQueue  = 1024 // writes
	patientSettle = 50 * time.Millisecond
	patientFlush  = 2 * time.Second // for what is left at the end
)

func newPatient(w io.Writer) *patient {
	return &patient{w: w, queue: make(chan func(), patientQueue), done: make(chan struct{})}
}

// run writes until finish.
func (p *patient) run() {
	defer close(p.done)
	for do := range p.queue {
		do()
	}
}

// Write queues b; it always succeeds.
func (p *patient) Write(b []byte) (int, error) {
	own := append([]byte(nil), b...)
	select {
	case p.queue <- func() { _, _ = p.w.Write(own) }:
	default:
	}
	return len(b), nil
}

// settle waits, a moment at most, until all that was written is out.
func (p *patient) settle() {
	out := make(chan struct{})
	select {
	case p.queue <- func() { close(out) }:
	default:
		return
	}
	select {
	case <-out:
	case <-time.After(patientSettle):
	}
}

// finish waits a moment until everything is written. Nothing may be written
// afterwards.
func (p *patient) finish() {
	close(p.queue)
	select {
	case <-p.done:
	case <-time.After(patientFlush):
	}
}
