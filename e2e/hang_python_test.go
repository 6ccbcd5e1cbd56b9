package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous"
)

// hangTimeout is the --hang-timeout of the tests, in seconds.
const hangTimeout = "4"

// TestPythonHangs checks that gorun ends each hang of an unmodified program and names the
// rank, the collective that it did not enter and its line; in the report, too.
func TestPythonHangs(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	right := 0
	for _, c := range hungPythons() {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(t, "--hang-timeout", hangTimeout, "--on-hang", "abort", "--shutdown-timeout", "2")
			j.env = []string{"PYTHON_EXEC=" + py, "GLOO_SOCKET_IFNAME=lo"}
			file := filepath.Join(t.TempDir(), "report.json")
			a := j.node(1, "1", "--nproc-per-node", "3", "--report", file, hangScript, c.name)
			j.wantExit(4*longWait, rendezvous.ExitHang, a)
			r := readReport(t, file)
			if r.Cause == nil || r.Cause.Kind != rendezvous.KindHang || r.Cause.Rank != 1 || !slices.Equal(r.Cause.Ranks, []int{1}) {
				t.Fatalf("cause %+v", r.Cause)
			}
			if r.Cause.Collective != "all_reduce" {
				t.Errorf("collective %q", r.Cause.Collective)
			}
			if at := lineOf(t, "at: "+c.name); !strings.Contains(r.Cause.Where, at) {
				t.Errorf("rank 1 is in %q, want %s", r.Cause.Where, at)
			}
			for _, want := range []string{"rank 1 ", "all_reduce"} {
				if !strings.Contains(a.lastLine(), want) {
					t.Errorf("no %q in %q", want, a.lastLine())
				}
			}
			if !t.Failed() {
				right++
			}
		})
	}
	t.Logf("%d of %d hangs named with rank, collective and line", right, len(hungPythons()))
}

// TestPythonThatWorksIsNoHang checks that gorun reports no hang while one rank computes, or
// reads or writes files, and the others wait for it. docs/hangs.md says what counts as work.
func TestPythonThatWorksIsNoHang(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	for _, why := range []string{"compute", "native", "checkpoint", "data"} {
		t.Run(why, func(t *testing.T) {
			j := newJob(t, "--hang-timeout", "3", "--on-hang", "abort")
			j.env = []string{"PYTHON_EXEC=" + py, "GLOO_SOCKET_IFNAME=lo"}
			a := j.node(1, "1", "--nproc-per-node", "3", "testdata/healthy.py", why, "15")
			j.wantExit(4*longWait, 0, a)
			if text := a.err.String(); strings.Contains(text, "never entered") || strings.Contains(text, "hang") {
				t.Errorf("reported:\n%s", text)
			}
			a.waitForStdout("trained", 3)
		})
	}
}

// TestPythonHangIsReported checks that a hang is only reported by default: the job goes on,
// and ends well when the rank goes on.
func TestPythonHangIsReported(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	j := newJob(t, "--hang-timeout", "2")
	j.env = []string{"PYTHON_EXEC=" + py, "GLOO_SOCKET_IFNAME=lo"}
	var agents []*agent
	for i := range 2 {
		agents = append(agents, j.node(i+1, "2", "--nproc-per-node", "2", "testdata/healthy.py", "pause", "12"))
	}
	eventually(t, 4*longWait, "a node says that rank 1 hangs", func() bool {
		return slices.ContainsFunc(agents, func(a *agent) bool {
			return strings.Contains(a.err.String(), "rank 1 ") && strings.Contains(a.err.String(), "pause (healthy.py:")
		})
	})
	j.wantExit(4*longWait, 0, agents...)
}
