package launch

import (
	"context"
	"errors"
	"os"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/spec"
)

// askingDriver names the step in the lines about a wait.
const askingDriver = "asking the driver for the GPUs of this node"

// newDriver returns the GPU driver. A child process calls it, because it may hang
// or crash.
func (a *agent) newDriver() device.Child {
	c := device.Child{Run: a.table.Run, Stream: a.table.Stream, Path: a.opts.Self, Argv: a.opts.Probe, Env: a.opts.Env}
	if a.opts.Local != nil {
		c.Exchange = a.opts.Local.Survey
	}
	return c
}

func (a *agent) newPlacement() *place.Placement {
	sp := &a.opts.Spec
	_, set := environ.Lookup(a.opts.Env, "OMP_NUM_THREADS")
	return place.NewPlacement(place.Config{
		Options: sp.Devices.Place, Host: a.node.Host, Env: a.opts.Env, Agents: sp.LocalNodes,
		Threads: !set && sp.Env.OMPCores, Driver: a.workers.driver, Root: os.DirFS("/"),
	})
}

// surveyGPUs starts the look at the GPUs that the preflight needs. It takes longer than
// everything else before a single node starts its workers.
func (a *agent) surveyGPUs(ctx context.Context) {
	if a.opts.Spec.Preflight != spec.PreflightOff {
		a.placement.StartSurvey(ctx, &a.wg)
	}
}

// countWorkers returns the number of workers that --nproc-per-node asks for.
func (a *agent) countWorkers(ctx context.Context) (int, error) {
	n := a.opts.Spec.Nproc
	if n.Count > 0 {
		return n.Count, nil
	}
	notes, err := await(ctx, a.base, askingDriver, func(ctx context.Context) ([]string, error) { return a.placement.AskDriver(ctx, n.Of) })
	if err != nil {
		return 0, err
	}
	a.printPlacementNotes(notes, nil)
	return a.placement.Count(n.Of)
}

// printPlacementNotes prints what was found. The agents of --local-nodes share a terminal, so
// only the first of them announces what concerns the machine.
func (b *base) printPlacementNotes(notes, warnings []string) {
	for _, note := range notes {
		b.console.Announce("%s", note)
	}
	for _, warning := range warnings {
		b.note(warning)
	}
}

// placeWorkers finds out what the workers get. It does so beside everything else if
// it has to ask a driver, because that may take long.
func (a *agent) placeWorkers(ctx context.Context) {
	w := place.Workers{Count: a.node.Workers, Facts: a.opts.Spec.Preflight != spec.PreflightOff}
	if a.opts.Local != nil {
		w.Skip = a.opts.Local.Index * w.Count
	}
	find := func() {
		a.placement.Make(ctx, w)
		a.events.Put(workersPlaced{})
	}
	if !a.placement.HasGPUs() {
		find()
		return
	}
	a.wg.Go(find)
	if a.opts.Spec.MaxNodes > 1 {
		a.wg.Go(func() {
			defer a.console.While(askingDriver)()
			_ = a.placement.Wait(ctx)
		})
	}
}

// waitForPlacement waits for the plan on a node that is alone, so that its user
// sees an error at once. Several nodes print the error after all have joined.
func (a *agent) waitForPlacement(ctx context.Context) error {
	if a.opts.Spec.MaxNodes > 1 {
		return nil
	}
	if a.placement.IsDone() {
		if err := a.placement.Err(); err != nil {
			return &UsageError{Err: err}
		}
		return nil
	}
	_, err := await(ctx, a.base, askingDriver, func(ctx context.Context) (struct{}, error) { return struct{}{}, a.placement.Wait(ctx) })
	if _, ended := errors.AsType[*stopped](err); ended || err == nil {
		return err
	}
	return &UsageError{Err: err}
}
