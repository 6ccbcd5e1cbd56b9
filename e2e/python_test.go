package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// python is an interpreter with the module, Debian's first, which has its torch.
func python(t testing.TB, module string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*longWait)
	defer cancel()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(ctx, p, "-c", "import "+module).Run() == nil {
			return p
		}
	}
	need(t, false, "python3 with the module "+module)
	return ""
}

// PyTorch's DistributedDataParallel on two nodes, with gorun's store.
func TestExampleDDP(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	j := newJob(t)
	j.wd, j.env = "..", []string{"PYTHON_EXEC=" + py, "GLOO_SOCKET_IFNAME=lo"}
	agents := j.nodes(2, "--nproc-per-node", "2", "examples/ddp/train.py")
	j.wantExit(4*longWait, 0, agents...)
	agents[0].waitForStdout("ddp: 4 ranks on ", 1)
	agents[0].waitForStdout("parameters identical", 1)
}

// TestExampleFailing checks that the failing example's report is torchrun's, with the
// exception.
func TestExampleFailing(t *testing.T) {
	t.Parallel()
	py := python(t, "argparse")
	for name, c := range map[string]struct {
		args   []string
		code   int
		report string
	}{
		"exception": {nil, 1, "RuntimeError: loss is NaN at step 42"},
		"exit code": {[]string{"--code", "7", "--rank", "2"}, 7, "exitcode  : 7 (pid: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.wd, j.env = "..", []string{"PYTHON_EXEC=" + py}
			agents := j.nodes(2, append([]string{"--nproc-per-node", "2", "examples/failing/train.py", "--after", "0.2"}, c.args...)...)
			j.wantExit(longWait, c.code, agents...)
			j.wantSameCause(agents...)
			for _, a := range agents {
				for _, want := range []string{
					"examples/failing/train.py FAILED", "Root Cause (first observed failure):", "<NO_OTHER_FAILURES>", c.report,
				} {
					if !strings.Contains(a.err.String(), want) {
						t.Errorf("%s: no %q in the report", a.name, want)
					}
				}
			}
		})
	}
}

// TestConsequenceComesFirst checks that a rank that fails because its peer closed the
// connection, and that ends before the peer, is not the cause. gorun does not wait long
// for another cause.
func TestConsequenceComesFirst(t *testing.T) {
	t.Parallel()
	const lost = `echo "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:1963" >&2; exit 1`
	for name, c := range map[string]struct {
		other string // what rank 1 does once rank 0 has ended
		code  int
		cause string
	}{
		"the peer's end is slow": {"sleep 0.3; exit 7", 7, "rank 1 on"},
		"the peer does not end":  {printRankForever, 1, "rank 0 on"},
		"the peer ends in order": {"exit 0", 1, "rank 0 on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			agents := j.nodes(2, sh(`if [ $RANK = 0 ]; then touch $E2E_DIR/gone; `+lost+`; fi; until [ -e $E2E_DIR/gone ]; do sleep 0.01; done; `+c.other)...)
			j.wantExit(longWait, c.code, agents...)
			j.wantCause(agents, c.cause)
			j.wantSameCause(agents...)
		})
	}
}

// TestConsequenceIsNotTheCause checks that a rank that fails because a peer is lost is
// never the root cause, on any node. E2E_ROUNDS says how often the test tries it.
func TestConsequenceIsNotTheCause(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	rounds := 4
	if n, err := strconv.Atoi(os.Getenv("E2E_ROUNDS")); err == nil {
		rounds = n
	}
	j := newJob(t, "--max-restarts", fmt.Sprint(rounds-1), "--shutdown-timeout", "5")
	j.env = []string{"PYTHON_EXEC=" + py, "GLOO_SOCKET_IFNAME=lo"}
	var agents []*agent
	for i := range 2 {
		agents = append(agents, j.node(i+1, "2", "--report", fmt.Sprint(j.dir, "/report.", i), "testdata/consequence.py"))
	}
	code := 5
	if rounds%2 == 1 {
		code = 1
	}
	j.wantExit(time.Duration(rounds)*longWait, code, agents...)
	j.wantSameCause(agents...)
	for i, a := range agents {
		r := j.report(fmt.Sprint("report.", i))
		if len(r.Rounds) != rounds {
			t.Errorf("%s reports %d rounds, want %d", a.name, len(r.Rounds), rounds)
		}
		for n, round := range r.Rounds {
			want := 1 + 4*(n%2)
			c := round.Cause
			// An interpreter that ends with an exception beside gloo's threads may be aborted.
			aborted := want == 1 && c != nil && c.Signal == int(syscall.SIGABRT)
			if c == nil || c.Rank != 1 || c.ExitCode != want && !aborted {
				t.Errorf("%s: the cause of round %d is %+v, want rank 1 with exit code %d", a.name, n, c, want)
			}
		}
		if strings.Contains(a.out.String(), "went on") {
			t.Errorf("%s: %s", a.name, a.out)
		}
	}
}
