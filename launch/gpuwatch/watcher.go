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
	// followDelay is the delay before the watcher asks for the driver's events.
	// Until then the first workers still load their libraries, and a job that ends
	// by then needs no events.
	followDelay = 2 * time.Second
	// pollDelay is the delay before the first reading of the process list. The
	// reading waits longer if the workers have not set up their first collective,
	// which needs the driver's locks.
	pollDelay = 30 * time.Second
	// pollInterval is the time between two readings of the process list. Each takes
	// locks of the driver that a running job also needs.
	pollInterval = 30 * time.Second
)

// Driver asks the GPU driver of this node in a child process: device.Child.
type Driver interface {
	List(ctx context.Context) ([]device.GPU, error)
	Processes(ctx context.Context) ([]device.Process, error)
	Listen(ctx context.Context, handle func(device.Event)) error
}

// Options holds what a Watcher needs.
type Options struct {
	Driver    Driver
	Procs     Procs
	GPUsKnown bool             // GPUs is set; false: the watcher asks the driver
	GPUs      []device.GPU     // all GPUs of the node
	RankGPUs  []string         // UUIDs of the workers' GPUs; none: there is no plan
	Earlier   []device.Process // the processes that computed on a GPU before the job
	// AbortOnError says that a critical error ends the round (--on-gpu-error).
	// AbortWithoutPlan says that it does so even without a plan, because the user gave
	// the GPUs to the workers (--pin=none).
	AbortOnError, AbortWithoutPlan bool
	ReleaseTimeout                 time.Duration // how long WaitReleased waits; 0: it does not wait

	Wait      *sync.WaitGroup // for the Watcher's goroutines, which call OnFinding and Say
	OnFinding func(preflight.Finding)
	Say       func(string)
}

// Round describes the workers of a round to the Watcher.
type Round struct {
	World World
	Ranks func() []Rank // the ranks as they are now; the Watcher finds the processes that the workers started
	// Settled reports whether the workers, on all nodes, have set up their first
	// collective.
	Settled func(ctx context.Context) (bool, error)
	// Fail ends the round because of a GPU of a rank; -1: the GPU belongs to no
	// rank. It returns false if the round is already being stopped.
	Fail func(rank int, message string) bool
}

// Watcher watches the GPUs of a node's workers, from round to round.
type Watcher struct {
	opts Options

	mu       sync.Mutex
	round    *Round             // the round that runs, or the latest that ran
	cancel   context.CancelFunc // stops the readings of the round's process list
	reported map[string]bool    // texts of the errors that did not end a round
}

// New returns a Watcher, which does nothing before StartRound.
func New(o Options) *Watcher { return &Watcher{opts: o, reported: map[string]bool{}} }

// StartRound watches the GPUs of a round's workers until EndRound or the end of
// ctx. The first call also starts to listen for the driver's events, until ctx
// ends.
func (w *Watcher) StartRound(ctx context.Context, r Round) {
	round, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	first := w.round == nil
	w.round, w.cancel = &r, cancel
	w.mu.Unlock()
	if first {
		w.opts.Wait.Go(func() {
			if pause(ctx, followDelay) {
				followEvents(ctx, w.opts.Driver.Listen, w.handleEvent, w.opts.Say)
			}
		})
	}
	w.opts.Wait.Go(func() {
		if pause(round, pollDelay) && waitForSettled(round, r.Settled) {
			w.pollProcesses(round, r)
		}
	})
}

// EndRound stops the readings of the process list, because the workers are being
// stopped.
func (w *Watcher) EndRound() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

// handleEvent handles an event of the driver. An error from which the workers cannot
// recover ends their round. Any other error becomes a finding, once.
func (w *Watcher) handleEvent(e device.Event) {
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
	// Without a plan, workers may not use that GPU.
	concerns := len(w.opts.RankGPUs) > 0 || w.opts.AbortWithoutPlan
	if f.Critical && concerns && w.opts.AbortOnError && r.Fail(rank, f.Text+"; "+f.Fix) {
		return
	}
	w.mu.Lock()
	again := w.reported[f.Text]
	w.reported[f.Text] = true
	w.mu.Unlock()
	if !again {
		w.opts.OnFinding(finding(IDHealth, fmt.Sprintf("%s: %s", f.Text, f.Fix)))
	}
}

// pollProcesses compares the process list with the plan until ctx ends. If it cannot
// read the list, it reports that once; the next reading may succeed.
func (w *Watcher) pollProcesses(ctx context.Context, r Round) {
	o, gpus := w.opts, w.opts.GPUs
	if !o.GPUsKnown {
		var err error
		if gpus, err = o.Driver.List(ctx); err != nil {
			return // the user did not ask for GPUs, and the node has none
		}
	}
	var c comparer
	isFailing, m := false, newMatcher(o.Procs, r.World)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		processes, err := o.Driver.Processes(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			ranks, unrelated := m.assign(r.Ranks(), processes)
			for _, f := range c.compare(view{gpus, ranks, processes, unrelated, o.Procs.Name, o.Procs.HasHostPIDs()}) {
				o.OnFinding(f)
			}
		case !isFailing:
			isFailing = true
			o.OnFinding(finding("", fmt.Sprintf("gorun cannot check which worker runs on which GPU: %v", err)))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// WaitReleased waits, after the workers of a round have ended, until their GPUs are
// free. Otherwise the next round would fail with "out of memory". It prints an error
// if the GPUs do not become free.
func (w *Watcher) WaitReleased(ctx context.Context, world World, pids []int) {
	o := w.opts
	err := waitReleased(ctx, releaseWait{
		GPUs: o.GPUs, UUIDs: o.RankGPUs, PIDs: pids, World: world, Earlier: o.Earlier, List: o.Driver.Processes,
		Procs: o.Procs, Timeout: o.ReleaseTimeout, Say: o.Say,
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		o.Say(err.Error())
	}
}

// NeedsRelease reports whether WaitReleased has anything to wait for.
func (w *Watcher) NeedsRelease() bool { return len(w.opts.RankGPUs) > 0 && w.opts.ReleaseTimeout > 0 }

// pause waits for d. It reports whether ctx has not ended.
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
