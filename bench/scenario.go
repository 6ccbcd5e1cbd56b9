package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/gorun/gorun/bench/collectives"
)

// reading is one number of one run.
type reading struct {
	metric string  // names the number if a scenario yields several: "own node"
	value  float64 // in unit; the constant never: it did not happen within the bound
	unit   string
	note   string // another observation: "exit 3"
}

var never = math.Inf(1)

// scenario is one thing that is measured with every peer.
type scenario struct {
	measure string // the name that -only selects
	name    string
	only    []string // the peers to measure; empty: all
	run     func(ctx context.Context, l *lab, p *peer) ([]reading, error)
}

// effort says how often a scenario is run.
type effort struct {
	reps   int           // rounds; gorun and every quick peer run in each
	budget time.Duration // of one peer in one scenario; a slow one skips rounds
}

// maxFailures of a peer in a scenario end its turns.
const maxFailures = 3

// turns has what one peer did in one scenario.
type turns struct {
	peer     *peer
	spent    time.Duration
	failures int
	lastErr  error
	readings []reading
}

// due reports whether the peer has a turn in a round. It spreads a slow peer's runs
// evenly over the rounds: the peer has a turn while the share of its budget that is
// spent is not above the share of the rounds that are done. So every peer runs at least
// once, and gorun in every round.
func (t *turns) due(round int, e effort) bool {
	if t.peer.missing != "" || t.failures == maxFailures {
		return false
	}
	done := float64(round) / float64(e.reps)
	return t.peer.isGorun() || float64(t.spent)/float64(e.budget) <= done
}

// runAll runs the scenario in interleaved rounds, so that a drift of the machine affects
// all peers.
func (sc scenario) runAll(ctx context.Context, l *lab, all []*peer, e effort) ([]*turns, error) {
	var each []*turns
	for _, p := range all {
		if sc.isFor(p) {
			each = append(each, &turns{peer: p})
		}
	}
	for round := range e.reps {
		for _, t := range each {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if !t.due(round, e) {
				continue
			}
			progress(fmt.Sprintf("%s %s: %s %d/%d", sc.measure, sc.name, t.peer.name, round+1, e.reps))
			begin := time.Now()
			got, err := sc.run(ctx, l, t.peer)
			t.spent += time.Since(begin)
			t.readings = append(t.readings, got...)
			if err != nil {
				t.failures++
				t.lastErr = err
			}
		}
	}
	progress("")
	return each, ctx.Err()
}

func (sc scenario) isFor(p *peer) bool {
	for _, name := range sc.only {
		if name == p.name {
			return true
		}
	}
	return len(sc.only) == 0 && !p.inSlurm
}

// progress overwrites one line on a terminal's standard error.
func progress(text string) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\033[K%s", text)
	}
}

func ms(ns int64) float64     { return float64(ns) / 1e6 }
func mib(b int64) float64     { return float64(b) / (1 << 20) }
func one(r reading) []reading { return []reading{r} }

// start8 measures the wall time of 8 workers that end at once.
func start8() []scenario {
	const bound = 30 * time.Second
	s := shape{nodes: 1, perNode: 8}
	run := func(ctx context.Context, l *lab, p *peer) (_ []reading, err error) {
		j, err := startJob(l, p, s, []string{"/bin/true"})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, j.close()) }()
		codes, err := j.wait(ctx, bound)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(codes, func(c int) bool { return c != 0 }) {
			return nil, fmt.Errorf("exit codes %v: %s", codes, j.lastOutput())
		}
		return one(reading{value: ms(j.end - j.begin), unit: "ms"}), nil
	}
	return []scenario{{
		measure: "start8", name: "8 x true", run: run,
		only: []string{nameGorun, "torchrun", "mpirun", "hydra", nameFloor, "srun -K"}, // one node needs no backend
	}}
}

// collectivePeers returns the sides of the measurement of all-reduces, as peers.
func collectivePeers(ctx context.Context, l *lab) ([]*peer, error) {
	programs, err := collectives.Build(ctx, l.module, l.scratch)
	if err != nil {
		return nil, err
	}
	tools := collectives.Tools{Gorun: l.gorun, MPIRun: openMPI(ctx)}
	if torchMissing(ctx) == "" {
		tools.Python = python
	}
	l.sides = programs.Sides(tools)
	var all []*peer
	for _, s := range l.sides {
		all = append(all, &peer{name: s.Name, missing: s.Missing})
	}
	return all, nil
}

// allReduces measures all-reduces of ranks that have a CPU each, and of twice as many.
func allReduces(quick bool) []scenario {
	cpus := runtime.NumCPU()
	var all []scenario
	for _, c := range []struct {
		ranks int
		bound bool
	}{{max(2, cpus), cpus > 1}, {2 * max(2, cpus), false}} {
		all = append(all, scenario{
			measure: "collectives", name: fmt.Sprintf("%d ranks on %d CPUs", c.ranks, cpus),
			run: func(ctx context.Context, l *lab, p *peer) ([]reading, error) {
				ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
				defer cancel()
				i := slices.IndexFunc(l.sides, func(s collectives.Side) bool { return s.Name == p.name })
				sizes := collectives.Sizes(quick)
				medians, err := l.sides[i].Run(ctx, c.ranks, c.bound, sizes)
				var got []reading
				for _, s := range sizes {
					if us, ok := medians[s.Bytes]; ok {
						got = append(got, reading{metric: s.Name, value: us, unit: "µs"})
					}
				}
				return got, err
			},
		})
	}
	return all
}
