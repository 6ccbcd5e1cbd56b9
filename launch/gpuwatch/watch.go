package gpuwatch

import (
	"context"
	"fmt"
	"time"

	"github.com/gorun/gorun/launch/device"
)

// minInterval is the shortest time between two readings of the process list:
// each takes locks of the driver's that a running job needs too.
const minInterval = 30 * time.Second

// Config says what to watch.
type Config struct {
	GPUs  []device.GPU
	Ranks func() []Rank // as they are now; what the workers started is found
	World World
	// Held is device.Holding.
	Held  func(context.Context) ([]device.Held, error)
	Procs Procs
	Every time.Duration // at least 30 s
	Found func(Finding)
}

// Watch reads the process list now and then, until ctx ends. A list that cannot
// be read is told once; the next may be read again.
func Watch(ctx context.Context, c Config) {
	var j Judge
	failed, kin := false, newKin(c.Procs, c.World)
	tick := time.NewTicker(max(c.Every, minInterval))
	defer tick.Stop()
	for {
		held, err := c.Held(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			failed = true
			c.Found(Finding{Text: fmt.Sprintf("which worker runs on which GPU cannot be told: %v", err)})
		}
		if err == nil {
			ranks, strangers := kin.adopt(c.Ranks(), held)
			for _, f := range j.Judge(View{c.GPUs, ranks, held, strangers, c.Procs.Name, c.Procs.Machine()}) {
				c.Found(f)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
