package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// inEtcd makes a job meet in etcd, at the given endpoints.
func (j *job) inEtcd(endpoints ...string) *job {
	j.endpoint = strings.Join(endpoints, ",")
	j.flags = append([]string{"--rdzv-backend", "etcd"}, j.flags...)
	return j
}

// newEtcdJob makes a job that meets in a cluster.
func newEtcdJob(t testing.TB, c *etcdtest.Cluster, flags ...string) *job {
	t.Helper()
	return newJob(t, flags...).inEtcd(c.Endpoints()...)
}

// forEachBackend runs a story once over gossip and once over its own etcd, in which no key
// may be left.
func forEachBackend(t *testing.T, story func(t *testing.T, newJob func(flags ...string) *job)) {
	t.Run("gossip", func(t *testing.T) {
		t.Parallel()
		story(t, func(flags ...string) *job { return newJob(t, flags...) })
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c := etcdtest.Start(t, etcdtest.Options{})
		story(t, func(flags ...string) *job { return newEtcdJob(t, c, flags...) })
		// The keys of a killed node stay until its lease ends, five seconds later.
		eventually(t, longWait, "nothing is left in etcd", func() bool { return len(keysIn(t, c)) == 0 })
		wantEtcdEmpty(t, c)
	})
}

// wantEtcdEmpty asserts that the jobs, which ended in order, left no keys in etcd.
func wantEtcdEmpty(t testing.TB, c *etcdtest.Cluster) {
	t.Helper()
	if keys := keysIn(t, c); len(keys) > 0 {
		t.Errorf("left in etcd: %v", keys)
	}
	leases, err := c.Client().Leases(t.Context())
	if err != nil || len(leases.Leases) > 0 {
		t.Errorf("left in etcd: %v leases (%v)", leases, err)
	}
}

func keysIn(t testing.TB, c *etcdtest.Cluster) []string {
	t.Helper()
	keys, err := c.Keys("")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestEtcd checks that a job meets in one etcd or in a cluster of three. However it
// ends, no key stays there.
func TestEtcd(t *testing.T) {
	t.Parallel()
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			c := etcdtest.Start(t, etcdtest.Options{Members: members})
			t.Run("success", func(t *testing.T) {
				j := newEtcdJob(t, c)
				agents := j.nodes(3, sh(printRank)...)
				j.wantExit(longWait, 0, agents...)
				for rank, a := range agents {
					a.waitForStdout(fmt.Sprint("rank ", rank, " of 3"), 1)
				}
				wantEtcdEmpty(t, c)
			})
			t.Run("failure", func(t *testing.T) {
				j := newEtcdJob(t, c)
				agents := j.nodes(3, with(onRank("4", "echo oops >&2; exit 3"), "--nproc-per-node", "2")...)
				j.wantExit(longWait, 3, agents...)
				j.wantCause(agents, "rank 4 on", "127.0.0.3", "exited with code 3")
				j.wantSameCause(agents...)
				wantEtcdEmpty(t, c)
			})
			t.Run("Ctrl-C", func(t *testing.T) {
				j := newEtcdJob(t, c)
				agents := j.nodes(3, sh(printRankForever)...)
				for _, a := range agents {
					a.waitForStdout("up", 1)
				}
				if keys := keysIn(t, c); len(keys) != 5 { // one for each node, the coordinator's key and the round's
					t.Errorf("keys of a running job: %v", keys)
				}
				agents[2].signal(syscall.SIGINT)
				j.wantExit(longWait, 130, agents...)
				j.wantCause(agents, "stopped:", "127.0.0.3", "received SIGINT")
				j.wantSameCause(agents...)
				wantEtcdEmpty(t, c)
			})
			t.Run("Ctrl-C while waiting", func(t *testing.T) {
				j := newEtcdJob(t, c)
				agents := []*agent{j.node(1, "3", sh(printRankForever)...), j.node(2, "3", sh(printRankForever)...)}
				for _, a := range agents {
					a.waitForStderr("have 2 of 3 nodes")
				}
				agents[0].signal(syscall.SIGINT)
				j.wantExit(longWait, 130, agents...)
				j.wantSameCause(agents...)
				wantEtcdEmpty(t, c)
			})
		})
	}
}

// TestEtcdNames checks that etcd-v2 means the same as etcd, and gorun says so. Nodes of
// one machine can meet in etcd too. Two jobs do not see each other.
func TestEtcdNames(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	old := newJob(t, "--rdzv-backend", "etcd-v2")
	old.endpoint = c.Endpoints()[0]
	local := newJob(t, "--local-nodes", "3", "--rdzv-backend", "etcd", "--rdzv-endpoint", c.Endpoints()[0])
	agents := old.nodes(2, sh(printRank)...)
	three := local.run("local", with(sh(printRank), "--rdzv-id", local.id)...)
	old.wantExit(longWait, 0, agents...)
	local.wantExit(longWait, 0, three)
	for rank, a := range agents {
		a.waitForStderr("etcd-v2 means etcd here: gorun uses etcd's API v3")
		a.waitForStdout(fmt.Sprintf("rank %d of 2 in %s\n", rank, old.id), 1)
	}
	for rank := range 3 {
		three.waitForStdout(fmt.Sprintf("rank %d of 3 in %s\n", rank, local.id), 1)
	}
	wantEtcdEmpty(t, c)
}

// TestEtcdJobKilled checks that the keys that a killed job left in etcd end with its
// leases. Its run id can be used at once, because its nodes refuse connections and so
// count as lost.
func TestEtcdJobKilled(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	const conf = "ttl=5,lost_timeout=2"
	killed := func(t *testing.T) *job {
		j := newEtcdJob(t, c, "--rdzv-conf", conf, "--shutdown-timeout", "1")
		agents := j.nodes(2, sh(printRankForever)...)
		for _, a := range agents {
			a.waitForStdout("up", 1)
		}
		j.killAll()
		j.wantExit(longWait, 137, agents...)
		if keys := keysIn(t, c); len(keys) != 4 {
			t.Errorf("keys of a job that was killed just now: %v", keys)
		}
		return j
	}
	t.Run("again", func(t *testing.T) {
		first := killed(t)
		again := newEtcdJob(t, c, "--rdzv-conf", conf)
		again.id = first.id
		began := time.Now()
		agents := again.nodes(2, sh(printRank)...)
		again.wantExit(longWait, 0, agents...)
		t.Logf("the same run id again: done %v after the kill", time.Since(began).Round(time.Millisecond))
	})
	t.Run("leases", func(t *testing.T) {
		killed(t)
		// The round's lease is the longest: lost_timeout, the grace and ten seconds.
		eventually(t, longWait, "everything is gone with the leases", func() bool { return len(keysIn(t, c)) == 0 })
	})
}
