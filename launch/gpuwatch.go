package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/gpuwatch"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

const (
	// The driver's events are asked for once, while the first workers still load
	// their libraries; a job that is over by then is not worth it.
	followAfter = 2 * time.Second
	// Which process computes where is asked after the first collective set-up, for
	// which the driver's locks are needed (see gpuwatch.WaitForPeers), and then as seldom.
	watchEvery = 30 * time.Second
)

// gpuWatch is the look at the GPUs while workers run.
type gpuWatch struct {
	follows bool
	end     context.CancelFunc // of the round's look; nil: there is none
	said    map[string]bool    // texts of events that end nothing
}

// watchGPUs begins to look after the GPUs of a round's workers.
func (s *supervisor) watchGPUs(ctx context.Context, r *round) {
	d, p := s.placing, r.plan
	if !d.usesGPUs() {
		return
	}
	if !s.gpus.follows {
		s.gpus.follows, s.gpus.said = true, map[string]bool{}
		s.wg.Go(func() {
			if gpuwatch.Pause(ctx, followAfter) {
				gpuwatch.Follow(ctx, d.child.Listen, func(e device.Event) { s.events.Put(gpuEvent{e}) }, s.note)
			}
		})
	}
	round, end := context.WithCancel(ctx)
	s.gpus.end = end
	s.wg.Go(func() {
		if !gpuwatch.Pause(round, watchEvery) || !gpuwatch.WaitForPeers(round, p.world.Store, tcpstore.Settled) {
			return
		}
		all := d.plan.Seen.All
		if !d.plan.Seen.Known {
			var err error
			if all, err = d.child.List(round); err != nil {
				return // the user asked for no GPUs, and there are none to report on
			}
		}
		gpuwatch.Watch(round, gpuwatch.Config{
			GPUs: all, Ranks: r.gpuRanks, World: p.identity(), Every: watchEvery, Procs: procs(),
			Held:  d.child.Holding,
			Found: func(f gpuwatch.Finding) { s.events.Put(seenEvent{f}) },
		})
	})
}

// endWatchGPUs ends the round's look at the GPUs.
func (s *supervisor) endWatchGPUs() {
	if s.gpus.end != nil {
		s.gpus.end()
		s.gpus.end = nil
	}
}

// note says a line that is text already.
func (b *base) note(text string) { b.console.Say("%s", text) }

func procs() gpuwatch.Procs { return gpuwatch.Procs{FS: os.DirFS("/proc")} }

// gpuRanks are this node's workers, for package gpuwatch.
func (r *round) gpuRanks() []gpuwatch.Rank {
	var all []gpuwatch.Rank
	for _, w := range r.workers.Workers() {
		all = append(all, gpuwatch.Rank{Rank: w.Rank, PIDs: []int{w.PID}, Own: r.plan.devices.Slot(w.LocalRank).Own})
	}
	return all
}

// gpuFailed takes an error of a GPU that the driver reports. One that the workers
// cannot get over ends their round; others are findings, each once.
func (s *supervisor) gpuFailed(e device.Event) *preflight.Finding {
	r, d := s.current, s.placing
	if r == nil {
		return nil
	}
	c, ok := gpuwatch.Blame(e, d.plan.Seen.All, r.gpuRanks())
	if !ok {
		return nil
	}
	// Where nothing is planned, workers may not use that GPU; but with --pin=none
	// the user has given it to them.
	concerns := len(d.plan.Owned()) > 0 || d.config.Options.Mode == place.None
	if c.Critical && concerns && s.opts.Spec.Devices.OnError == spec.AbortOnGPUError && r.failDevice(c) || s.gpus.said[c.Text] {
		return nil
	}
	s.gpus.said[c.Text] = true
	return &preflight.Finding{ID: "G01", Title: "gpu-health", Severity: preflight.Warning, Text: fmt.Sprintf("%s: %s", c.Text, c.Fix)}
}

// failDevice ends the round with that cause. It reports false where the round is
// being ended already.
func (r *round) failDevice(c gpuwatch.Cause) bool {
	rank := -1
	if len(c.Ranks) > 0 {
		rank = c.Ranks[0]
	}
	return r.workers.FailDevice(rank, c.Text+"; "+c.Fix)
}

// misplaced is a finding of package gpuwatch.
func misplaced(f gpuwatch.Finding) preflight.Finding {
	title := map[string]string{gpuwatch.DistinctGPU: "distinct-gpu", gpuwatch.Leftovers: "leftovers"}[f.ID]
	return preflight.Finding{ID: f.ID, Title: title, Severity: preflight.Warning, Text: f.Text}
}

// releaser waits, after the workers of a round have ended, until their GPUs are
// free: a next round would fail with "out of memory". nil: nothing is waited for.
func (s *supervisor) releaser(p *plan) func(ctx context.Context, pids []int) {
	d, within := s.placing, s.opts.Spec.Devices.Release
	owned := d.plan.Owned()
	if len(owned) == 0 || within == 0 || !d.usesGPUs() {
		return nil
	}
	return func(ctx context.Context, pids []int) {
		s.events.Put(endedEvent{})
		err := gpuwatch.WaitReleased(ctx, gpuwatch.Release{
			GPUs: d.plan.Seen.All, UUIDs: owned, PIDs: pids, World: p.identity(), Before: d.plan.Seen.Survey.Held, Procs: procs(), Within: within,
			Held: d.child.Holding, Say: s.note,
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			s.note(err.Error())
		}
	}
}
