package place

import (
	"context"
	"fmt"
	"sync"

	"github.com/gorun/gorun/launch/device"
)

// Placement makes the plan of a node's workers once. The driver may take long to
// answer, so everything else goes on until the plan is needed.
type Placement struct {
	Config
	inventory Inventory // the answer to AskDriver
	plan      Plan
	err       error
	done      chan struct{} // closed when plan and err are known
}

// NewPlacement returns a placement that Make completes.
func NewPlacement(c Config) *Placement { return &Placement{Config: c, done: make(chan struct{})} }

// StartSurvey asks the driver for everything that the preflight compares, beside the
// caller. Make waits for the answer.
func (p *Placement) StartSurvey(ctx context.Context, wait *sync.WaitGroup) {
	if !p.HasGPUs() {
		return
	}
	driver, answer := p.Driver, make(chan device.Survey, 1)
	wait.Go(func() { driver.Survey(ctx, func(s device.Survey) { answer <- s }) })
	p.Driver = surveyed{driver, answer}
}

// surveyed is a driver whose survey has been started. Its Survey may be called once.
type surveyed struct {
	Driver
	answer <-chan device.Survey
}

// Survey waits for the answer.
func (s surveyed) Survey(ctx context.Context, use func(device.Survey)) {
	select {
	case answer := <-s.answer:
		use(answer)
	case <-ctx.Done():
		err := context.Cause(ctx)
		use(device.Survey{Driver: true, Err: err, UsableErr: err})
	}
}

// AskDriver asks the driver for what Count needs. It returns notes for the user.
func (p *Placement) AskDriver(ctx context.Context, of string) (notes []string, err error) {
	if of == "cpu" || !p.HasGPUs() {
		return nil, nil
	}
	gpus, err := p.Driver.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("--nproc-per-node %s: %w", of, err)
	}
	found := p.Config.inventory(gpus)
	notes, found.Visibility.Notes = found.Visibility.Notes, nil
	p.inventory = found
	return notes, nil
}

// Count returns the number of workers for --nproc-per-node auto, gpu or cpu, after
// AskDriver. The agents of one machine divide its GPUs.
func (p *Placement) Count(of string) (int, error) {
	gpus, agents := len(p.inventory.Visibility.Visible), max(1, p.Agents)
	if of == "cpu" || gpus == 0 {
		return device.Workers(of, nil)
	}
	n := p.Options.WorkersFor(gpus) / agents
	if n == 0 {
		return 0, fmt.Errorf("cannot use --nproc-per-node %s: %d GPUs are too few for one worker on each of %d nodes of this machine with %d GPUs each", of, gpus, agents, p.Options.perWorker())
	}
	return n, nil
}

// Make makes the plan. Only one call is allowed.
func (p *Placement) Make(ctx context.Context, w Workers) {
	p.plan, p.err = p.makePlan(ctx, p.inventory, w)
	close(p.done)
}

// IsDone reports whether Make has returned.
func (p *Placement) IsDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits for Make. It returns the error of the command line or of the context.
func (p *Placement) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Plan returns the plan once Make has returned.
func (p *Placement) Plan() *Plan { return &p.plan }

// Err returns the error of Make: these workers cannot be placed on this node.
func (p *Placement) Err() error { return p.err }

// VariableNames waits for the plan. It returns the variables that a worker gets by
// its place on the node.
func (p *Placement) VariableNames(ctx context.Context) (names []string) {
	_ = p.Wait(ctx) // the agent prints its error
	if ctx.Err() != nil {
		return nil
	}
	for _, name := range Names() {
		if p.plan.Sets(name) {
			names = append(names, name)
		}
	}
	return names
}

// UsesGPUs reports whether workers of the plan may compute on GPUs that gorun can
// ask about.
func (p *Placement) UsesGPUs() bool {
	found := p.plan.Inventory
	return p.HasGPUs() && device.Linked && (!found.Known || len(found.Visibility.Visible) > 0)
}
