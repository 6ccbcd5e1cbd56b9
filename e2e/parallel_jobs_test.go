package e2e_test

import (
	"fmt"
	"testing"
)

// printRank is a worker that prints its rank, the world's size and the run id.
const printRank = `echo "rank $RANK of $WORLD_SIZE in $TORCHELASTIC_RUN_ID"; sleep 0.3`

// TestTwoJobsAtOnce checks that two jobs on one machine do not see each other, however
// they are started.
func TestTwoJobsAtOnce(t *testing.T) {
	t.Parallel()
	a, b := newJob(t), newJob(t)
	as, bs := a.nodes(2, sh(printRank)...), b.nodes(2, sh(printRank)...)
	a.wantExit(longWait, 0, as...)
	b.wantExit(longWait, 0, bs...)
	for rank := range 2 {
		as[rank].waitForStdout(fmt.Sprintf("rank %d of 2 in %s\n", rank, a.id), 1)
		bs[rank].waitForStdout(fmt.Sprintf("rank %d of 2 in %s\n", rank, b.id), 1)
	}
}

// TestLocalNodesTwice checks that --local-nodes may be used several times at once, and
// one such job's failure is not another's.
func TestLocalNodesTwice(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--local-nodes", "3")
	good := j.run("good", sh(printRank)...)
	bad := j.run("bad", onRank("2", "exit 7")...)
	alone := j.run("standalone", append([]string{"--standalone"}, sh("exit 0")...)...)
	j.wantExit(longWait, 0, good)
	j.wantExit(longWait, 7, bad)
	j.wantExit(longWait, 2, alone) // contradicts --local-nodes
	for rank := range 3 {
		good.waitForStdout(fmt.Sprintf("rank %d of 3", rank), 1)
	}
	j.wantCause([]*agent{bad}, "rank 2 on", "exited with code 7")
}

// TestNumberOfLocalNodes checks that one local node is a node alone; and each of many
// has a rank of its own, also when they are more than a finding about ranks shows.
func TestNumberOfLocalNodes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 26} {
		j := newJob(t, "--local-nodes", fmt.Sprint(n))
		a := j.run("all", sh(`echo "$GROUP_RANK of $GROUP_WORLD_SIZE at $GORUN_NODE_ADDR"`)...)
		j.wantExit(longWait, 0, a)
		for i := range n {
			a.waitForStdout(fmt.Sprintf("%d of %d at 127.0.0.%d\n", i, n, i+1), 1)
		}
	}
}

// TestStandaloneTwice checks that jobs on one node that choose no port get along.
func TestStandaloneTwice(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone", "--nproc-per-node", "2")
	a, b := j.run("a", sh(printRank)...), j.run("b", sh(printRank)...)
	j.wantExit(longWait, 0, a, b)
}
