package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// nodes measures the time from starting all launchers to the last worker's first
// instruction, with N nodes of one worker on one machine. It also measures the memory
// of all launchers of each N but the floor.
func nodes(quick bool) []scenario {
	sizes := []int{2, 8, 32, 64}
	if quick {
		sizes = []int{2, 8}
	}
	var all []scenario
	for _, n := range sizes {
		s := shape{nodes: n, perNode: 1}
		all = append(all, scenario{
			measure: "nodes", name: fmt.Sprintf("N = %d", n),
			run: func(ctx context.Context, l *lab, p *peer) ([]reading, error) {
				return startNodes(ctx, l, p, s)
			},
		})
	}
	return all
}

func startNodes(ctx context.Context, l *lab, p *peer, s shape) (_ []reading, err error) {
	const bound = 2 * time.Minute
	j, err := startJob(l, p, s, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	workers, err := j.workers(ctx, s.workers(), bound)
	if err != nil {
		return nil, err
	}
	var last int64
	for _, w := range workers {
		last = max(last, w.at)
	}
	all := []reading{{metric: "last worker starts", value: ms(last - j.begin), unit: "ms"}}
	if p.name == nameFloor {
		return all, nil
	}
	u := launcherMemory(j, workers)
	return append(all, reading{metric: "all launchers, PSS", value: mib(u.all.pss), unit: "MiB"}), nil
}

// memory measures the memory of an agent while its worker runs, alone and among 8.
func memory() []scenario {
	var all []scenario
	for _, n := range []int{1, 8} {
		s := shape{nodes: n, perNode: 1}
		all = append(all, scenario{
			measure: "memory", name: fmt.Sprintf("N = %d", n),
			only: []string{nameGorun, nameEtcd, "torchrun", "mpirun", "hydra"},
			run: func(ctx context.Context, l *lab, p *peer) ([]reading, error) {
				return measureMemory(ctx, l, p, s)
			},
		})
	}
	return all
}

func measureMemory(ctx context.Context, l *lab, p *peer, s shape) (_ []reading, err error) {
	j, err := startJob(l, p, s, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	workers, err := j.workers(ctx, s.workers(), time.Minute)
	if err != nil {
		return nil, err
	}
	u := launcherMemory(j, workers)
	if u.agents == 0 {
		return nil, errors.New("no launcher process is left beside the workers")
	}
	per := func(total int64, n int) float64 { return mib(total) / float64(n) }
	all := []reading{
		{metric: "an agent, PSS", value: per(u.agent.pss, u.agents), unit: "MiB"},
		{metric: "an agent, RSS", value: per(u.agent.rss, u.agents), unit: "MiB"},
	}
	if p.isGorun() && u.keepers > 0 {
		all = append(all,
			reading{metric: "a keeper, PSS", value: per(u.keeper.pss, u.keepers), unit: "MiB"},
			reading{metric: "a keeper, RSS", value: per(u.keeper.rss, u.keepers), unit: "MiB"})
	}
	return append(all, reading{metric: "all launchers, PSS", value: mib(u.all.pss), unit: "MiB"}), nil
}

// usage has the memory of a job's processes without its workers: of the parents of
// workers (agents), of the other processes that were started by hand (gorun's keepers,
// mpirun), and of all together.
type usage struct {
	agent, keeper, all rollup
	agents, keepers    int
}

func launcherMemory(j *job, workers []started) usage {
	isWorker, isAgent := map[int]bool{}, map[int]bool{}
	for _, w := range workers {
		isWorker[w.pid] = true
		if p, err := readProcess(w.pid); err == nil {
			isAgent[p.parent] = true
		}
	}
	byHand := map[int]bool{}
	for _, cmd := range j.cmds {
		byHand[cmd.Process.Pid] = true
	}
	var u usage
	for _, p := range j.below() {
		if isWorker[p.pid] {
			continue
		}
		r, err := readRollup(p.pid)
		if err != nil {
			continue // the process has just ended
		}
		u.all.add(r)
		switch {
		case isAgent[p.pid]:
			u.agent.add(r)
			u.agents++
		case byHand[p.pid]:
			u.keeper.add(r)
			u.keepers++
		}
	}
	return u
}

func (r *rollup) add(o rollup) {
	r.pss += o.pss
	r.rss += o.rss
}
