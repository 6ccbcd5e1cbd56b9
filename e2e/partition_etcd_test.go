package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/etcd/etcdtest"
)

// firstStart returns when the first worker with that restart count started. ok is false
// while there is no such worker.
func (j *job) firstStart(restart int) (first time.Time, ok bool) {
	for _, s := range readNotes[workerNote](j.dir, "seat.*") {
		if s.Restart == restart && (!ok || s.Time.Before(first)) {
			first, ok = s.Time, true
		}
	}
	return first, ok
}

// TestCutFromEverything checks that a node that is cut off from everything, etcd too,
// stops its workers before the others begin the next round with the spare.
func TestCutFromEverything(t *testing.T) {
	t.Parallel()
	for _, stubborn := range []bool{false, true} {
		for target, where := range map[int]string{1: "coordinator", 3: "member"} {
			t.Run(fmt.Sprintf("%s stubborn %v", where, stubborn), func(t *testing.T) {
				t.Parallel()
				c := etcdtest.Start(t, etcdtest.Options{})
				l := newLAN(t, 4)
				j := newJob(t, "--rdzv-backend", "etcd", "--max-restarts", "1", "--shutdown-timeout", "8", "--rdzv-conf", "ttl=3,join_timeout=20,lost_timeout=20")
				endpoint := l.etcd(c.Endpoints())[0]
				if stubborn { // then only SIGKILL helps, and the grace is longer than the lease
					j.touch("stubborn")
				}
				for i := 1; i <= 4; i++ {
					a := l.node(j, i, endpoint, "3", j.world()...)
					switch i {
					case 1:
						a.waitForStderr("have 1 of 3 nodes") // it coordinates
					case 3:
						for _, a := range j.agents {
							a.waitForStdout("round 0 ", 1)
						}
					case 4:
						a.waitForStderr("hot spare")
					}
				}
				cut := l.cut(target)
				next := time.Time{}
				eventually(t, 2*longWait, "the next round starts", func() (ok bool) { next, ok = j.firstStart(1); return ok })
				for i, a := range j.agents {
					if i != target-1 {
						a.waitForStdout("of 3 restart 1", 1)
					}
				}
				for _, s := range readNotes[workerNote](j.dir, "stopped.*") {
					if s.Node == l.addr(target) {
						t.Logf("workers of the node that was cut off stopped %v after the cut, the next round began %v after it",
							s.Time.Sub(cut).Round(time.Millisecond), next.Sub(cut).Round(time.Millisecond))
					}
				}
				j.checkNoOverlap()
				j.touch("go")
				others := slices.Delete(slices.Clone(j.agents), target-1, target)
				j.wantExit(longWait, 0, others...)
				lost := j.agents[target-1]
				if code := lost.wait(2 * longWait); code != 137 && code != 75 {
					t.Errorf("%s: exit code %d", lost.name, code)
				}
				t.Logf("%s says: %s", lost.name, lost.lastLine())
			})
		}
	}
}

// Two nodes and two nodes lose each other. At most one side goes on: the side of etcd,
// or over gossip the side of the first rank. The other side says so and stops.
func TestEvenPartition(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"gossip", "etcd"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 4)
			j := newJob(t, "--rdzv-backend", backend, "--max-restarts", "1")
			endpoint, conf := l.addr(1), detectionConf+",last_call_timeout=1,join_timeout=12"
			if backend == "etcd" {
				endpoint = l.etcd(etcdtest.Start(t, etcdtest.Options{}).Endpoints())[0]
				conf += ",ttl=3,lost_timeout=20"
			}
			for i := 1; i <= 4; i++ {
				l.node(j, i, endpoint, "2:4", with(j.world(), "--rdzv-conf", conf)...)
			}
			for _, a := range j.agents {
				a.waitForStdout("of 4 restart 0", 1)
			}
			l.split(3, 4)
			near, far := j.agents[:2], j.agents[2:]
			for _, a := range near {
				a.waitForStdout("of 2 restart 1", 1)
			}
			for _, a := range far {
				if code := a.wait(2 * longWait); code != 75 && code != 137 {
					t.Errorf("%s: exit code %d", a.name, code)
				}
				if strings.Contains(a.out.String(), "restart 1") {
					t.Errorf("%s went on, too", a.name)
				}
				t.Logf("%s says: %s", a.name, a.lastLine())
			}
			j.checkWorldsAgree()
			if backend == "etcd" {
				j.checkNoOverlap()
			}
			j.touch("go")
			j.wantExit(longWait, 0, near...)
		})
	}
}
