package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startBound = 30 * time.Second // for all workers of a small job to start
	exitBound  = time.Second      // for the launchers to end after the workers
)

// fault is a way for a worker to die.
type fault struct {
	name   string
	signal unix.Signal // that makes it die so
}

// abort measures the time from one worker's death to the death of the last other one,
// on the same node and on the others. Workers die at SIGTERM.
func abort(bound time.Duration) []scenario {
	var all []scenario
	for _, s := range []shape{{nodes: 4, perNode: 2}, {nodes: 1, perNode: 8}} {
		for _, f := range []fault{{"exit 3", unix.SIGUSR1}, {"SIGKILL", unix.SIGKILL}} {
			target := 0 // every worker has its turn, whichever peer runs
			all = append(all, scenario{
				measure: "abort", name: fmt.Sprintf("%v, %s", s, f.name),
				only: []string{nameGorun, "torchrun", "mpirun", "hydra", "srun -K"},
				run: func(ctx context.Context, l *lab, p *peer) ([]reading, error) {
					target++
					return killWorker(ctx, l, p, workerKill{s, f, target, bound})
				},
			})
		}
	}
	return all
}

type workerKill struct {
	shape  shape
	fault  fault
	victim int // counted modulo the workers, in the order of their start
	bound  time.Duration
}

func killWorker(ctx context.Context, l *lab, p *peer, a workerKill) (_ []reading, err error) {
	j, err := startJob(l, p, a.shape, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	t, err := readyTeam(ctx, j, a.shape)
	if err != nil {
		return nil, err
	}
	defer t.deaths.close()

	target := a.victim % len(t.pids)
	wait := t.deaths.watch(a.bound)
	if err := unix.Kill(t.pids[target], a.fault.signal); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot kill worker %d: %w", t.pids[target], err), wait())
	}
	if err := wait(); err != nil {
		return nil, err
	}
	begin := t.deaths.when[target]
	if begin == 0 {
		return nil, fmt.Errorf("worker %d does not die by %s", t.pids[target], a.fault.name)
	}

	note := "launcher still runs"
	if codes, err := j.wait(ctx, exitBound); err == nil {
		note = exitNote(codes)
	}
	all := []reading{{
		metric: "same node", unit: "ms", note: note,
		value: t.last(begin, func(i int) bool { return i != target && t.nodes[i] == t.nodes[target] }),
	}}
	if a.shape.nodes > 1 {
		all = append(all, reading{
			metric: "other nodes", unit: "ms", note: note,
			value: t.last(begin, func(i int) bool { return t.nodes[i] != t.nodes[target] }),
		})
	}
	return all, nil
}

// team is the workers of a job, all of them running.
type team struct {
	pids   []int
	nodes  []int // by worker: the pid of its parent, which is the node's agent
	deaths *deaths
}

// readyTeam waits for all workers of the job and watches them.
func readyTeam(ctx context.Context, j *job, s shape) (*team, error) {
	workers, err := j.workers(ctx, s.workers(), startBound)
	if err != nil {
		return nil, err
	}
	t := &team{}
	for _, w := range workers {
		p, err := readProcess(w.pid)
		if err != nil {
			return nil, fmt.Errorf("a worker ended too early: %s", j.lastOutput())
		}
		t.pids = append(t.pids, w.pid)
		t.nodes = append(t.nodes, p.parent)
	}
	if found := len(slices.Compact(slices.Sorted(slices.Values(t.nodes)))); found != s.nodes {
		return nil, fmt.Errorf("workers have %d parents, not one a node (%d)", found, s.nodes)
	}
	t.deaths, err = newDeaths(t.pids...)
	return t, err
}

// last returns when the last of the chosen workers died, in ms after begin.
func (t *team) last(begin int64, chosen func(int) bool) float64 {
	var last int64
	for i := range t.pids {
		when := t.deaths.when[i]
		switch {
		case !chosen(i):
		case when == 0:
			return never
		default:
			last = max(last, when-begin)
		}
	}
	return ms(last)
}

// exitNote says with which codes the launchers ended: "exit 3" if all agree.
func exitNote(codes []int) string {
	slices.Sort(codes)
	var words []string
	for _, c := range slices.Compact(codes) {
		words = append(words, fmt.Sprint(c))
	}
	return "exit " + strings.Join(words, "/")
}
