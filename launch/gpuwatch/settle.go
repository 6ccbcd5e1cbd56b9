package gpuwatch

import (
	"context"
	"time"
)

const (
	settleEvery = 5 * time.Second
	askTimeout  = 5 * time.Second
	// settleLimit ends the wait for workers that do not meet at the store, or never
	// leave it alone. It is torch's own limit for the wait there.
	settleLimit = 30 * time.Minute
)

// waitSettled waits until the round's workers, on all nodes, have set up their first
// collective as far as anybody outside can know, or for half an hour. It reports
// whether ctx still goes on.
func waitSettled(ctx context.Context, settled func(ctx context.Context) (bool, error)) bool {
	for limit := time.Now().Add(settleLimit); time.Now().Before(limit); {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		ok, _ := settled(ask) // the store's node may be busy, or its gorun may not know the question
		cancel()
		if ok {
			break
		}
		if !pause(ctx, settleEvery) {
			return false
		}
	}
	return ctx.Err() == nil
}
