package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// recordRound is a worker that notes its round. It stays until the job's folder has a file go.
const recordRound = `now() { date +%s%N >$E2E_DIR/$1.$GORUN_ROUND.$RANK.new; mv $E2E_DIR/$1.$GORUN_ROUND.$RANK.new $E2E_DIR/$1.$GORUN_ROUND.$RANK; }; ` +
	`trap "now stopped; exit 0" TERM; now started; ` +
	`echo round $GORUN_ROUND rank $RANK of $WORLD_SIZE restart $TORCHELASTIC_RESTART_COUNT on $GORUN_NODE_ADDR; ` +
	`while [ ! -e $E2E_DIR/go ]; do sleep 0.02; done`

// TestSpare checks that the node that is one too many waits as a hot spare, as it and
// gorun status say. It starts no workers, and ends with the job.
func TestSpare(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		j := newJob()
		two := j.nodes(2, sh(recordRound)...)
		for _, a := range two {
			a.waitForStdout("of 2", 1)
		}
		third := j.node(3, "2", sh(recordRound)...)
		third.waitForStderr("this node is a hot spare and takes the place of one that is lost")
		for _, a := range append(two, third) {
			s := a.status()
			if len(s.Nodes) != 3 || s.Nodes[2].Addr != "127.0.0.3" || s.Nodes[2].Standing != "spare" || s.WorldSize != 2 {
				t.Errorf("%s: %+v", a.name, s)
			}
		}
		table, _, _ := runClient(t, third.client("status"))
		t.Logf("%s\n%s", third.err, table)
		j.touch("go")
		j.wantExit(longWait, 0, j.agents...)
		if out := third.out.String(); out != "" {
			t.Errorf("the spare started a worker: %s", out)
		}
		if !strings.Contains(two[0].err.String()+two[1].err.String(), "(127.0.0.3) came: it waits as a hot spare") {
			t.Error("no node reports a spare")
		}
	})
}

// TestSpareTakesOver checks that the spare takes the place of a node whose agent was
// killed, whichever it was; the others keep their ranks.
func TestSpareTakesOver(t *testing.T) {
	t.Parallel()
	for target, where := range []string{"first", "second", "third"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
				j := newJob("--max-restarts", "1")
				agents := j.nodes(3, sh(recordRound)...)
				for _, a := range agents {
					a.waitForStdout("round 0 ", 1)
				}
				spare := j.node(4, "3", sh(recordRound)...)
				spare.waitForStderr("hot spare")
				killed := time.Now()
				j.kill(agents[target].pid())
				for rank, a := range agents {
					if rank == target {
						a = spare
					}
					a.waitForStdout(fmt.Sprintf("rank %d of 3 restart 1", rank), 1)
				}
				took := time.Duration(0)
				for rank := range agents {
					took = max(took, j.stamp(fmt.Sprint("started.1.", rank)).Sub(killed))
				}
				t.Logf("the last worker of the next round started %v after the kill", took.Round(time.Millisecond))
				j.touch("go")
				j.wantExit(longWait, 137, agents[target])
				for i, a := range append(agents, spare) {
					if i != target {
						j.wantExit(longWait, 0, a)
					}
					if i != target && i < 3 {
						a.waitForStderr(fmt.Sprintf("(127.0.0.%d) was lost: its agent closed the connection without a message", target+1))
					}
				}
			})
		})
	}
}

// TestSpareWithoutRestarts checks that without restarts a spare is no help: the loss of
// a node ends the job, and its cause is the spare's too.
func TestSpareWithoutRestarts(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		for target, name := range []string{"coordinator", "member"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				j := newJob()
				j.TB = t
				agents := []*agent{j.node(1, "2", sh(recordRound)...)}
				agents[0].waitForStderr("have 1 of 2 nodes") // it coordinates
				agents = append(agents, j.node(2, "2", sh(recordRound)...))
				for _, a := range agents {
					a.waitForStdout("round 0 ", 1)
				}
				spare := j.node(3, "2", sh(recordRound)...)
				spare.waitForStderr("hot spare")
				j.kill(agents[target].pid())
				j.wantExit(longWait, 137, j.agents...)
				rest := agents[1-target]
				j.wantCause([]*agent{rest, spare}, fmt.Sprintf("127.0.0.%d", 1+target), "was lost")
				j.wantSameCause(rest, spare)
			})
		}
	})
}

// TestSpareLeaves checks that a spare that leaves does not disturb the job, and a later
// spare can replace it.
func TestSpareLeaves(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		j := newJob("--max-restarts", "1")
		agents := j.nodes(2, sh(recordRound)...)
		for _, a := range agents {
			a.waitForStdout("round 0 ", 1)
		}
		inRemovedFolder := j.node(3, "2", sh(recordRound)...)
		inRemovedFolder.waitForStderr("hot spare")
		j.kill(inRemovedFolder.pid())
		j.wantExit(longWait, 137, inRemovedFolder)
		spare := j.node(4, "2", sh(recordRound)...)
		spare.waitForStderr("hot spare")
		j.kill(agents[0].pid())
		agents[1].waitForStdout("rank 1 of 2 restart 1", 1)
		spare.waitForStdout("rank 0 of 2 restart 1", 1)
		j.touch("go")
		j.wantExit(longWait, 0, agents[1], spare)
		j.wantExit(longWait, 137, agents[0])
	})
}
