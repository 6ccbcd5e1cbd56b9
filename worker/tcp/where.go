package tcp

import (
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

// answerTime bounds how long a rank waits for the others to say where they are.
const answerTime = 100 * time.Millisecond

// where knows which call this rank is in, and asks the others.
type where struct {
	m *Mesh

	mu      sync.Mutex
	last    map[uint64]place // by communicator
	ask     *inquiry         // nil: no inquiry is under way
	sources []*Source        // of other answers
}

// Source answers for numbers of communicators whose calls no Comm is told: it returns the last
// call, false for numbers that it does not know.
type Source func(comm uint64) (collective.Call, bool)

// Answer lets s answer what other ranks ask, until stop.
func (m *Mesh) Answer(s Source) (stop func()) {
	w := &m.where
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, &s)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sources = slices.DeleteFunc(w.sources, func(other *Source) bool { return other == &s })
	}
}

// place is the last collective of a communicator.
type place struct {
	call   collective.Call
	inside bool
}

// inquiry collects answers.
type inquiry struct {
	answers map[int]place // by rank of the world
	missing int
	done    chan struct{} // closed when nothing is missing
}

// note keeps the last collective of this rank.
func (w *where) note(call *collective.Call, inside bool) {
	w.mu.Lock()
	w.last[call.Comm] = place{*call, inside}
	w.mu.Unlock()
}

// forget drops the last collective of a communicator.
func (w *where) forget(comm uint64) {
	w.mu.Lock()
	delete(w.last, comm)
	w.mu.Unlock()
}

// answer tells a peer where this rank is in the communicator that it asks about.
func (w *where) answer(l *lane, h header) {
	w.mu.Lock()
	p, ok := w.last[h.call.Comm]
	sources := slices.Clone(w.sources)
	w.mu.Unlock()
	for i := 0; i < len(sources) && !ok; i++ {
		var call collective.Call
		if call, ok = (*sources[i])(h.call.Comm); ok {
			p.call = call
		}
	}
	p.call.Step = 0
	if p.inside {
		p.call.Step = 1
	}
	l.send(header{frame: frameHere, call: p.call}, nil, nil)
}

// answered takes the answer of a peer.
func (w *where) answered(peer int, h header) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ask == nil {
		return
	}
	if _, twice := w.ask.answers[peer]; twice {
		return
	}
	p := place{h.call, h.call.Step == 1}
	p.call.Step = 0
	w.ask.answers[peer] = p
	if w.ask.missing--; w.ask.missing == 0 {
		close(w.ask.done)
	}
}

// others asks ranks of the world where they are in the communicator of call.
func (w *where) others(call *collective.Call, ranks []int) map[int]place {
	if len(ranks) == 0 {
		return nil
	}
	w.mu.Lock()
	if w.ask != nil { // another call asks already
		w.mu.Unlock()
		return nil
	}
	q := &inquiry{answers: map[int]place{}, missing: len(ranks), done: make(chan struct{})}
	w.ask = q
	w.mu.Unlock()
	for _, r := range ranks {
		id := laneID{rank: r}
		h := header{frame: frameWhere, call: collective.Call{Comm: call.Comm}}
		if l, err := w.m.ready(id); l != nil && err == nil {
			l.send(h, nil, nil)
			continue
		}
		w.m.wg.Go(func() {
			if l, err := w.m.lane(w.m.life, id); err == nil {
				l.send(h, nil, nil)
			}
		})
	}
	limit := time.NewTimer(answerTime)
	defer limit.Stop()
	select {
	case <-q.done:
	case <-limit.C:
	case <-w.m.life.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ask = nil
	return q.answers
}
