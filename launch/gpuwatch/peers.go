package gpuwatch

import (
	"context"
	"time"
)

const (
	peersEvery = 5 * time.Second
	askTimeout = 5 * time.Second
	// peersLimit ends the wait for workers that do not meet at the store, or never
	// leave it alone. It is torch's own limit for the wait there.
	peersLimit = 30 * time.Minute
)

// WaitForPeers waits until the round's workers, on all nodes, have set up their
// first collective as far as anybody outside can know: the store, which every
// node asks, says that all have come and have not used it for a minute. It gives
// up waiting after half an hour. It reports whether ctx still goes on.
func WaitForPeers(ctx context.Context, store string, settled func(ctx context.Context, addr string) (bool, error)) bool {
	for limit := time.Now().Add(peersLimit); time.Now().Before(limit); {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		// The store's node may be busy, or its gorun may not know the question.
		ok, _ := settled(ask, store)
		cancel()
		if ok {
			break
		}
		if !Pause(ctx, peersEvery) {
			return false
		}
	}
	return ctx.Err() == nil
}

// Pause waits and reports whether ctx still goes on.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
