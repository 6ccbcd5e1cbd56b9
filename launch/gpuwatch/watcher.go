package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/rendezvous/preflight"
)

const (
	// followAfter is when the driver's events are asked for: the first workers still
	// load their libraries, and a job that is over by then is not worth it.
	followAfter = 2 * time.Second
	// watchAfter is when the process list is first read, unless the workers have not
	// set up their first collective, for which the driver's locks are needed.
	watchAfter = 30 * time.Second
	// interval is the time between two readings of the process list: each takes locks
	// of the driver's that a running job needs too.
	interval = 30 * time.Second
)

// Driver asks the GPU driver of this node in a process of its own: device.Child.
type Driver interface {
	List(ctx context.Context) ([]device.GPU, error)
	Holding(ctx context.Context) ([]device.Held, error)
	Listen(ctx context.Context, got func(device.Event)) error
}

// Options is what a Watcher is given.
type Options struct {
	Driver Driver
	Procs  Procs
	Known  bool          // GPUs are known; else the driver is asked
	GPUs   []device.GPU  // all of the node
	Owned  []string      // UUIDs of the workers' GPUs; none: nothing is planned
	Before []device.Held // the processes that held a GPU before the job
	// Abort: a critical error ends the round (--on-gpu-error). Given: without a plan
	// it does so too, as the user gave the GPUs to the workers (--pin=none).
	Abort, Given bool
	Within       time.Duration // how long WaitReleased waits; 0: not at all

	Wait  *sync.WaitGroup // of the Watcher's goroutines, which call Found and Say
	Found func(preflight.Finding)
	Say   func(string)
}

// Round is what the Watcher knows of the workers of a round.
type Round struct {
	World World
	Ranks func() []Rank // as they are now; what the workers started is found
	// Settled reports whether the workers, on all nodes, have set up their first
	// collective.
	Settled func(ctx context.Context) (bool, error)
	// Fail ends the round because of a GPU of a rank; -1: it is no rank's own. It
	// reports false where the round is being stopped already.
	Fail func(rank int, message string) bool
}

// Watcher looks after the GPUs of a node's workers, from round to round.
type Watcher struct {
	opts Options

	mu     sync.Mutex
	round  *Round             // that runs, or ran last
	cancel context.CancelFunc // ends the look at its process list
	said   map[string]bool    // texts of errors that end nothing
}

// New makes a Watcher, which does nothing before StartRound.
func New(o Options) *Watcher { return &Watcher{opts: o, said: map[string]bool{}} }

// StartRound looks after the GPUs of a round's workers until EndRound or the end of
// ctx. The first call also begins to listen for the driver's events, until ctx ends.
func (w *Watcher) StartRound(ctx context.Context, r Round) {
	round, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	first := w.round == nil
	w.round, w.cancel = &r, cancel
	w.mu.Unlock()
	if first {
		w.opts.Wait.Go(func() {
			if pause(ctx, followAfter) {
				follow(ctx, w.opts.Driver.Listen, w.failed, w.opts.Say)
			}
		})
	}
	w.opts.Wait.Go(func() {
		if pause(round, watchAfter) && waitSettled(round, r.Settled) {
			w.watch(round, r)
		}
	})
}

// EndRound ends the look at the workers' processes: they are being stopped.
func (w *Watcher) EndRound() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

// failed handles an event of the driver. An error that the workers cannot get over
// ends their round; another one is found once.
func (w *Watcher) failed(e device.Event) {
	w.mu.Lock()
	r := w.round
	w.mu.Unlock()
	f, ok := explainEvent(e, w.opts.GPUs, r.Ranks())
	if !ok {
		return
	}
	rank := -1
	if len(f.Ranks) > 0 {
		rank = f.Ranks[0]
	}
	// Where nothing is planned, workers may not use that GPU.
	concerns := len(w.opts.Owned) > 0 || w.opts.Given
	if f.Critical && concerns && w.opts.Abort && r.Fail(rank, f.Text+"; "+f.Fix) {
		return
	}
	w.mu.Lock()
	again := w.said[f.Text]
	w.said[f.Text] = true
	w.mu.Unlock()
	if !again {
		w.opts.Found(finding(Health, fmt.Sprintf("%s: %s", f.Text, f.Fix)))
	}
}

// watch compares the process list with the plan while ctx goes on. A list that
// cannot be read is said once; the next one may be read again.
func (w *Watcher) watch(ctx context.Context, r Round) {
	o, gpus := w.opts, w.opts.GPUs
	if !o.Known {
		var err error
		if gpus, err = o.Driver.List(ctx); err != nil {
			return // the user did not ask for GPUs, and there are none to tell of
		}
	}
	var c comparer
	failed, m := false, newMatcher(o.Procs, r.World)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		held, err := o.Driver.Holding(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			ranks, strangers := m.assign(r.Ranks(), held)
			for _, f := range c.compare(view{gpus, ranks, held, strangers, o.Procs.Name, o.Procs.Machine()}) {
				o.Found(f)
			}
		case !failed:
			failed = true
			o.Found(finding("", fmt.Sprintf("which worker runs on which GPU cannot be told: %v", err)))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// WaitReleased waits, after the workers of a round have ended, until their GPUs are
// free: a next round would fail with "out of memory". It says where they are not.
func (w *Watcher) WaitReleased(ctx context.Context, world World, pids []int) {
	o := w.opts
	err := waitReleased(ctx, release{
		GPUs: o.GPUs, UUIDs: o.Owned, PIDs: pids, World: world, Before: o.Before, Held: o.Driver.Holding,
		Procs: o.Procs, Within: o.Within, Say: o.Say,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		o.Say(err.Error())
	}
}

// Releases reports whether WaitReleased has anything to wait for.
func (w *Watcher) Releases() bool { return len(w.opts.Owned) > 0 && w.opts.Within > 0 }

// pause reports whether ctx was still going on after d.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
