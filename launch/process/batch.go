package process

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// starters is the number of threads that start processes: each waits for the
// kernel most of the time.
const starters = 2

// batch is what the starters start together.
type batch struct {
	specs   []Spec
	start   func(Spec) (pid int, err error)
	next    atomic.Int64 // the first that nobody has begun
	bad     atomic.Bool  // one could not be started
	pids    []int        // 0: not started
	errs    []error
	working sync.WaitGroup
}

func newBatch(specs []Spec, start func(Spec) (int, error)) *batch {
	return &batch{specs: specs, start: start, pids: make([]int, len(specs)), errs: make([]error, len(specs))}
}

// work starts one after the other until none is left.
func (b *batch) work() {
	for !b.bad.Load() {
		i := int(b.next.Add(1)) - 1
		if i >= len(b.specs) {
			return
		}
		if b.pids[i], b.errs[i] = b.start(b.specs[i]); b.errs[i] != nil {
			b.bad.Store(true)
		}
	}
}

// done is work for the starters, who are counted.
func (b *batch) done() {
	defer b.working.Done()
	b.work()
}

// err is the first one's, in the order of the Specs.
func (b *batch) err() error {
	for _, err := range b.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// starter works on batches until Close, from the first one on on a thread of its
// own: Death comes when the thread that started a process ends.
func (t *Table) starter() {
	for first := true; ; first = false {
		select {
		case b := <-t.batches:
			if first {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread() // after Close the runtime may have it
			}
			b.done()
		case <-t.quit:
			return
		}
	}
}

// run has the starters do the batch. The lock is held, so they have nothing else
// to do, and Close waits.
func (t *Table) run(b *batch) {
	for range min(starters, len(b.specs)) {
		b.working.Add(1)
		t.batches <- b
	}
	b.working.Wait()
}
