package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/pin"
	"github.com/gorun/gorun/launch/spec"
)

// devices finds out, once, which GPUs and CPUs the workers of this node get. What
// it found may be read when ready is closed.
type devices struct {
	want  spec.Devices
	env   []string
	child device.Child
	root  fs.FS    // with /proc and /sys
	there bool     // the node has a driver, and nobody hid all GPUs
	full  bool     // the preflight wants to know everything about them
	alike int      // agents of this machine that start as many workers each
	node  pin.Node // without Visible, until they were seen

	seen   bool // node.Visible and all are known
	all    []device.GPU
	survey device.Survey // only with full
	plan   pin.Plan
	slots  []slot        // by local rank
	notes  []string      // that every agent of the machine has alike
	own    []string      // about this agent's workers
	err    error         // of the command line: these workers cannot be placed here
	ready  chan struct{} // closed
}

func (a *agent) newDevices() *devices {
	sp := &a.opts.Spec
	d := &devices{
		want: sp.Devices, env: a.opts.Env, child: a.probeChild(), root: os.DirFS("/"), ready: make(chan struct{}),
		there: device.Present("") && !hidden(a.opts.Env), alike: max(1, sp.LocalNodes),
		node: pin.Node{Name: a.node.Host},
	}
	if list, ok := findEnv(a.opts.Env, "CUDA_VISIBLE_DEVICES"); ok {
		d.node.List = &list
		if hidden(a.opts.Env) && device.Given("") {
			d.node.Blind = fmt.Sprintf("CUDA_VISIBLE_DEVICES=%s hides all", list)
		}
	}
	return d
}

// probeChild asks the GPU driver, which may hang or crash, in a process of its own.
func (a *agent) probeChild() device.Child {
	return device.Child{Run: a.table.Run, Stream: a.table.Stream, Path: a.opts.Self, Argv: a.opts.Probe, Env: a.opts.Env}
}

// countWorkers settles --nproc-per-node. Agents of --local-nodes divide the GPUs.
func (a *agent) countWorkers(ctx context.Context) (int, error) {
	n, d := a.opts.Spec.Nproc, a.devices
	if n.Count > 0 {
		return n.Count, nil
	}
	if n.Of != "cpu" && d.there {
		gpus, err := await(ctx, a, asking, func(ctx context.Context) ([]device.GPU, error) {
			return device.List(ctx, d.child)
		})
		if err != nil {
			return 0, fmt.Errorf("--nproc-per-node %s: %w", n.Of, err)
		}
		d.see(gpus)
		a.sayNotes()
	}
	if carried := d.want.Pin.Carried(len(d.node.Visible)) / d.alike; n.Of != "cpu" && len(d.node.Visible) > 0 {
		if carried == 0 {
			return 0, fmt.Errorf("cannot use --nproc-per-node %s: %d GPUs are too few for one worker on each of %d nodes of this machine with %d GPUs each", n.Of, len(d.node.Visible), d.alike, max(1, d.want.Pin.PerWorker))
		}
		return carried, nil
	}
	return device.Workers(n.Of, nil)
}

// see takes the GPUs of the node and finds those that the workers may use.
func (d *devices) see(all []device.GPU) {
	d.all, d.seen = all, true
	s := device.See(all, device.ReadGrants(d.env))
	d.node.Visible, d.node.Blind, d.node.Withheld, d.node.Doubt = s.Visible, s.Blind, s.Withheld, s.Doubt
	d.notes = append(d.notes, s.Notes...)
	if len(all) == 0 && device.Given("") {
		d.node.Blind = "its driver shows this process none, as in a job or a container that was given none"
	}
}

// sayNotes tells the user what was found, once: the agents of --local-nodes share
// a terminal, and what concerns the machine is for the first to say.
func (a *agent) sayNotes() {
	d := a.devices
	if !a.opts.quiet() {
		for _, note := range d.notes {
			a.console.say("%s", note)
		}
	}
	for _, note := range d.own {
		a.console.say("%s", note)
	}
	d.notes, d.own = nil, nil
}

// placeWorkers finds out what the workers get: beside everything else if a driver
// is asked, which may take long.
func (a *agent) placeWorkers(ctx context.Context) {
	d := a.devices
	d.full = d.there && a.opts.Spec.Preflight != spec.PreflightOff
	d.node.Workers = a.node.Workers
	if a.opts.Local != nil {
		d.node.Skip = a.opts.Local.Index * d.node.Workers
	}
	find := func() {
		d.find(ctx)
		close(d.ready)
		a.events.Put(placedEvent{})
	}
	if !d.there {
		find()
		return
	}
	a.wg.Go(find)
	if a.opts.Spec.MaxNodes > 1 {
		a.wg.Go(func() { a.sayWhile(ctx, d.ready, asking) })
	}
}

// asking is what takes its time.
const asking = "asking the driver for the GPUs of this node"

// placed waits for that on a node that is alone, whose user is told at once. Of
// several each learns it when they have met.
func (a *agent) placed(ctx context.Context) error {
	d := a.devices
	if a.opts.Spec.MaxNodes > 1 {
		return nil
	}
	var err error
	select {
	case <-d.ready:
		err = d.err
	default:
		_, err = await(ctx, a, asking, func(ctx context.Context) (struct{}, error) { return struct{}{}, d.wait(ctx) })
	}
	if _, ended := errors.AsType[*stopped](err); ended || err == nil {
		return err
	}
	return &UsageError{Err: err}
}

// wait returns the error of the command line.
func (d *devices) wait(ctx context.Context) error {
	select {
	case <-d.ready:
		return d.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sayWhile says now and then what is waited for.
func (a *agent) sayWhile(ctx context.Context, done <-chan struct{}, what string) {
	tick, began := time.NewTicker(looks), time.Now()
	pace := term.NewPace(began)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			if !pace.Due(time.Now()) {
				continue
			}
			a.events.Put(noteEvent{fmt.Sprintf("still %s (%v)", what, time.Since(began).Round(time.Second))})
		}
	}
}

// find is the work of it: it asks the driver, if anything depends on that, and
// plans. Nothing of it runs in the agent's loop.
func (d *devices) find(ctx context.Context) {
	var err error
	if d.full {
		d.survey = device.Look(ctx, d.child)
	}
	needed := d.full || d.want.Pin.Mode != pin.None || d.want.Binding != ""
	if d.there && needed && !d.seen {
		var all []device.GPU
		if d.full {
			all, err = d.survey.List(ctx, d.child)
		} else {
			all, err = device.List(ctx, d.child)
		}
		switch {
		case err == nil:
			d.see(all)
		case !device.Given(""): // a container without GPUs, which sees the driver in /proc
			d.see(nil)
		case d.want.Pin.Strict() || d.want.Binding != "":
			d.err = err
			return
		default:
			d.notes = append(d.notes, fmt.Sprintf("no worker gets a GPU of its own, and CUDA_VISIBLE_DEVICES stays as it is: %v", err))
		}
	}
	if d.plan, d.err = pin.Make(d.node, d.want.Pin); d.err != nil {
		return
	}
	d.notes = append(d.notes, d.plan.Notes...)
	d.slots = make([]slot, d.node.Workers)
	for i, w := range d.plan.Workers {
		d.slots[i].take(w, d.plan.Mode != pin.None)
	}
	d.err = d.bind()
}

// owned is the UUIDs of all that this node's workers own.
func (d *devices) owned() (uuids []string) {
	for _, s := range d.slots {
		uuids = append(uuids, s.own...)
	}
	return uuids
}
