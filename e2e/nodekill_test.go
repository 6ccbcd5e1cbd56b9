package e2e_test

import (
	"fmt"
	"strings"
	"testing"
)

// nodeKills is how often TestNodeKilled kills a node.
const nodeKills = 5

// A node of an elastic job is killed: its keeper or its agent alone, both, or a
// container with all of its processes. Then the others go on without it, and none of its
// processes survives.
func TestNodeKilled(t *testing.T) {
	t.Parallel()
	forEachBackend(t, func(t *testing.T, newJob func(...string) *job) {
		flags := []string{"--max-restarts", "1000", "--rdzv-conf", "last_call_timeout=0.1", "--on-join=restart"}
		script := sh(`[ -z "$E2E_DAEMON" ] || { setsid sleep 300 & } ; echo rank $RANK of $WORLD_SIZE; while [ ! -e $E2E_DIR/go ]; do sleep 0.02; done`)
		j := newJob(flags...)
		first := j.node(1, "1:2", script...)
		first.waitForStdout("rank 0 of 1", 1)
		for i := range nodeKills {
			way := []string{"keeper", "agent", "container", "both", "container"}[i%5]
			other := newJob(flags...) // the same job, with processes of its own
			other.id, other.endpoint, other.dir = j.id, j.endpoint, j.dir
			if way != "both" { // with "both" only the workers themselves are killed
				other.env = []string{"E2E_DAEMON=1"}
			}
			var second *agent
			if way == "container" {
				second = other.container(with(script, "--nnodes", "1:2", "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id, "--local-addr", "127.0.0.2")...)
			} else {
				second = other.node(2, "1:2", script...)
			}
			second.waitForStdout("rank 1 of 2", 1)
			first.waitForStdout("rank 0 of 2", i+1)
			switch way {
			case "keeper":
				j.kill(second.keeper())
			case "agent":
				j.kill(second.pid())
			case "both":
				agent := second.pid()
				j.kill(second.keeper())
				j.kill(agent)
			case "container": // with its PID 1 the kernel kills all others, in any order
				j.kill(second.pid())
			}
			eventually(t, longWait, fmt.Sprintf("the first node goes on alone (%d, %s)", i, way), func() bool {
				return strings.Count(first.out.String(), "rank 0 of 1") >= i+2 || !first.running()
			})
			if !first.running() {
				t.Fatalf("%d, %s: the first node ended with %d: %s", i, way, first.code, first.lastLine())
			}
			other.wantNoProcess()
			if code := second.wait(longWait); code != 137 && way != "container" { // unshare has a code of its own
				t.Errorf("%d, %s: exit code %d", i, way, code)
			}
		}
		j.touch("go")
		j.wantExit(longWait, 0, first)
	})
}
