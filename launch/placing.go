package launch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gorun/gorun/launch/check"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// placing finds out, once, what this node's workers get of it. The plan and the
// error may be read when done is closed.
type placing struct {
	config place.Config
	child  device.Child
	seen   place.Seen // when the workers were counted
	plan   place.Plan
	err    error // of the command line: these workers cannot be placed here
	done   chan struct{}
}

func (a *agent) newPlacing() *placing {
	sp := &a.opts.Spec
	_, set := findEnv(a.opts.Env, "OMP_NUM_THREADS")
	// The GPU driver may hang or crash, so it is asked in a process of its own.
	child := device.Child{Run: a.table.Run, Stream: a.table.Stream, Path: a.opts.Self, Argv: a.opts.Probe, Env: a.opts.Env}
	return &placing{
		config: place.Config{
			Options: sp.Devices.Place, Host: a.node.Host, Env: a.opts.Env, Agents: sp.LocalNodes,
			Threads: !set && !sp.Env.TorchrunOMP, Driver: child, Root: os.DirFS("/"),
		},
		child: child, done: make(chan struct{}),
	}
}

// countWorkers settles --nproc-per-node.
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

// sayPlaced tells the user what was found: the agents of --local-nodes share a
// terminal, and what concerns the machine is for the first to say.
func (b *base) sayPlaced(notes, warnings []string) {
	for _, note := range notes {
		b.console.Announce("%s", note)
	}
	for _, warning := range warnings {
		b.note(warning)
	}
}

// placeWorkers finds out what the workers get: beside everything else if a driver
// is asked, which may take long.
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

// asking is what takes its time.
const asking = "asking the driver for the GPUs of this node"

// placed waits for the plan on a node that is alone, whose user hears of an error
// at once. Several nodes learn it when they have met.
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

// wait returns the error of the command line.
func (p *placing) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// names waits for the plan and names the variables that a worker gets by its place
// on the node.
func (p *placing) names(ctx context.Context) (names []string) {
	_ = p.wait(ctx) // the user hears of its error elsewhere
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

// facts waits for the plan and gives what the preflight compares of the GPUs; the
// strings are what stays unknown.
func (p *placing) facts(ctx context.Context) (preflight.GPU, []string) {
	given := p.config.Driver.Given()
	switch {
	case !p.config.HasGPUs():
		return preflight.GPU{}, nil
	case !device.Linked:
		return preflight.GPU{Driver: given}, []string{"the GPUs: this gorun was built without cgo and cannot ask NVML"}
	}
	_ = p.wait(ctx) // the user hears of its error elsewhere
	if ctx.Err() != nil {
		return preflight.GPU{Driver: true}, nil // the caller says so
	}
	return check.GPU(&p.plan, p.config.Env, given), nil
}

// usesGPUs reports whether workers of this node may compute on GPUs that can be asked.
func (p *placing) usesGPUs() bool {
	seen := p.plan.Seen
	return p.config.HasGPUs() && device.Linked && (!seen.Known || len(seen.Sight.Visible) > 0)
}
