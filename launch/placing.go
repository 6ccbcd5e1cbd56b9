package launch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gorun/gorun/internal/environ"
	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// placing finds out once which part of the node each worker gets. The plan and the
// error may be read once done is closed.
type placing struct {
	config place.Config
	child  device.Child
	seen   place.Seen // what was seen when the workers were counted
	plan   place.Plan
	err    error // an error of the command line: these workers cannot be placed here
	done   chan struct{}
}

func (a *agent) newPlacing() *placing {
	sp := &a.opts.Spec
	_, set := environ.Lookup(a.opts.Env, "OMP_NUM_THREADS")
	// A child process asks the GPU driver, because the driver may hang or crash.
	child := device.Child{Run: a.table.Run, Stream: a.table.Stream, Path: a.opts.Self, Argv: a.opts.Probe, Env: a.opts.Env}
	return &placing{
		config: place.Config{
			Options: sp.Devices.Place, Host: a.node.Host, Env: a.opts.Env, Agents: sp.LocalNodes,
			Threads: !set && !sp.Env.TorchrunOMP, Driver: child, Root: os.DirFS("/"),
		},
		child: child, done: make(chan struct{}),
	}
}

// countWorkers returns the number of workers that --nproc-per-node asks for.
func (a *agent) countWorkers(ctx context.Context) (int, error) {
	n, p := a.opts.Spec.Nproc, a.placing
	if n.Count > 0 {
		return n.Count, nil
	}
	if n.Of != "cpu" && p.config.HasGPUs() {
		var err error
		if p.seen, err = await(ctx, a.base, asking, p.config.See); err != nil {
			return 0, fmt.Errorf("--nproc-per-node %s: %w", n.Of, err)
		}
		a.sayPlaced(p.seen.Sight.Notes, nil)
		p.seen.Sight.Notes = nil
	}
	return p.config.Count(n.Of, p.seen)
}

// sayPlaced prints what was found. The agents of --local-nodes share a terminal, so
// only the first of them announces what concerns the machine.
func (b *base) sayPlaced(notes, warnings []string) {
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
	p := a.placing
	w := place.Workers{Count: a.node.Workers, Facts: a.opts.Spec.Preflight != spec.PreflightOff}
	if a.opts.Local != nil {
		w.Skip = a.opts.Local.Index * w.Count
	}
	find := func() {
		p.plan, p.err = p.config.Plan(ctx, p.seen, w)
		close(p.done)
		a.events.Put(placedEvent{})
	}
	if !p.config.HasGPUs() {
		find()
		return
	}
	a.wg.Go(find)
	if a.opts.Spec.MaxNodes > 1 {
		a.wg.Go(func() {
			defer a.console.While(asking)()
			_ = p.wait(ctx)
		})
	}
}

// asking names what takes long.
const asking = "asking the driver for the GPUs of this node"

// placed waits for the plan on a node that is alone, so that its user sees an error
// at once. Several nodes learn of the error after they have met.
func (a *agent) placed(ctx context.Context) error {
	p := a.placing
	if a.opts.Spec.MaxNodes > 1 {
		return nil
	}
	var err error
	select {
	case <-p.done:
		err = p.err
	default:
		_, err = await(ctx, a.base, asking, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.wait(ctx) })
	}
	if _, ended := errors.AsType[*stopped](err); ended || err == nil {
		return err
	}
	return &UsageError{Err: err}
}

// wait waits for the plan. It returns the error of the command line or of the
// context.
func (p *placing) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// names waits for the plan. It returns the variables that a worker gets by its
// place on the node.
func (p *placing) names(ctx context.Context) (names []string) {
	_ = p.wait(ctx) // its error is printed elsewhere
	if ctx.Err() != nil {
		return nil
	}
	for _, name := range place.Names() {
		if p.plan.Sets(name) {
			names = append(names, name)
		}
	}
	return names
}

// facts waits for the plan. It returns what the preflight compares of the GPUs, and
// texts that say what stays unknown.
func (p *placing) facts(ctx context.Context) (preflight.GPU, []string) {
	given := p.config.Driver.HasDeviceFile()
	switch {
	case !p.config.HasGPUs():
		return preflight.GPU{}, nil
	case !device.Linked:
		return preflight.GPU{Driver: given}, []string{"the GPUs: this gorun was built without cgo and cannot ask NVML"}
	}
	_ = p.wait(ctx) // its error is printed elsewhere
	if ctx.Err() != nil {
		return preflight.GPU{Driver: true}, nil // the caller reports it
	}
	return check.GPU(&p.plan, p.config.Env, given), nil
}

// usesGPUs reports whether workers of this node may compute on GPUs that gorun can
// ask about.
func (p *placing) usesGPUs() bool {
	seen := p.plan.Seen
	return p.config.HasGPUs() && device.Linked && (!seen.Known || len(seen.Sight.Visible) > 0)
}
