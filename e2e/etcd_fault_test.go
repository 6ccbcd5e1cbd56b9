package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// The leader of etcd is killed while a job runs. The job does not notice, not even when
// the next round begins under the new leader.
func TestEtcdLeaderKilled(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	j := newEtcdJob(t, c, "--max-restarts", "1")
	agents := j.nodes(3, sh(`[ $RANK.$TORCHELASTIC_RESTART_COUNT = 1.0 ] && { echo up; while [ ! -e $E2E_DIR/fail ]; do sleep 0.02; done; exit 5; }; echo up; `+recordRound)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	leader := -1
	eventually(t, longWait, "somebody leads etcd", func() bool { leader = c.Leader(); return leader >= 0 })
	c.Kill(leader)
	eventually(t, longWait, "another one leads", func() bool { l := c.Leader(); return l >= 0 && l != leader })
	j.touch("fail")
	for _, a := range agents {
		a.waitForStdout("of 3 restart 1", 1)
	}
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
	wantEtcdEmpty(t, c)
}

// TestEtcdMajorityPaused checks that without a majority in etcd no round begins, but
// workers go on. When the majority is back, the job is as it was.
func TestEtcdMajorityPaused(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	j := newEtcdJob(t, c, "--max-restarts", "1", "--rdzv-conf", "ttl=3")
	agents := j.nodes(2, sh(`[ $RANK.$TORCHELASTIC_RESTART_COUNT = 1.0 ] && { echo up; while [ ! -e $E2E_DIR/fail ]; do sleep 0.02; done; exit 5; }; echo up; `+recordRound)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	for i := range 2 {
		if err := c.Stop(i); err != nil {
			t.Fatal(err)
		}
	}
	const note = "the workers go on as long as this node's connection to the others does"
	for _, a := range agents {
		a.waitForStderr(note)
	}
	j.touch("fail")
	agents[0].waitForStderr("exited with code 5")
	agents[0].waitForStderr("does not confirm this node's membership") // what it waits for
	for _, a := range agents {
		if strings.Contains(a.out.String(), "restart 1") {
			t.Errorf("%s began a round without etcd", a.name)
		}
	}
	for i := range 2 {
		if err := c.Cont(i); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range agents {
		a.waitForStdout("of 2 restart 1", 1)
	}
	j.touch("go")
	j.wantExit(longWait, 0, agents...)
	t.Log(agents[0].err)
	// A lease whose grant was lost on the way has no keys. It ends by itself.
	if keys := keysIn(t, c); len(keys) > 0 {
		t.Errorf("left in etcd: %v", keys)
	}
}

// TestEtcdLost checks that a job may run without etcd for lost_timeout. Then every node
// ends with 75 and the same cause.
func TestEtcdLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
	j := newEtcdJob(t, c, "--rdzv-conf", "lost_timeout=3")
	agents := j.nodes(3, sh(recordRound)...)
	for _, a := range agents {
		a.waitForStdout("round 0", 1)
	}
	lost := time.Now()
	c.Kill(0)
	c.Kill(1)
	j.wantExit(longWait, 75, agents...)
	for rank, a := range agents {
		after := j.stamp(fmt.Sprint("stopped.0.", rank)).Sub(lost)
		if after < 1500*time.Millisecond { // etcd's last answer was at most a third of a lease old
			t.Errorf("%s: workers were stopped after %v", a.name, after)
		}
	}
	j.wantCause(agents, "has not answered for", "the job ends")
	j.wantSameCause(agents...)
	t.Logf("%v after etcd's majority: %s", agents[0].ended.Sub(lost).Round(100*time.Millisecond), agents[0].err)
}

// TestCutFromEtcdOnly checks that a node that cannot reach etcd, but all other nodes,
// goes on with them.
func TestCutFromEtcdOnly(t *testing.T) {
	t.Parallel()
	for target, where := range []string{"coordinator", "member"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := etcdtest.Start(t, etcdtest.Options{})
			link := etcdtest.NewProxy(t, c.Endpoints()[0])
			j := newEtcdJob(t, c, "--rdzv-conf", "ttl=3,lost_timeout=20")
			direct := j.endpoint
			for i := range 3 {
				j.endpoint = direct
				if i == target {
					j.endpoint = link.Addr()
				}
				a := j.node(i+1, "3", sh(recordRound)...)
				if i == 0 {
					a.waitForStderr("have 1 of 3 nodes") // it coordinates
				}
			}
			for _, a := range j.agents {
				a.waitForStdout("round 0", 1)
			}
			link.Cut()
			cut := j.agents[target]
			cut.waitForStderr("the workers go on as long as this node's connection to the others does")
			eventually(t, longWait, "its membership has ended", func() bool {
				nodes := 0
				for _, k := range keysIn(t, c) {
					if strings.Contains(k, "/node/") {
						nodes++
					}
				}
				return nodes == 2
			})
			s := cut.status()
			if s.State != "running" || s.WorldSize != 3 || s.Round != 0 {
				t.Errorf("%+v", s)
			}
			link.Mend()
			cut.waitForStderr("answers again")
			j.touch("go")
			j.wantExit(longWait, 0, j.agents...)
			for _, a := range j.agents {
				if strings.Count(a.out.String(), "round") != 1 {
					t.Errorf("%s: %s", a.name, a.out)
				}
			}
			t.Log(cut.err)
			wantEtcdEmpty(t, c)
		})
	}
}
