package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/device"
)

// The pauses before follow starts a child process again that ended. After a child
// that lived for at least lastPause, the next pause is firstPause again.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// follow passes on the errors of the node's GPUs until ctx ends. It starts the
// child of listen again when the child ends, and says so once. It returns early,
// and says why, if the driver has no events.
func follow(ctx context.Context, listen func(ctx context.Context, got func(device.Event)) error, got func(device.Event), say func(string)) {
	pause, said := firstPause, false
	for {
		start := time.Now()
		err := listen(ctx, func(e device.Event) {
			if e.Kind != device.Watching && e.Kind != device.Heartbeat {
				got(e)
			}
		})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, device.ErrNoEvents) {
			say(fmt.Sprintf("errors of the GPUs cannot be watched: %v", err))
			return
		}
		if time.Since(start) >= lastPause {
			pause = firstPause
		}
		if !said {
			said = true
			say(fmt.Sprintf("errors of the GPUs are not watched while the probe is started again: %v", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}
