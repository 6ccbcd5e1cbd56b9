package board

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"unsafe"
)

var (
	// ErrAborted says that the round was aborted; Cause has the reason.
	ErrAborted = errors.New("the round was aborted")
	// ErrStopped says that a Waiter's own stop word was set.
	ErrStopped = errors.New("the communicator was stopped")
)

const (
	// nap bounds a sleep, so that the end of a context is seen and a lost wake-up does
	// no harm.
	nap = 10 * time.Millisecond
	// longNap is that of a lazy waiter, which has no context to look at.
	longNap = time.Second
	// longSpin is the number of pauses of a rank that has CPUs of its own: tens of
	// microseconds.
	longSpin = 2000
	// yields is how often a rank gives its CPU to other processes before it sleeps. With
	// more ranks than CPUs the rank that it waits for runs then, and no wake-up is needed:
	// 4 ranks on 2 CPUs all-reduce 8 bytes in 2.6 µs instead of 11 to 29.
	yields = 50
	// longYields is how long a rank may be without its CPU while it yields, before it takes
	// the CPUs for crowded: among processes that do not wait for it a yield costs a time slice
	// of each, where a rank that sleeps is woken at once.
	longYields = 2 * time.Millisecond
	// crowdedWaits is how many waits do without yielding on crowded CPUs.
	crowdedWaits = 128
	// abortCheck is the number of pauses between two looks at the abort word.
	abortCheck = 16
)

// Word is a counter that one process advances and for which others wait. It lies in
// a board's memory.
type Word struct {
	value    atomic.Uint32
	sleepers atomic.Uint32
}

// WordSize is the size of a Word in bytes. A Word is aligned to it.
const WordSize = 8

// WordAt returns the word at the beginning of mem.
func WordAt(mem []byte) *Word {
	_ = mem[WordSize-1]
	if uintptr(unsafe.Pointer(&mem[0]))%WordSize != 0 {
		panic("board: a word that is not aligned")
	}
	return (*Word)(unsafe.Pointer(&mem[0]))
}

// Load returns the value.
func (w *Word) Load() uint32 { return w.value.Load() }

// Publish sets the value and wakes the ranks that sleep for it. What this goroutine
// wrote before is visible to them.
func (w *Word) Publish(v uint32) {
	w.value.Store(v)
	if w.sleepers.Load() != 0 {
		wake(&w.value)
	}
}

// Advance adds 1 to a counter that several processes advance, and wakes the ranks that
// sleep for it.
func (w *Word) Advance() {
	w.value.Add(1)
	if w.sleepers.Load() != 0 {
		wake(&w.value)
	}
}

// reached reports whether the counter has come to v. It counts modulo 2^32.
func (w *Word) reached(v uint32) bool { return int32(w.value.Load()-v) >= 0 }

// Waiter waits for words for one goroutine at a time of a local rank.
type Waiter struct {
	board *Board
	page  *page
	stop  *Word
	line  *Line
	lazy  bool // true: it sleeps at once
	spin  spinner

	crowded int // waits that do not yield
}

// Waiter returns a waiter for a local rank of the board. If stop is not nil, a value
// other than 0 in it ends every wait. line shows since when the rank sleeps; it may be
// nil.
func (b *Board) Waiter(local int, stop *Word, line *Line) *Waiter {
	w := &Waiter{board: b, page: b.page(local), stop: stop, line: line}
	w.spin.fixed = b.spin
	return w
}

// LazyWaiter returns a waiter for what seldom happens: it costs no CPU, and sees the end
// of a context late.
func (b *Board) LazyWaiter(local int, stop *Word) *Waiter {
	return &Waiter{board: b, page: b.page(local), stop: stop, lazy: true}
}

// Await returns nil when the word has come to v. The error is ErrAborted, ErrStopped or
// the cause of ctx. It allocates nothing.
func (w *Waiter) Await(ctx context.Context, word *Word, v uint32) error {
	if word.reached(v) {
		return nil
	}
	if w.lazy {
		return w.sleep(ctx, word, v)
	}
	limit := w.spin.limit()
	for i := range limit {
		pause()
		if word.reached(v) {
			w.spin.succeeded(i)
			return nil
		}
		if i%abortCheck == abortCheck-1 {
			if err := w.Err(); err != nil {
				return err
			}
		}
	}
	w.spin.failed(limit)
	if w.yield(word, v) {
		return nil
	}
	return w.sleep(ctx, word, v)
}

