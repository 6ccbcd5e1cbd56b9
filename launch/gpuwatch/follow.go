package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/device"
)

// minPause and maxPause bound the pause before followEvents starts a child process
// again. After a child that ran for at least maxPause, the next pause is minPause.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// followEvents passes the errors of the node's GPUs to handle until ctx ends. When the
// child of listen ends it starts the child again, and prints that once. It returns
// early, and prints why, if the driver has no events.
func followEvents(ctx context.Context, listen func(ctx context.Context, handle func(device.Event)) error, handle func(device.Event), report func(string)) {
	pause, reported := minPause, false
	for {
		start := time.Now()
		err := listen(ctx, func(e device.Event) {
			if e.Kind != device.Watching && e.Kind != device.Heartbeat {
				handle(e)
			}
		})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, device.ErrNoEvents) {
			report(fmt.Sprintf("gorun cannot watch the GPUs for errors: %v", err))
			return
		}
		if time.Since(start) >= maxPause {
			pause = minPause
		}
		if !reported {
			reported = true
			report(fmt.Sprintf("gorun does not see errors of the GPUs until it has started the probe again: %v", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}
