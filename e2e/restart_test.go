package e2e_test

import (
	"fmt"
	"testing"
)

// TestRestart checks that workers that fail twice succeed with two restarts, and see how
// often they were started.
func TestRestart(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "2")
	agents := j.nodes(2, with(sh(`r=$TORCHELASTIC_RESTART_COUNT; echo start $RANK $r of $TORCHELASTIC_MAX_RESTARTS; touch $E2E_DIR/start.$r.$RANK; `+
		`[ $r = 2 ] && exit 0; `+
		`[ $RANK = 3 ] && { while [ $(ls $E2E_DIR/start.$r.* | wc -l) -lt 4 ]; do sleep 0.01; done; exit 9; }; `+printRankForever), "--nproc-per-node", "2")...)
	j.wantExit(longWait, 0, agents...)
	for rank := range 4 {
		for restart := range 3 {
			agents[rank/2].waitForStdout(fmt.Sprintf("start %d %d of 2\n", rank, restart), 1)
		}
	}
	agents[0].waitForStderr("restart 1 of 2")
	agents[1].waitForStderr("restart 2 of 2")
}

// TestRestartsAreCountedForTheJob checks that the job counts restarts, not each agent.
// With one restart, a failure on one node and then on the other ends the job, with the
// last cause.
func TestRestartsAreCountedForTheJob(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1")
	agents := j.nodes(2, sh(`[ $RANK = $TORCHELASTIC_RESTART_COUNT ] && exit $((11 + RANK)); `+printRankForever)...)
	j.wantExit(longWait, 12, agents...)
	j.wantCause(agents, "rank 1", "exited with code 12")
	j.wantSameCause(agents...)
}

// TestLostNodeIsNotReplaced checks that a job that cannot restart, because no node takes
// the place of a lost one, says why it wanted to restart.
func TestLostNodeIsNotReplaced(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1", "--rdzv-conf", "join_timeout=5")
	agents := j.nodes(2, sh("echo up; "+printRankForever)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	j.kill(agents[1].pid())
	j.wantExit(longWait, 75, agents[0])
	j.wantCause(agents[:1], "1 of 2 nodes came within 5s", "127.0.0.2) was lost")
	j.wantExit(longWait, 137, agents[1])
}

// TestRoundsDoNotOverlap checks that no worker of a round starts while a worker of the
// previous round lives on any node.
func TestRoundsDoNotOverlap(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "2")
	now := `$(date +%s%N)`
	agents := j.nodes(2, with(sh(`r=$TORCHELASTIC_RESTART_COUNT; echo `+now+` >$E2E_DIR/begin.$r.$RANK; `+
		`trap "sleep 0.$((RANK * 2)); echo \`+now+` >$E2E_DIR/end.$r.$RANK; exit 0" TERM; echo up; [ $r = 2 ] && exit 0; `+
		`[ $RANK = 0 ] && { sleep 0.3; echo `+now+` >$E2E_DIR/end.$r.0; exit 1; }; while :; do sleep 0.02; done`), "--nproc-per-node", "2")...)
	j.wantExit(longWait, 0, agents...)
	for r := range 2 {
		for a := range 4 {
			for b := range 4 {
				end, begin := j.stamp(fmt.Sprintf("end.%d.%d", r, a)), j.stamp(fmt.Sprintf("begin.%d.%d", r+1, b))
				if !end.Before(begin) {
					t.Errorf("rank %d of round %d started %v before rank %d of round %d ended", b, r+1, end.Sub(begin), a, r)
				}
			}
		}
	}
}

// TestElastic checks that an elastic job goes on with the nodes that are left, whichever
// node dies.
func TestElastic(t *testing.T) {
	t.Parallel()
	for target, where := range []string{"endpoint", "member"} {
		for _, what := range []string{"agent", "keeper"} {
			t.Run(what+" of "+where, func(t *testing.T) {
				t.Parallel()
				j := newJob(t, "--max-restarts", "1", "--rdzv-conf", "last_call_timeout=1")
				agents := j.nodesOf("1:2", 2, sh(`echo up $RANK of $WORLD_SIZE, $TORCHELASTIC_RESTART_COUNT restarts; [ $WORLD_SIZE = 1 ] || { `+printRankForever+`; }`)...)
				for _, a := range agents {
					a.waitForStdout("of 2, 0 restarts", 1)
				}
				pid := agents[target].pid()
				if what == "keeper" {
					pid = agents[target].keeper()
				}
				j.kill(pid)
				j.wantExit(longWait, 137, agents[target])
				other := agents[1-target]
				j.wantExit(longWait, 0, other)
				other.waitForStdout("up 0 of 1, 1 restarts", 1)
				other.waitForStderr("127.0.0." + fmt.Sprint(target+1))
			})
		}
	}
}

// TestElasticGrows checks that a late node with --on-join=wait joins the next round.
func TestElasticGrows(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1", "--rdzv-conf", "last_call_timeout=1", "--on-join=wait")
	script := `echo up $RANK of $WORLD_SIZE; [ $WORLD_SIZE = 2 ] && exit 0; while [ ! -e $E2E_DIR/fail ]; do sleep 0.05; done; exit 5`
	first := j.node(1, "1:2", sh(script)...)
	first.waitForStdout("up 0 of 1", 1)
	second := j.node(2, "1:2", sh(script)...)
	second.waitForStderr("the job runs on ")
	j.touch("fail")
	j.wantExit(longWait, 0, first, second)
	first.waitForStdout("up 0 of 2", 1)
	second.waitForStdout("up 1 of 2", 1)
}
