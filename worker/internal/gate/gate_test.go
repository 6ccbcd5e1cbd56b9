package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestGate checks that one goroutine at a time is inside, and that whoever waits or works
// ends with its context and when the gate is shut.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errShut := errors.New("shut")
		g := New(t.Context())
		first, leave, err := g.Enter(t.Context())
		if err != nil || !g.Occupied() {
			t.Fatalf("%v, occupied %v", err, g.Occupied())
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := g.Enter(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second one: %v", err)
		}
		waited := make(chan error)
		go func() { _, _, err := g.Enter(t.Context()); waited <- err }()
		synctest.Wait()
		go g.Shut(errShut)
		if err := <-waited; err != errShut {
			t.Errorf("one that waits: %v", err)
		}
		<-first.Done()
		if err := context.Cause(first); err != errShut {
			t.Errorf("the one inside: %v", err)
		}
		leave()
		synctest.Wait()
		if _, _, err := g.Enter(t.Context()); err != errShut || g.Err() != errShut || g.Occupied() {
			t.Errorf("after the end: %v, %v, occupied %v", err, g.Err(), g.Occupied())
		}
		g.Shut(errors.New("again"))
		if g.Err() != errShut {
			t.Errorf("shut again: %v", g.Err())
		}
	})
}
