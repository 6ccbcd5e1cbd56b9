package e2e_test

import (
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// withFewFiles limits the files that an agent may open.
func (j *job) withFewFiles(cmd *exec.Cmd) *exec.Cmd {
	cmd.Args = append([]string{"/bin/sh", "-c", `ulimit -n 200; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return cmd
}

// openIdle opens silent connections to every port and socket of an agent: more than the
// agent may have files.
func openIdle(t testing.TB, a *agent) {
	t.Helper()
	var wg sync.WaitGroup
	for _, at := range portsOf(t, a.pid()).tcp {
		wg.Go(func() {
			for range 250 {
				c, err := net.DialTimeout("tcp", at.String(), time.Second)
				if err != nil {
					return // the port's queue is full, too
				}
				t.Cleanup(func() { c.Close() })
			}
		})
	}
	wg.Wait()
}

// TestIdleConnections checks that silent connections take no descriptor from the
// workers. With them, a job of agents that may open few files still restarts, and
// another node can join.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gossip", "static"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--max-restarts", "1", "--preflight", "off", "-t", "3", "--log-dir", t.TempDir())
			j.env = []string{"GORUN_SECRET=" + jobSecret}
			_, port, _ := strings.Cut(j.endpoint, ":")
			script := sh(`echo up; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || { until [ -e $E2E_DIR/go ]; do sleep 0.05; done; exit 3; }`)
			start := func(rank string) *agent {
				args := append([]string{"--nnodes", "2", "--nproc-per-node", "4", "--node-rank", rank, "--rdzv-id", j.id}, script...)
				if kind == "static" {
					args = append([]string{"--master-addr", "127.0.0.1", "--master-port", port}, args...)
				} else {
					args = append([]string{"--rdzv-endpoint", j.endpoint, "--local-addr", "127.0.0.1"}, args...)
				}
				return j.launch("node "+rank, j.withFewFiles(j.command(args...)))
			}
			first := start("0")
			first.waitForStderr("have 1 of 2 nodes")
			openIdle(t, first)
			agents := []*agent{first, start("1")}
			for _, a := range agents {
				a.waitForStdout("up", 4)
				openIdle(t, a)
			}
			j.touch("go")
			j.wantExit(longWait, 0, agents...)
			for _, a := range agents {
				a.waitForStdout("up", 8)
			}
		})
	}
}
