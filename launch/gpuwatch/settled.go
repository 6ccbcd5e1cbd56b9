package gpuwatch

import (
	"context"
	"time"
)

const (
	settledPoll    = 5 * time.Second
	settledTimeout = 5 * time.Second
	// settleLimit ends the wait for workers that never connect to the store, or that
	// never stop using it. It is torch's own limit for the wait at the store.
	settleLimit = 30 * time.Minute
)

// waitForSettled waits until the round's workers, on all nodes, have set up their
// first collective, as far as a process outside can know. It waits at most half an
// hour. It reports whether ctx has not ended.
func waitForSettled(ctx context.Context, settled func(ctx context.Context) (bool, error)) bool {
	for limit := time.Now().Add(settleLimit); time.Now().Before(limit); {
		ask, cancel := context.WithTimeout(ctx, settledTimeout)
		ok, _ := settled(ask) // the store's node may be busy, or its gorun may be older
		cancel()
		if ok {
			break
		}
		if !pause(ctx, settledPoll) {
			return false
		}
	}
	return ctx.Err() == nil
}
