package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// The times that TestPartition sets: a node that is silent for so long counts as lost.
const (
	detection     = 3 * time.Second
	detectionConf = "keep_alive_interval=0.5,keep_alive_max_attempt=6"
)

// noteTerm is a worker that notes when it got SIGTERM.
const noteTerm = `trap "date +%s%N >$E2E_DIR/stopped.$TORCHELASTIC_RESTART_COUNT.$RANK; exit 0" TERM; ` +
	`echo up $RANK of $WORLD_SIZE; while :; do sleep 0.02; done`

// TestPartition checks that when a node is cut off, both sides notice it, stop their
// workers, say why, and end.
func TestPartition(t *testing.T) {
	t.Parallel()
	for _, target := range []int{1, 3} {
		t.Run(fmt.Sprint("node ", target), func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3)
			j := newJob(t, "--rdzv-conf", detectionConf)
			agents := l.nodes(j, "3", sh(noteTerm)...)
			for _, a := range agents {
				a.waitForStdout("up", 1)
			}
			cut := l.cut(target)
			j.wantExit(longWait, 137, agents...)
			for rank, a := range agents {
				stopped := j.stamp(fmt.Sprint("stopped.0.", rank)).Sub(cut)
				t.Logf("%s: workers stopped %v after the cut, agent ended %v after it", a.name,
					stopped.Round(time.Millisecond), a.ended.Sub(cut).Round(time.Millisecond))
				if stopped > 2*detection+shortWait {
					t.Errorf("%s: workers stopped %v after the cut", a.name, stopped)
				}
				if took := a.ended.Sub(cut); took > 4*detection+shortWait {
					t.Errorf("%s ended %v after the cut", a.name, took)
				}
			}
			others := slices.Delete(slices.Clone(agents), target-1, target)
			j.wantCause(others, l.addr(target), "was lost")
			j.wantSameCause(others...)
			j.wantCause(agents[target-1:target], "was lost")
		})
	}
}

// TestElasticPartition checks that in an elastic job the larger part goes on without the
// node that was cut off. That node stops and says why.
func TestElasticPartition(t *testing.T) {
	t.Parallel()
	for _, target := range []int{1, 3} {
		t.Run(fmt.Sprint("node ", target), func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3)
			j := newJob(t, "--max-restarts", "1", "--rdzv-conf", detectionConf+",last_call_timeout=1,join_timeout=10")
			agents := l.nodes(j, "2:3", sh(`[ $TORCHELASTIC_RESTART_COUNT = 1 ] && { echo again $RANK of $WORLD_SIZE; exit 0; }; `+noteTerm)...)
			for _, a := range agents {
				a.waitForStdout("of 3", 1)
			}
			l.cut(target)
			others := slices.Delete(slices.Clone(agents), target-1, target)
			j.wantExit(longWait, 0, others...)
			for rank, a := range others {
				a.waitForStdout(fmt.Sprintf("again %d of 2", rank), 1)
			}
			alone := agents[target-1]
			if code := alone.wait(longWait); code != 75 && code != 137 {
				t.Errorf("%s ended with %d", alone.name, code)
			}
			if strings.Contains(alone.out.String(), "again") {
				t.Errorf("%s went on alone", alone.name)
			}
			t.Logf("%s says: %s", alone.name, alone.lastLine())
		})
	}
}

// TestHealedPartition checks that a side that had to stop while the network was cut
// finds the job again when the network heals. It then joins like a new node.
func TestHealedPartition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, backend string
		endpoints     []int
		stops         []int // the hosts that the others go on without
	}{
		{"two of four", "gossip", []int{1}, []int{3, 4}},
		{"the first endpoint's", "gossip", []int{1, 4}, []int{1}},
		{"etcd", "etcd", nil, []int{3, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 4)
			j := newJob(t, "--rdzv-backend", c.backend, "--max-restarts", "3", "--on-join", "restart")
			var at []string
			for _, i := range c.endpoints {
				at = append(at, l.addr(i))
			}
			conf := detectionConf + ",last_call_timeout=0.5,join_timeout=60"
			if c.backend == "etcd" {
				at = l.etcd(etcdtest.Start(t, etcdtest.Options{}).Endpoints())[:1]
				conf += ",ttl=3,lost_timeout=20"
			}
			for i := 1; i <= 4; i++ {
				l.node(j, i, strings.Join(at, ","), "2:4", with(j.world(), "--node-rank", fmt.Sprint(i-1), "--rdzv-conf", conf)...)
			}
			for _, a := range j.agents {
				a.waitForStdout("of 4 restart 0", 1)
			}
			l.split(c.stops...)
			for i, a := range j.agents {
				if slices.Contains(c.stops, i+1) {
					eventually(t, longWait, a.name+" stops its worker", func() bool { // by SIGKILL, if it is late
						return slices.ContainsFunc(readNotes[workerNote](j.dir, "seat.*"), func(s workerNote) bool { return s.Node == a.name && !s.isAlive() })
					})
				} else {
					a.waitForStdout(fmt.Sprintf("of %d restart 1", 4-len(c.stops)), 1)
				}
			}
			healed := l.join(c.stops...)
			for _, a := range j.agents {
				a.waitForStdout("of 4 restart 1", 1)
				t.Logf("%s is in the world of all %v after the network healed", a.name, time.Since(healed).Round(time.Millisecond))
			}
			j.checkNoOverlap()
			j.touch("go")
			j.wantExit(longWait, 0, j.agents...)
		})
	}
}
