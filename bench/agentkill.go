package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// agentKill measures the time from the SIGKILL of a node's agent (the parent of its
// workers), or of the process that the user started there, to the death of the last
// worker on that node and on the others; 4 nodes of 2 workers.
func agentKill(bound time.Duration) []scenario {
	s := shape{nodes: 4, perNode: 2}
	var all []scenario
	for _, keeper := range []bool{false, true} {
		name := "agent"
		only := []string{nameGorun, "torchrun", "mpirun", "hydra", "srun -K"}
		if keeper {
			name = "keeper"
			only = []string{nameGorun} // the others have no second process a node
		}
		target := 0
		all = append(all, scenario{
			measure: "agentkill", name: name, only: only,
			run: func(ctx context.Context, l *lab, p *peer) ([]reading, error) {
				target++
				return killAgent(ctx, l, p, s, agentFault{target, keeper, bound})
			},
		})
	}
	return all
}

type agentFault struct {
	victim int  // a worker of the node, as for workerKill
	keeper bool // true: kill the agent's parent, not the agent
	bound  time.Duration
}

func killAgent(ctx context.Context, l *lab, p *peer, s shape, f agentFault) (_ []reading, err error) {
	j, err := startJob(l, p, s, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	t, err := readyTeam(ctx, j, s)
	if err != nil {
		return nil, err
	}
	defer t.deaths.close()

	node := t.nodes[f.victim%len(t.nodes)]
	target := node
	if f.keeper {
		if target, err = keeperOf(j, node); err != nil {
			return nil, err
		}
	}
	if err := t.deaths.add(target); err != nil {
		return nil, err
	}
	wait := t.deaths.watch(f.bound)
	if err := unix.Kill(target, unix.SIGKILL); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot kill agent %d: %w", target, err), wait())
	}
	if err := wait(); err != nil {
		return nil, err
	}
	begin := t.deaths.when[len(t.pids)] // target
	if begin == 0 {
		return nil, fmt.Errorf("process %d survives SIGKILL", target)
	}
	note := "launcher still runs"
	if codes, err := j.wait(ctx, exitBound); err == nil {
		note = exitNote(codes)
	}
	return []reading{
		{metric: "own workers", unit: "ms", note: note, value: t.last(begin, func(i int) bool { return t.nodes[i] == node })},
		{metric: "other nodes", unit: "ms", note: note, value: t.last(begin, func(i int) bool { return t.nodes[i] != node })},
	}, nil
}

// keeperOf returns the parent of the agent: the process that was started by hand.
func keeperOf(j *job, agent int) (int, error) {
	p, err := readProcess(agent)
	if err != nil {
		return 0, err
	}
	for _, cmd := range j.cmds {
		if cmd.Process.Pid == p.parent {
			return p.parent, nil
		}
	}
	return 0, fmt.Errorf("agent %d has no keeper: its parent %d was not started by hand", agent, p.parent)
}
