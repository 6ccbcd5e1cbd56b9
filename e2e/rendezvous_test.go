package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// untilGo is a worker that ends with 0 once the job's folder has the file.
const untilGo = `echo up; while [ ! -e $E2E_DIR/go ]; do sleep 0.05; done`

// TestSameNodeRank checks that of two agents with one --node-rank the job refuses the
// later one and waits on for the right one.
func TestSameNodeRank(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	first := j.node(1, "2", with(sh("exit 0"), "--node-rank", "0")...)
	first.waitForStderr("have 1 of 2 nodes")
	second := j.node(2, "2", with(sh("exit 0"), "--node-rank", "0")...)
	j.wantExit(shortWait, 75, second)
	j.wantCause([]*agent{second}, "--node-rank 0", "127.0.0.1")
	first.waitForStderr("refused")
	if !first.running() {
		t.Fatalf("the first agent ended with %d", first.code)
	}
	first.signal(syscall.SIGTERM)
	j.wantExit(shortWait, 143, first)
	j.wantCause([]*agent{first}, "received SIGTERM")
}

// TestRightNodeAfterRefusal checks that the right node still completes a job that
// refused a wrong one.
func TestRightNodeAfterRefusal(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	first := j.node(1, "2", with(sh("exit 0"), "--node-rank", "0")...)
	first.waitForStderr("have 1 of 2 nodes")
	j.wantExit(shortWait, 75, j.node(2, "2", with(sh("exit 0"), "--node-rank", "0")...))
	j.wantExit(shortWait, 0, j.node(2, "2", with(sh("exit 0"), "--node-rank", "1")...), first)
}

// TestOtherNnodesIsRefused checks that agents with different --nnodes do not make a job.
func TestOtherNnodesIsRefused(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	first := j.node(1, "2", sh("exit 0")...)
	first.waitForStderr("have 1 of 2 nodes")
	other := j.node(2, "3", sh("exit 0")...)
	j.wantExit(shortWait, 75, other)
	j.wantCause([]*agent{other}, "--nnodes 3", "--nnodes 2", "127.0.0.1")
	j.wantExit(shortWait, 0, j.node(3, "2", sh("exit 0")...), first)
}

// TestNodeAboveNumberIsSpare checks that one node too many waits as a spare and does not
// disturb the job.
func TestNodeAboveNumberIsSpare(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	two := j.nodes(2, sh(untilGo)...)
	for _, a := range two {
		a.waitForStdout("up", 1)
	}
	third := j.node(3, "2", sh(untilGo)...)
	third.waitForStderr("the job runs on ")
	third.waitForStderr("127.0.0.2); this node is a hot spare and takes the place of one that is lost")
	j.touch("go")
	j.wantExit(shortWait, 0, append(two, third)...)
	if n := strings.Count(two[0].out.String()+two[1].out.String()+third.out.String(), "up"); n != 2 {
		t.Errorf("%d workers were started", n)
	}
}

// TestMissingNode checks that when a node is missing, the others give up in time and say
// which nodes came.
func TestMissingNode(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=5")
	two := []*agent{j.node(1, "3", sh("exit 0")...), j.node(2, "3", sh("exit 0")...)}
	j.wantExit(longWait, 75, two...)
	j.wantCause(two, "2 of 3 nodes", "5s", "127.0.0.1", "127.0.0.2", "--rdzv-endpoint", j.endpoint)
	j.wantSameCause(two...)
	for _, a := range two {
		if took := a.ended.Sub(a.began); took < 4900*time.Millisecond || took > 5*time.Second+shortWait {
			t.Errorf("%s gave up after %v", a.name, took)
		}
	}
}

// TestEndpointMissing checks that when the endpoint's node is missing, the others name
// it.
func TestEndpointMissing(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=2")
	a := j.node(2, "2", sh("exit 0")...)
	j.wantExit(longWait, 75, a)
	j.wantCause(j.agents, j.endpoint, j.id, "2s", "refused")
}

// TestOtherRunID checks that an endpoint belongs to one run. Another run is refused with
// both run ids.
func TestOtherRunID(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]int{"another node": 2, "the endpoint's node": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			first := j.node(1, "2", sh("exit 0")...)
			first.waitForStderr("have 1 of 2 nodes")
			run := j.id
			j.id = "stranger"
			other := j.node(addr, "2", sh("exit 0")...)
			j.id = run
			j.wantExit(longWait, 75, other)
			j.wantCause([]*agent{other}, `"stranger"`, run, j.endpoint)
			j.wantExit(longWait, 0, j.node(3, "2", sh("exit 0")...), first)
		})
	}
}
