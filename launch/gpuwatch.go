package launch

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gorun/gorun/launch/device"
	"github.com/gorun/gorun/launch/gpuwatch"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/status"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

const (
	// The driver's events are asked for once, while the first workers still load
	// their libraries; a job that is over by then is not worth it.
	followAfter = 2 * time.Second
	// Who computes where is asked after the first collective set-up, for which the
	// driver's locks are needed (see waitForPeers), and then as seldom.
	watchEvery = 30 * time.Second
)

// gpuWatch is the agent's look at the GPUs while workers run. Only the loop
// touches it.
type gpuWatch struct {
	follows bool
	end     context.CancelFunc // of the round's look; nil: there is none
	said    map[string]bool    // texts of events that end nothing
}

// Events of it.
type (
	gpuEvent  struct{ device.Event }
	seenEvent struct{ gpuwatch.Finding }
)

// watchGPUs begins to look after the GPUs of a round's workers.
func (a *agent) watchGPUs(ctx context.Context, r *round) {
	d, p := a.placing, r.plan
	if p.group == 0 { // this node serves the store, which other nodes ask, too
		a.session.Store.Server().Expect(p.world.Size)
	}
	if !d.usesGPUs() {
		return
	}
	if !a.look.follows {
		a.look.follows, a.look.said = true, map[string]bool{}
		a.wg.Go(func() {
			if !pause(ctx, followAfter) {
				return
			}
			gpuwatch.Follow(ctx, d.child.Listen, func(e device.Event) { a.events.Put(gpuEvent{e}) }, a.note)
		})
	}
	round, end := context.WithCancel(ctx)
	a.look.end = end
	a.wg.Go(func() {
		if !pause(round, watchEvery) || !waitForPeers(round, p.world.Store, tcpstore.Settled) {
			return
		}
		all := d.plan.Seen.All
		if !d.plan.Seen.Known {
			var err error
			if all, err = d.child.List(round); err != nil {
				return // nobody asked for GPUs, and there are none to tell of
			}
		}
		gpuwatch.Watch(round, gpuwatch.Config{
			GPUs: all, Ranks: r.gpuRanks, World: p.identity(), Every: watchEvery, Procs: procs(),
			Held:  d.child.Holding,
			Found: func(f gpuwatch.Finding) { a.events.Put(seenEvent{f}) },
		})
	})
}

// endWatchGPUs: the workers are being stopped.
func (a *agent) endWatchGPUs() {
	if a.look.end != nil {
		a.look.end()
		a.look.end = nil
	}
}

func (a *agent) note(text string) { a.events.Put(noteEvent{text}) }

func procs() gpuwatch.Procs { return gpuwatch.Procs{FS: os.DirFS("/proc")} }

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

// gpuRanks are this node's workers, for package watch.
func (r *round) gpuRanks() []gpuwatch.Rank {
	var all []gpuwatch.Rank
	for _, w := range r.workers.Workers() {
		all = append(all, gpuwatch.Rank{Rank: w.Rank, PIDs: []int{w.PID}, Own: r.plan.devices.Slot(w.LocalRank).Own})
	}
	return all
}

// gpuFailed: the driver reports an error of a GPU. One that the workers cannot
// get over ends their round.
func (a *agent) gpuFailed(e device.Event) {
	r, d := a.current, a.placing
	if r == nil {
		return
	}
	c, ok := gpuwatch.Blame(e, d.plan.Seen.All, r.gpuRanks())
	if !ok {
		return
	}
	// Where nothing is planned, workers may not use that GPU; but with --pin=none
	// somebody else has given it to them.
	concerns := len(d.plan.Owned()) > 0 || d.config.Options.Mode == place.None
	if c.Critical && concerns && a.opts.Spec.Devices.OnError == spec.AbortOnGPUError && r.failDevice(c) {
		return
	}
	if a.look.said[c.Text] {
		return
	}
	a.look.said[c.Text] = true
	a.tell(status.Finding{ID: "G01", Title: "gpu-health", Severity: string(preflight.Warning), Text: fmt.Sprintf("%s: %s", c.Text, c.Fix)})
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

// tell prints something about the running job, and keeps it for gorun status.
func (a *agent) tell(f status.Finding) {
	a.console.say("%s", f.Text)
	if f.ID == "" {
		return
	}
	var all []status.Finding
	if old := a.status.findings.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all[:min(len(all), maxFindings)], f)
	a.status.findings.Store(&all)
}

// maxFindings bounds what gorun status tells of one node.
const maxFindings = 64

// misplaced: package gpuwatch found something about who computes where.
func (a *agent) misplaced(f gpuwatch.Finding) {
	title := map[string]string{gpuwatch.DistinctGPU: "distinct-gpu", gpuwatch.Leftovers: "leftovers"}[f.ID]
	a.tell(status.Finding{ID: f.ID, Title: title, Severity: string(preflight.Warning), Text: f.Text})
}
