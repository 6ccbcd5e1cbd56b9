package launch

import (
	"context"
	"errors"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/gpuwatch"
)

// releaser waits, after the workers of a round have ended, until their GPUs are
// free: a next round would fail with "out of memory". nil: nothing is waited for.
func (a *agent) releaser(p *plan) func(ctx context.Context, pids []int) {
	d := a.devices
	owned := d.owned()
	if len(owned) == 0 || d.want.Release == 0 || !d.usesGPUs() {
		return nil
	}
	return func(ctx context.Context, pids []int) {
		a.events.Put(endedEvent{})
		err := gpuwatch.WaitReleased(ctx, gpuwatch.Release{
			GPUs: d.all, UUIDs: owned, PIDs: pids, World: p.identity(), Before: d.survey.Held, Procs: procs(), Within: d.want.Release,
			Held: func(ctx context.Context) ([]device.Held, error) { return device.Holding(ctx, d.child) },
			Say:  a.note,
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			a.note(err.Error())
		}
	}
}
