package launch

import (
	"cmp"
	"context"
	"net"
	"os"

	"github.com/gorun/gorun/launch/gpuwatch"
	"github.com/gorun/gorun/launch/place"
	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/workers"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// newWatcher returns the watcher of the workers' GPUs; nil if they use none.
func (s *supervisor) newWatcher() *gpuwatch.Watcher {
	want := s.opts.Spec.Devices
	if !s.placement.UsesGPUs() {
		return nil
	}
	p := s.placement.Plan()
	found := p.Inventory
	return gpuwatch.New(gpuwatch.Options{
		Driver: s.driver, Procs: gpuwatch.Procs{FS: os.DirFS("/proc")}, GPUsKnown: found.Known, GPUs: found.All,
		RankGPUs: p.Owned(), Earlier: found.Survey.Processes, ReleaseTimeout: want.Release,
		AbortOnError: want.OnError == spec.AbortOnGPUError, AbortWithoutPlan: want.Place.Mode == place.None,
		Wait: &s.wg, Say: s.note,
		OnFinding: func(f preflight.Finding) { s.events.Put(gpuFindingReceived{f}) },
	})
}

// watchGPUs starts to watch the GPUs of a round's workers.
func (s *supervisor) watchGPUs(ctx context.Context, r *round) {
	if s.gpus == nil {
		return
	}
	s.gpus.StartRound(ctx, gpuwatch.Round{
		World: identity(r.plan), Ranks: r.gpuRanks, Fail: r.workers.FailDevice,
		Settled: func(ctx context.Context) (bool, error) { return tcpstore.Settled(ctx, r.plan.World.Store) },
	})
}

// identity returns what identifies a round's workers on every node.
func identity(p *workers.Plan) gpuwatch.World {
	host, port, _ := net.SplitHostPort(cmp.Or(p.Master, p.World.Store))
	return gpuwatch.World{Token: p.World.Token, RunID: p.World.RunID, Addr: host, Port: port}
}

// gpuRanks lists this node's workers in the form that package gpuwatch uses.
func (r *round) gpuRanks() []gpuwatch.Rank {
	var all []gpuwatch.Rank
	for _, w := range r.workers.Workers() {
		all = append(all, gpuwatch.Rank{Rank: w.Rank, PIDs: []int{w.PID}, GPUs: r.plan.Places.Slot(w.LocalRank).GPUs})
	}
	return all
}

// deviceRelease returns a function that waits until the GPUs are free after the workers
// of a round have ended. It returns nil if there is nothing to wait for.
func (s *supervisor) deviceRelease(p *workers.Plan) func(ctx context.Context, pids []int) {
	if s.gpus == nil || !s.gpus.NeedsRelease() {
		return nil
	}
	return func(ctx context.Context, pids []int) {
		s.events.Put(workersEnded{})
		s.gpus.WaitReleased(ctx, identity(p), pids)
	}
}

// note prints a line of text that needs no formatting.
func (b *base) note(text string) { b.console.Say("%s", text) }
