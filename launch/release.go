package launch

import (
	"context"
	"errors"

	"github.com/gorun/gorun/launch/gpuwatch"
)

// releaser waits, after the workers of a round have ended, until their GPUs are
// free: a next round would fail with "out of memory". nil: nothing is waited for.
func (a *agent) releaser(p *plan) func(ctx context.Context, pids []int) {
	d, within := a.placing, a.opts.Spec.Devices.Release
	owned := d.plan.Owned()
	if len(owned) == 0 || within == 0 || !d.usesGPUs() {
		return nil
	}
	return func(ctx context.Context, pids []int) {
		a.events.Put(endedEvent{})
		err := gpuwatch.WaitReleased(ctx, gpuwatch.Release{
			GPUs: d.plan.Seen.All, UUIDs: owned, PIDs: pids, World: p.identity(), Before: d.plan.Seen.Survey.Held, Procs: procs(), Within: within,
			Held: d.child.Holding, Say: a.note,
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			a.note(err.Error())
		}
	}
}
