package process

import (
	"sync"
	"sync/atomic"
)

// batch is what two threads start together: each waits for the kernel most of
// the time.
type batch struct {
	specs []Spec
	start func(Spec) (pid int, err error)
	next  atomic.Int64 // the first that nobody has begun
	bad   atomic.Bool  // one could not be started
	pids  []int        // 0: not started
	errs  []error

	mu      sync.Mutex
	over    bool // nobody may begin to help
	helping sync.WaitGroup
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

// help works, unless it comes too late.
func (b *batch) help() {
	b.mu.Lock()
	late := b.over
	if !late {
		b.helping.Add(1)
	}
	b.mu.Unlock()
	if !late {
		defer b.helping.Done()
		b.work()
	}
}

// end returns when nobody helps any more.
func (b *batch) end() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.helping.Wait()
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
