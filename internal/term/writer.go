package term

import (
	"io"
	"sync"
	"time"
)

// writer writes in its own goroutine, so that its callers never wait. A terminal that is
// stopped (Ctrl-S), or a full pipe, must not delay the end of a job. writer drops what
// does not fit into its queue.
type writer struct {
	w     io.Writer
	queue chan func()
	done  chan struct{}

	mu    sync.Mutex
	ended bool
}

const (
	writerQueue = 1024 // number of writes
	flushLimit  = 50 * time.Millisecond
	closeLimit  = 2 * time.Second // for what is queued at the end
)

func newWriter(w io.Writer) *writer {
	return &writer{w: w, queue: make(chan func(), writerQueue), done: make(chan struct{})}
}

// run writes until close.
func (w *writer) run() {
	defer close(w.done)
	for do := range w.queue {
		do()
	}
}

// enqueue queues a function and reports whether there was room.
func (w *writer) enqueue(do func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	select {
	case w.queue <- do:
		return true
	default:
		return false
	}
}

// Write queues b, which the caller must not change any more; it always succeeds.
func (w *writer) Write(b []byte) { w.enqueue(func() { _, _ = w.w.Write(b) }) }

// flush waits, 50 ms at most, until every queued write is done.
func (w *writer) flush() {
	out := make(chan struct{})
	if !w.enqueue(func() { close(out) }) {
		return
	}
	select {
	case <-out:
	case <-time.After(flushLimit):
	}
}

// close waits, two seconds at most, until every queued write is done. It drops later
// writes.
func (w *writer) close() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	close(w.queue)
	select {
	case <-w.done:
	case <-time.After(closeLimit):
	}
}
