package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/store"
)

// TestNewNodeJoins checks that an elastic job takes a new node in after a last call, or
// at once when the job is full. The next round has more workers, and is no restart.
func TestNewNodeJoins(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		logs := t.TempDir()
		j := newJob("--rdzv-conf", "last_call_timeout=1", "--on-join=restart", "--log-dir", logs, "--tee", "1")
		j.node(1, "1:3", sh(recordRound)...).waitForStdout("round 0 rank 0 of 1 restart 0", 1)
		j.node(2, "1:3", sh(recordRound)...).waitForStdout("rank 1 of 2 restart 0", 1)
		first := j.agents[0]
		first.waitForStdout("rank 0 of 2 restart 0", 1)
		j.node(3, "1:3", sh(recordRound)...).waitForStdout("rank 2 of 3 restart 0", 1)
		first.waitForStdout("rank 0 of 3 restart 0", 1)
		for _, a := range j.agents {
			if s := a.status(); s.Restart != 0 || s.WorldSize != 3 {
				t.Errorf("%s: %+v", a.name, s)
			}
		}
		spare := j.node(4, "1:3", sh(recordRound)...)
		spare.waitForStderr("hot spare")
		j.touch("go")
		j.wantExit(longWait, 0, j.agents...)
		t.Log(first.err)
		for i, size := range []string{"of 1", "of 2", "of 3"} {
			name := "attempt_0"
			if i > 0 {
				name += fmt.Sprint(".", i)
			}
			files, _ := filepath.Glob(filepath.Join(logs, "*", name, "0", "stdout.log"))
			text := ""
			for _, f := range files {
				b, _ := os.ReadFile(f)
				text += string(b)
			}
			if !strings.Contains(text, "rank 0 "+size) {
				t.Errorf("no log of the round %s in %s: %q", size, name, text)
			}
		}
	})
}

// TestNewNodeWaits checks that with --on-join=wait a new node waits for the next round.
func TestNewNodeWaits(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		j := newJob("--rdzv-conf", "last_call_timeout=0.5", "--on-join=wait", "--max-restarts", "1")
		script := sh(`[ $TORCHELASTIC_RESTART_COUNT = 0 ] && { echo first $RANK of $WORLD_SIZE; while [ ! -e $E2E_DIR/fail ]; do sleep 0.02; done; exit 5; }; ` + recordRound)
		first := j.node(1, "1:2", script...)
		first.waitForStdout("first 0 of 1", 1)
		second := j.node(2, "1:2", script...)
		second.waitForStderr("this node gets a place when the next round starts")
		if s := first.status(); s.WorldSize != 1 || len(s.Nodes) != 2 || s.Nodes[1].Standing != "spare" {
			t.Errorf("%+v", s)
		}
		j.touch("fail")
		first.waitForStdout("rank 0 of 2 restart 1", 1)
		second.waitForStdout("rank 1 of 2 restart 1", 1)
		j.touch("go")
		j.wantExit(longWait, 0, first, second)
		if n := strings.Count(first.out.String(), "\n"); n != 2 {
			t.Errorf("%d rounds: %s", n, first.out)
		}
	})
}

// TestNodeTakenOut checks that SIGTERM takes one node out of an elastic job, the
// coordinator or another, and the others go on, in their order, without a restart;
// SIGINT ends all.
func TestNodeTakenOut(t *testing.T) {
	t.Parallel()
	for target, where := range []string{"coordinator", "member"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
				j := newJob("--rdzv-conf", "last_call_timeout=0.5")
				first := j.node(1, "2:3", sh(recordRound)...)
				first.waitForStderr("have 1 of 2 to 3 nodes") // it coordinates
				three := []*agent{first, j.node(2, "2:3", sh(recordRound)...), j.node(3, "2:3", sh(recordRound)...)}
				for _, a := range three {
					a.waitForStdout("of 3 restart 0", 1)
				}
				three[target].signal(syscall.SIGTERM)
				j.wantExit(longWait, 143, three[target])
				j.wantCause(three[target:target+1], "received SIGTERM")
				rank := 0
				for i, a := range three {
					if i != target {
						a.waitForStdout(fmt.Sprintf("rank %d of 2 restart 0", rank), 1)
						a.waitForStderr(fmt.Sprintf("(127.0.0.%d) left", target+1))
						rank++
					}
				}
				t.Logf("%s\n%s", three[target].err, three[2].err)
				three[2].signal(syscall.SIGINT)
				for i, a := range three {
					if i != target {
						j.wantExit(longWait, 130, a)
						j.wantCause([]*agent{a}, "(127.0.0.3) received SIGINT")
					}
				}
			})
		})
	}
}

// TestFreshStoreAfterGrowth checks that each round of a job that grows has a store of
// its own.
func TestFreshStoreAfterGrowth(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		j := newJob("--rdzv-conf", "last_call_timeout=0.5")
		j.node(1, "1:2", self, playFlag, playStore).waitForStdout("rank 0 of 1: 1 in the store, which was empty: true", 1)
		j.node(2, "1:2", self, playFlag, playStore).waitForStdout("rank 1 of 2: 2 in the store, which was empty: true", 1)
		j.agents[0].waitForStdout("rank 0 of 2: 2 in the store, which was empty: true", 1)
		j.touch("go")
		j.wantExit(longWait, 0, j.agents...)
	})
}

// playStore is a worker that counts the others of its round in the store.
const playStore = "store"

func countInStore() int {
	ctx, cancel := context.WithTimeout(context.Background(), longWait)
	defer cancel()
	c, err := store.Dial(ctx, net.JoinHostPort(os.Getenv("MASTER_ADDR"), os.Getenv("MASTER_PORT")))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer c.Close()
	rank, size := os.Getenv("RANK"), os.Getenv("WORLD_SIZE")
	stale, err := c.Check(ctx, "rank"+rank)
	if err == nil {
		err = c.Set(ctx, "rank"+rank, nil)
	}
	n, one := int64(0), int64(1)
	for err == nil && fmt.Sprint(n) != size { // more than there are would never end, but ctx does
		n, err = c.Add(ctx, "count", one)
		one = 0
		time.Sleep(5 * time.Millisecond) // sleep: between two looks
	}
	fmt.Printf("rank %s of %s: %d in the store, which was empty: %v\n", rank, size, n, !stale)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(os.Getenv(envDir), "go")); err == nil {
			return 0
		}
		time.Sleep(10 * time.Millisecond) // sleep: between two looks
	}
	return 1
}