// yield gives this CPU to other processes some times, until the word has come to v or the
// wait has ended. It reports whether the word has.
func (w *Waiter) yield(word *Word, v uint32) (reached bool) {
	if w.crowded > 0 {
		w.crowded--
		return false
	}
	begin := time.Now()
	for i := 0; i < yields && !reached && w.Err() == nil; i++ {
		yield()
		reached = word.reached(v)
	}
	if time.Since(begin) > longYields {
		w.crowded = crowdedWaits
	}
	return reached
}

func (w *Waiter) sleep(ctx context.Context, word *Word, v uint32) error {
	marked, limit := false, nap
	if w.lazy {
		limit = longNap
	}
	for {
		seen := word.value.Load()
		if int32(seen-v) >= 0 {
			return nil
		}
		if !marked {
			w.line.MarkWaiting(-1)
			marked = true
		}
		slot := w.announceSleep(word)
		word.sleepers.Add(1)
		err := w.Err() // after the announcement: who sets the abort word reads it afterwards
		if err == nil {
			wait(&word.value, seen, limit)
		}
		word.sleepers.Add(^uint32(0))
		if slot != nil {
			slot.Store(0)
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if word.reached(v) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Err returns ErrAborted or ErrStopped if every wait ends now, else nil.
func (w *Waiter) Err() error {
	if w.board.Aborted() {
		return ErrAborted
	}
	if w.stop != nil && w.stop.value.Load() != 0 {
		return ErrStopped
	}
	return nil
}

// announceSleep writes on the rank's page on which word it sleeps. It returns where it
// wrote that, nil if there is no place.
func (w *Waiter) announceSleep(word *Word) *atomic.Uint64 {
	offset := uintptr(unsafe.Pointer(word)) - uintptr(unsafe.Pointer(&w.board.data[0]))
	if w.page == nil || offset >= uintptr(len(w.board.data)) {
		return nil
	}
	for i := range w.page.sleeping {
		if w.page.sleeping[i].CompareAndSwap(0, uint64(offset)) {
			return &w.page.sleeping[i]
		}
	}
	return nil
}

// wakeAll wakes every rank that says where it sleeps, and returns how many there are.
func (b *Board) wakeAll() int {
	n := 0
	for local := range b.ranks {
		p := b.page(local)
		for i := range p.sleeping {
			offset := p.sleeping[i].Load()
			if offset == 0 || offset%WordSize != 0 || offset > uint64(len(b.data)-WordSize) {
				continue
			}
			n++
			wake((*atomic.Uint32)(unsafe.Pointer(&b.data[offset])))
		}
	}
	return n
}

const (
	wakeTimes = 5
	wakePause = 100 * time.Microsecond
)

// wakeSleepers wakes every rank. A rank that announced its sleep, but did not sleep yet,
// misses the first time; a rank that is stopped or dead never leaves.
func (b *Board) wakeSleepers() {
	for range wakeTimes {
		if b.wakeAll() == 0 {
			return
		}
		time.Sleep(wakePause)
	}
}

// Stop sets a stop word and wakes every sleeping rank of the node, so that the waiters
// that have this word return.
func (b *Board) Stop(stop *Word) {
	stop.value.Store(1)
	b.wakeSleepers()
}

// spinner decides how long a waiter spins before it sleeps. A rank that has CPUs of its
// own spins long. Another begins without, tries now and then, and goes on while it helps.
type spinner struct {
	fixed  bool
	budget int
	waits  int
}

const (
	probeEvery = 128 // waits between two tries
	probeSpin  = 500
)

func (s *spinner) limit() int {
	if s.fixed {
		return longSpin
	}
	s.waits++
	if s.waits%probeEvery == 0 {
		return max(s.budget, probeSpin)
	}
	return s.budget
}

// succeeded learns from a wait that ended after n pauses.
func (s *spinner) succeeded(n int) {
	if !s.fixed {
		s.budget = min(longSpin, max(s.budget, 4*n))
	}
}

// failed learns from a wait that n pauses did not end.
func (s *spinner) failed(n int) {
	if !s.fixed && n > 0 {
		s.budget /= 4
	}
}
