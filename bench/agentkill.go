package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
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

// spares measures the time from the SIGKILL of gorun on one of four nodes, agent and
// keeper, to the first instruction of the last worker of the next round. In that round
// a fifth node has the lost node's place.
func spares() []scenario {
	s := shape{nodes: 4, perNode: 1, spares: 1, restarts: 1}
	var all []scenario
	for _, coordinator := range []bool{false, true} {
		name := "a member is lost"
		if coordinator {
			name = "the coordinator is lost"
		}
		target := 0
		all = append(all, scenario{
			measure: "spare", name: name, only: []string{nameGorun, nameEtcd},
			run: func(ctx context.Context, l *lab, p *peer) ([]reading, error) {
				target++
				return replaceNode(ctx, l, p, s, coordinator, target)
			},
		})
	}
	return all
}

// jobStatus is what gorun status reports about a job.
type jobStatus struct {
	Coordinator string `json:"coordinator"`
	Nodes       []struct {
		Host, Addr, Standing string
		PID, Keeper          int
	} `json:"nodes"`
}

func replaceNode(ctx context.Context, l *lab, p *peer, s shape, coordinator bool, target int) (_ []reading, err error) {
	j, err := startJob(l, p, s, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	first, err := j.workers(ctx, s.workers(), startBound)
	if err != nil {
		return nil, err
	}
	st, err := waitForJob(ctx, l, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, j.lastOutput())
	}
	var lost []int // indices of the nodes to choose from
	for i, n := range st.Nodes {
		leads := st.Coordinator == fmt.Sprintf("%s (%s)", n.Host, n.Addr)
		if n.Standing == "active" && leads == coordinator {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return nil, fmt.Errorf("no node to lose in %+v", st)
	}
	node := st.Nodes[lost[target%len(lost)]]
	begin := monotonic()
	for _, pid := range []int{node.PID, node.Keeper} {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return nil, fmt.Errorf("cannot kill process %d: %w", pid, err)
		}
	}
	all, err := j.workers(ctx, len(first)+s.workers(), startBound)
	if err != nil {
		return nil, err
	}
	var last int64
	for _, w := range all {
		last = max(last, w.at)
	}
	return one(reading{metric: "last worker starts again", value: ms(last - begin), unit: "ms"}), nil
}

// waitForJob waits until all nodes are in the job or wait as spares.
func waitForJob(ctx context.Context, l *lab, s shape) (jobStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for {
		var st jobStatus
		out, err := exec.CommandContext(ctx, l.gorun, "status", "--json", "--run-id", l.runID()).Output()
		if err == nil {
			err = json.Unmarshal(out, &st)
		}
		count := map[string]int{}
		for _, n := range st.Nodes {
			count[n.Standing]++
		}
		if err == nil && count["active"] == s.nodes && count["spare"] == s.spares {
			return st, nil
		}
		select {
		case <-ctx.Done():
			return st, fmt.Errorf("not all nodes came within %v (%v, %v): %s", startBound, count, err, strings.TrimSpace(string(out)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
