package e2e_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/numa"
)

// TestEnvironment checks that the environment of every rank is torchrun's, on nodes with
// different numbers of workers.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "2", "--role", "trainer")
	j.env = []string{"E2E_SENTINEL=of the parent"}
	agents := []*agent{
		j.node(1, "2", with(sh(`env -0 >$E2E_DIR/env.$RANK`), "--nproc-per-node", "1")...),
		j.node(2, "2", with(sh(`env -0 >$E2E_DIR/env.$RANK`), "--nproc-per-node", "3")...),
	}
	j.wantExit(longWait, 0, agents...)
	first := j.environ(0)
	for rank := range 4 {
		env := j.environ(rank)
		local, group, localSize := 0, 0, 1
		if rank > 0 {
			local, group, localSize = rank-1, 1, 3
		}
		want := map[string]string{
			"RANK": fmt.Sprint(rank), "LOCAL_RANK": fmt.Sprint(local), "GROUP_RANK": fmt.Sprint(group),
			"ROLE_RANK": fmt.Sprint(rank), "ROLE_NAME": "trainer", "ROLE_WORLD_SIZE": "4",
			"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": fmt.Sprint(localSize), "GROUP_WORLD_SIZE": "2",
			"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": first["MASTER_PORT"],
			"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "2", "TORCHELASTIC_RUN_ID": j.id,
			"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "OMP_NUM_THREADS": "1",
			"E2E_SENTINEL":      "of the parent",
			"GORUN_RUN_ID":      j.id,
			"GORUN_ROUND":       first["GORUN_ROUND"],
			"GORUN_NODE_ADDR":   fmt.Sprintf("127.0.0.%d", group+1),
			"GORUN_WORLD_TOKEN": first["GORUN_WORLD_TOKEN"],
		}
		for name, value := range want {
			if env[name] != value || value == "" {
				t.Errorf("rank %d: %s=%q, want %q", rank, name, env[name], value)
			}
		}
		if !strings.HasSuffix(env["TORCHELASTIC_ERROR_FILE"], fmt.Sprintf("/attempt_0/%d/error.json", local)) {
			t.Errorf("rank %d: TORCHELASTIC_ERROR_FILE=%q", rank, env["TORCHELASTIC_ERROR_FILE"])
		}
		for name := range env {
			if strings.HasPrefix(name, "GORUN_INTERNAL") {
				t.Errorf("rank %d sees gorun's own %s", rank, name)
			}
		}
	}
}

// environ reads the environment that a worker wrote with env -0.
func (j *job) environ(rank int) map[string]string {
	j.Helper()
	b, err := os.ReadFile(fmt.Sprintf("%s/env.%d", j.dir, rank))
	if err != nil {
		j.Fatal(err)
	}
	env := map[string]string{}
	for kv := range strings.SplitSeq(strings.TrimRight(string(b), "\x00"), "\x00") {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := env[name]; twice {
			j.Errorf("rank %d has %s twice", rank, name)
		}
		env[name] = value
	}
	return env
}

// TestOMPNumThreads checks that OMP_NUM_THREADS is the user's if set. Otherwise, where
// several workers share a node, it is 1, or each worker's share of the cores with
// --omp=cores.
func TestOMPNumThreads(t *testing.T) {
	t.Parallel()
	cpus, _, err := numa.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	share := max(1, len(numa.Cores(os.DirFS("/"), cpus))/2)
	for name, c := range map[string]struct{ nproc, omp, given, want string }{
		"given": {"2", "cores", "OMP_NUM_THREADS=5", "5"}, "several": {"2", "cores", "", fmt.Sprint(share)},
		"torchrun": {"2", "torchrun", "", "1"}, "default": {"2", "", "", "1"}, "one": {"1", "cores", "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--standalone", "--nproc-per-node", c.nproc, "--omp", c.omp)
			cmd := j.command(sh(`echo omp ${OMP_NUM_THREADS-none}`)...)
			cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "OMP_") })
			if c.given != "" {
				cmd.Env = append(cmd.Env, c.given)
			}
			a := j.launch(name, cmd)
			j.wantExit(longWait, 0, a)
			a.waitForStdout("omp "+c.want+"\n", 1)
			if noted := strings.Contains(a.err.String(), "OMP_NUM_THREADS"); noted != (c.want != "5" && c.want != "none") {
				t.Errorf("a note about OMP_NUM_THREADS: %v", noted)
			}
		})
	}
}

// TestStoreOfEveryRound checks that the store of a round runs before the first worker
// starts, and every round has its own store.
func TestStoreOfEveryRound(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--max-restarts", "1")
	agents := j.nodes(2, sh(`echo $MASTER_ADDR:$MASTER_PORT >$E2E_DIR/store.$TORCHELASTIC_RESTART_COUNT.$RANK; `+
		`while [ ! -e $E2E_DIR/go.$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.02; done; exit $((1 - TORCHELASTIC_RESTART_COUNT))`)...)
	seen := map[string]bool{}
	for round := range 2 {
		for rank := range 2 {
			var at string
			eventually(t, longWait, "the store's address", func() bool {
				b, _ := os.ReadFile(fmt.Sprintf("%s/store.%d.%d", j.dir, round, rank))
				at = strings.TrimSpace(string(b))
				return strings.HasSuffix(string(b), "\n")
			})
			c, err := net.DialTimeout("tcp", at, shortWait)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			seen[at] = true
		}
		j.touch(fmt.Sprint("go.", round))
	}
	j.wantExit(longWait, 0, agents...)
	if len(seen) != 2 {
		t.Errorf("stores of two rounds: %v", slices.Collect(maps.Keys(seen)))
	}
}
