package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestAgentOfLocalNodesKilled checks that a keeper of several agents says which agent
// was killed. The other agents do not wait for it to start again, even with restarts
// left.
func TestAgentOfLocalNodesKilled(t *testing.T) {
	t.Parallel()
	for target := range 2 {
		t.Run(fmt.Sprint(target), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--local-nodes", "2", "--max-restarts", fmt.Sprint(target))
			a := j.run("both", sh(printRankForever)...)
			a.waitForStdout("up", 2)
			j.kill(j.agentOfLocalNode(target))
			j.wantExit(longWait, 137, a)
			a.waitForStderr(fmt.Sprintf("gorun: the agent of node %d was killed by SIGKILL;", target))
		})
	}
}

// agentOfLocalNode waits for the agent of node i and returns its pid.
func (j *job) agentOfLocalNode(i int) (pid int) {
	j.Helper()
	eventually(j, longWait, fmt.Sprintf("node %d has an agent", i), func() bool {
		for _, p := range j.processes() {
			if strings.Contains(p.cmdline, fmt.Sprintf("agent-of-keeper=%d/", i)) {
				pid = p.pid
			}
		}
		return pid != 0
	})
	return pid
}

// TestAgentKilledWhileWaiting checks that if an agent dies before the nodes are
// complete, another agent can take its place.
func TestAgentKilledWhileWaiting(t *testing.T) {
	t.Parallel()
	for target, where := range []string{"endpoint", "member"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			two := []*agent{j.node(1, "3", sh("exit 0")...), j.node(2, "3", sh("exit 0")...)}
			for _, a := range two {
				a.waitForStderr("have 2 of 3 nodes")
			}
			j.kill(two[target].pid())
			j.wantExit(longWait, 137, two[target])
			again := j.node(target+1, "3", sh("exit 0")...)
			third := j.node(3, "3", sh("exit 0")...)
			j.wantExit(longWait, 0, two[1-target], again, third)
		})
	}
}

// TestAgentKilledWhileSealing checks that a kill at any moment of the start hangs no
// agent. The survivors end with one code, or wait for a node to take the lost node's
// place.
func TestAgentKilledWhileSealing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i := range 30 {
		target, delay := rnd.IntN(3), time.Duration(rnd.IntN(100_000))*time.Microsecond
		t.Run(fmt.Sprintf("%d node %d after %v", i, target+1, delay), func(t *testing.T) {
			t.Parallel()
			testKilledAtStart(t, target, delay)
		})
	}
}

func testKilledAtStart(t *testing.T, target int, delay time.Duration) {
	j := newJob(t, "--rdzv-conf", "join_timeout=2")
	agents := j.nodes(3, sh("sleep 0.2")...)
	timer := time.After(delay)
	pid := 0
	for pid == 0 && agents[target].running() {
		pid = agents[target].findPid()
	}
	<-timer
	if pid != 0 && agents[target].running() {
		j.kill(pid)
	}
	codes := map[int]bool{}
	for i, a := range agents {
		code := a.wait(longWait)
		if i != target {
			codes[code] = true
		}
	}
	if len(codes) != 1 {
		t.Errorf("the survivors do not agree: %v", codes)
	}
	for code := range codes {
		if code != 0 && code != 75 && code != 137 {
			t.Errorf("exit code %d", code)
		}
	}
}
