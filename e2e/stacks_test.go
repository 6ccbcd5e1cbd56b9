package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hangScript is a training loop in which rank 1 hangs.
const hangScript = "testdata/hangs.py"

// lineOf returns the place of the line of hangScript that ends with a comment:
// "hangs.py:33".
func lineOf(t testing.TB, comment string) string {
	t.Helper()
	text, err := os.ReadFile(hangScript)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, "# "+comment) {
			return fmt.Sprintf("hangs.py:%d", i+1)
		}
	}
	t.Fatalf("%s has no line %q", hangScript, comment)
	return ""
}

// hungPython is a way to hang, and where gorun must say that rank 1 is.
type hungPython struct {
	name  string
	place string // %s: the line
}

func hungPythons() []hungPython {
	return []hungPython{
		{"sleep", "in load_data at %s"},
		{"lock", "in load_data at %s"},
		{"queue", "in load_data at %s"},
		{"fifo", "in load_data at %s"},
		{"child", "in load_data at %s"},
		{"endless", "in load_data at %s"},
		{"stopped", "stopped by a signal (kill -CONT lets it go on), in load_data at %s"},
		{"receive", "in recv at %s"},
		{"barrier", "in barrier at %s"},
		{"other", "in broadcast at %s"},
		{"groups", "in main at %s"},
		{"dataloader", "a process that it started is in __getitem__ at %s"},
		{"pool", "a process that it started is in parse at %s"},
	}
}

// TestStacksOfPython checks that gorun stacks names the rank that hangs, and its line,
// first; and that nothing happens to the job.
func TestStacksOfPython(t *testing.T) {
	t.Parallel()
	py := python(t, "torch")
	for _, c := range hungPythons() {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(t)
			j.env = []string{"PYTHON_EXEC=" + py, "GLOO_SOCKET_IFNAME=lo"}
			a := j.node(1, "1", "--nproc-per-node", "3", hangScript, c.name)
			suspect := fmt.Sprintf(c.place, lineOf(t, "at: "+c.name))
			waits := "in all_reduce at " + lineOf(t, "waits")
			want := []string{suspect, "ranks 0 and 2 " + waits}
			if c.name == "groups" {
				want = []string{suspect, "rank 0 in all_reduce at " + lineOf(t, "waits in its group"), "rank 2 " + waits}
			}
			var out string
			eventually(t, 4*longWait, "gorun stacks prints\n"+strings.Join(want, "\n"), func() bool {
				out, _, _ = runClient(t, a.client("stacks"))
				lines := strings.Split(strings.TrimSpace(out), "\n")
				return len(lines) == len(want) && strings.HasPrefix(lines[0], "rank 1 ") &&
					!slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(out, w) })
			})
			if s := a.status(); s.State != "running" {
				t.Errorf("the job is %s", s.State)
			}
			_, _, code := runClient(t, a.client("abort"))
			if code != 0 {
				t.Errorf("abort: exit code %d", code)
			}
			j.wantExit(longWait, 143, a)
		})
	}
}

// TestStacksOfGoWorkers checks gorun stacks on both nodes of a job in Go: whole, of one
// rank, as JSON, and for a rank that is not there.
func TestStacksOfGoWorkers(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	agents := j.nodes(2, "--nproc-per-node", "2", "./testdata/gohang")
	for _, a := range agents {
		var out string
		eventually(t, 4*longWait, "gorun stacks prints both groups", func() bool {
			out, _, _ = runClient(t, a.client("stacks"))
			return strings.HasPrefix(out, "rank 1 on ") && strings.Contains(out, " in main.loadData at main.go:") &&
				strings.Contains(out, "3 ranks in AllReduce at main.go:") && strings.Contains(out, " (0, 2-3)\n")
		})
	}
	watch := agents[0].client("status", "--watch")
	var lines output
	watch.Stdout = &lines
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, longWait, "status --watch prints the steps and the rank in no call", func() bool {
		return strings.Contains(lines.String(), "; steps: 5") && strings.Contains(lines.String(), " rank 1 on ") &&
			strings.Contains(lines.String(), "3 ranks wait in a call, and it is in none")
	})
	_ = watch.Process.Kill()
	_ = watch.Wait()
	out, _, code := runClient(t, agents[1].client("stacks", "--rank", "1", "--full"))
	if code != 0 || !strings.Contains(out, "from the worker itself") || !strings.Contains(out, "gohang/main.go:") {
		t.Errorf("--rank 1 --full: %d: %s", code, out)
	}
	out, _, code = runClient(t, agents[1].client("stacks", "--json"))
	var got struct {
		Groups []struct {
			Call  string `json:"call"`
			Ranks []int  `json:"ranks"`
		} `json:"groups"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Groups) != 2 ||
		!slices.Equal(got.Groups[0].Ranks, []int{1}) || got.Groups[1].Call != "AllReduce" {
		t.Errorf("--json: %v, %d: %s", err, code, out)
	}
	for _, rank := range []string{"4", "-1"} {
		if _, stderr, code := runClient(t, agents[0].client("stacks", "--rank", rank)); code != 2 || !strings.Contains(stderr, "rank") {
			t.Errorf("--rank %s: %d: %s", rank, code, stderr)
		}
	}
	if _, _, code := runClient(t, agents[0].client("abort")); code != 0 {
		t.Errorf("abort: exit code %d", code)
	}
	j.wantExit(longWait, 143, agents...)
}

// TestStacksOfSilentNode checks that a node whose agent is stopped is named, in bounded
// time, and that the other nodes' ranks are shown.
func TestStacksOfSilentNode(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	agents := j.nodes(2, sh(printRankForever)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	pid := agents[1].pid()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, _, code := runClient(t, agents[0].client("stacks"))
	if code != 0 || !strings.Contains(out, "rank ") || !strings.Contains(out, "it has not answered within") && !strings.Contains(out, "note: ") {
		t.Errorf("%d after %v: %s", code, time.Since(began), out)
	}
	_ = syscall.Kill(pid, syscall.SIGCONT)
	runClient(t, agents[0].client("abort"))
	for _, a := range agents {
		eventually(t, longWait, a.name+" ends", func() bool { return !a.running() })
	}
}
