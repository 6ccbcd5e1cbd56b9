package launch

import (
	"context"
	"net"
	"time"

	"github.com/gorun/gorun/launch/gpuwatch"
)

const (
	metEvery   = 5 * time.Second
	askTimeout = 5 * time.Second
	// metLimit ends the wait for workers that do not meet at the store, or never
	// leave it alone. It is torch's own limit for who waits for others there.
	metLimit = 30 * time.Minute
)

// met waits until the round's workers, on all nodes, have set up their first
// collective as far as anybody outside can know: the store, which every node
// asks, says that all have come and have not used it for a minute. It gives up
// waiting after half an hour. It reports whether ctx still goes on.
func (w *workers) met(ctx context.Context, settled func(ctx context.Context, addr string) (bool, error)) bool {
	for limit := time.Now().Add(metLimit); time.Now().Before(limit); {
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		// Who serves it may be busy, or a gorun that does not know the question.
		ok, _ := settled(ask, w.world.Store)
		cancel()
		if ok {
			break
		}
		if !pause(ctx, metEvery) {
			return false
		}
	}
	return ctx.Err() == nil
}

// kin is by what this round's workers are known, wherever they run.
func (w *workers) kin() gpuwatch.World {
	host, port, _ := net.SplitHostPort(w.world.Store)
	return gpuwatch.World{Token: w.world.Token, RunID: w.cfg.runID, Addr: host, Port: port}
}
