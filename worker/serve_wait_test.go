package worker

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
)

// TestCloseEndsTheWaitForTheStore checks that a rank that waits for rank 0's store can fail
// and close meanwhile, and that calls that wait, for the store or for another's turn, then
// return.
func TestCloseEndsTheWaitForTheStore(t *testing.T) {
	const soon = 10 * time.Second // the wait for the store lasts a minute
	addr := "127.0.0.1:" + strconv.Itoa(porttest.Free(t, "127.0.0.1"))
	w, err := Start(t.Context(), Settings{Rank: 1, Size: 2, Store: addr, OwnStore: true, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 4)
	for range 2 {
		go func() { _, err := w.Comm(t.Context()); results <- err }()
		go func() { _, err := w.Store(t.Context()); results <- err }()
	}
	for !w.gate.Occupied() { // somebody waits for the store
		time.Sleep(time.Millisecond) // sleep: between two looks
	}
	began := time.Now()
	_ = w.Fail(errors.New("no data"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Comm(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for range cap(results) {
		if err := <-results; !errors.Is(err, ErrClosed) {
			t.Errorf("a call that waited: %v", err)
		}
	}
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
	if _, err := w.Comm(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}
