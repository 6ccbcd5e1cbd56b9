package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// TestRefusedNodeEndsTheWait checks that every node that waits names a refused node. If
// the job lacks only refused nodes, it does not wait for ever: it ends after a last
// call.
func TestRefusedNodeEndsTheWait(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		j := newJob("--rdzv-conf", "join_timeout=600,last_call_timeout=2")
		good := []*agent{j.node(1, "3", "/bin/true"), j.node(2, "3", "/bin/true")}
		good[0].waitForStderr("have 2 of 3")
		odd := j.node(3, "4", "/bin/true")
		j.wantExit(longWait, 75, odd)
		for _, a := range good {
			a.waitForStderr("refused ")
			a.waitForStderr("(127.0.0.3): it was started with --nnodes 4")
		}
		j.wantExit(longWait, 75, good...)
		for _, a := range good {
			if took := a.ended.Sub(odd.ended); took > 2*time.Second+shortWait { // time for the last call and for the end
				t.Errorf("%s ended %v after the other node", a.name, took)
			}
		}
		j.wantCause(good, "the job cannot be complete", "127.0.0.3", "--nnodes 4")
		j.wantSameCause(good...)
	})
}

// TestRefusedNodeIsCorrected checks that a node that is started again, corrected, takes
// part.
func TestRefusedNodeIsCorrected(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "last_call_timeout=20")
	first := j.node(1, "2", "/bin/true")
	odd := j.node(2, "3", "/bin/true")
	j.wantExit(longWait, 75, odd)
	first.waitForStderr("(127.0.0.2): it was started with --nnodes 3")
	j.wantExit(longWait, 0, j.node(2, "2", "/bin/true"), first)
}

// TestStrangersDoNotEndTheWait checks that strangers, of another run or without the
// secret, are named and change nothing.
func TestStrangersDoNotEndTheWait(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "last_call_timeout=0")
	j.env = []string{"GORUN_SECRET=" + strings.Repeat("a", 40)}
	first := j.node(1, "2", "/bin/true")
	j.env[0] = "GORUN_SECRET=" + strings.Repeat("b", 40)
	client := j.run("127.0.0.2", "--nnodes", "2", "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id, "--rdzv-conf", "join_timeout=5", "--local-addr", "127.0.0.2", "/bin/true")
	j.wantExit(longWait, 75, client)
	first.waitForStderr("has another secret") // the address that it dialed from
	j.env[0] = "GORUN_SECRET=" + strings.Repeat("a", 40)
	j.wantExit(longWait, 0, j.node(2, "2", "/bin/true"), first)
	other := newJob(t)
	first = other.node(1, "2", "/bin/true")
	other.id += "x"
	j.wantExit(longWait, 75, other.node(2, "2", "/bin/true"))
	first.waitForStderr("(127.0.0.2): it belongs to run")
	other.id = strings.TrimSuffix(other.id, "x")
	j.wantExit(longWait, 0, other.node(3, "2", "/bin/true"), first)
}
