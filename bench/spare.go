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
