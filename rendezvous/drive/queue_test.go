package drive

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/rendezvous"
)

func TestQueueKeepsTheOrder(t *testing.T) {
	q := NewQueue[[2]int]()
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				q.Put([2]int{w, i})
			}
		})
	}
	var next [writers]int
	for n := 0; n < writers*each; {
		select {
		case <-q.ready:
		case <-time.After(20 * time.Second):
			t.Fatalf("no further event after %d", n)
		}
		for _, p := range q.TakeAll() {
			if p[1] != next[p[0]] {
				t.Fatalf("%v came, %d is next", p, next[p[0]])
			}
			next[p[0]]++
			n++
		}
	}
	wg.Wait()
	if got := q.TakeAll(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// TestTicks checks that the machine's deadlines are kept, whatever comes in between,
// and that there are none when it has ended.
func TestTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, q := newSearchingMachine(time.Hour), NewQueue[any]()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		const every, stop = 700 * time.Millisecond, 10
		for i := range stop {
			time.AfterFunc(time.Duration(i)*every, func() { q.Put(i) })
		}
		time.AfterFunc(stop*every, func() { q.Put(rendezvous.StopJob{Cause: rendezvous.Cause{Kind: rendezvous.KindStopped}}) })

		var ended time.Duration
		ticks, others := 0, 0
		next := m.Next()
		for e := range Events(ctx, m, q) {
			switch e := e.(type) {
			case int:
				if got := time.Since(began); e != others || got != time.Duration(e)*every {
					t.Errorf("event %d after %v, %d is next", e, got, others)
				}
				others++
				continue
			case rendezvous.Tick:
				if now := time.Now(); next.IsZero() || !now.Equal(next) {
					t.Fatalf("a tick at %v, wanted at %v", now, next)
				}
				ticks++
			}
			for c := range m.Step(ctx, e.(rendezvous.Event)) {
				if _, ok := c.(rendezvous.Finish); ok {
					ended = time.Since(began)
				}
			}
			next = m.Next()
		}
		if ended != stop*every || ticks == 0 || others != stop {
			t.Errorf("it ended after %v, %d ticks and %d other events", ended, ticks, others)
		}
		if got := time.Since(began); got != 24*time.Hour {
			t.Errorf("the events ended after %v", got)
		}
	})
}

// TestEventsEnd checks that the events that were taken when the context ends are
// still yielded.
func TestEventsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q := NewQueue[any]()
	for i := range 3 {
		q.Put(i)
	}
	var got []any
	for e := range Events(ctx, newSearchingMachine(time.Hour), q) {
		got = append(got, e)
		cancel()
	}
	if want := []any{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
