package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/report"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker"
)

// playHang begins the modes of play in which rank 1 holds up the others, or seems to.
const playHang = "hang-"

// hangs are ways to hang, with what gorun must say.
var hangs = []struct {
	fault   string
	timeout string // of --hang-timeout; a closed cycle does not wait for it
	ranks   []int
	says    []string
}{
	{"sleep", "3", []int{1}, []string{"rank 1 (", "never entered all-reduce #7 (sum of float32 x 4) that ranks 0, 2 and 3 wait in at e2e/hang_test.go:", "since 3s; it "}},
	{"skip", "3", []int{1}, []string{"rank 1 (", "never entered barrier #7 that ranks 0, 2 and 3 wait in"}},
	{"stop", "3", []int{1}, []string{"rank 1 (", "never entered all-reduce #", "it is stopped by a signal (kill -CONT "}},
	{"inside", "3", []int{1}, []string{"rank 1 (", " all-reduce #7 (sum of float32 x 1048576) that ranks 0, 2 and 3 wait in", "it is stopped by a signal (kill -CONT "}},
	{"receive", "60", []int{0, 1}, []string{"ranks wait for each other for ", "rank 0 is in receive #1 (float32 x 4) from rank 1 at e2e/hang_test.go:", "rank 1 is in receive #1 (float32 x 4) from rank 0", "let one of them send first"}},
	{"groups", "60", []int{0, 1}, []string{"ranks wait for each other for ", "rank 0 is in all-reduce #", "rank 1 is in barrier #1 of communicator ", "let all ranks make the same calls in the same order"}},
	{"message", "3", []int{1}, []string{"rank 1 (", "never made the other end of receive #1 (float32 x 4) from rank 1 that rank 0 waits in"}},
}

// TestHangOfGoWorkers checks that a hang ends the job on every node with one cause: the
// rank, the collective and the line.
func TestHangOfGoWorkers(t *testing.T) {
	t.Parallel()
	for _, h := range hangs {
		t.Run(h.fault, func(t *testing.T) {
			j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "5", "--hang-timeout", h.timeout, "--on-hang", "abort", "--max-restarts", "2")
			file := filepath.Join(t.TempDir(), "report.json")
			agents := []*agent{
				j.node(1, "2", "--report", file, executable(t), playFlag, playHang+h.fault),
				j.node(2, "2", executable(t), playFlag, playHang+h.fault),
			}
			j.wantExit(2*longWait, rendezvous.ExitHang, agents...)
			j.wantCause(agents, h.says...)
			j.wantSameCause(agents...)
			r := readReport(t, file)
			c := r.Cause
			if r.ExitCode != rendezvous.ExitHang || c.Kind != rendezvous.KindHang || !slices.Equal(c.Ranks, h.ranks) || c.Rank != h.ranks[0] || c.Collective == "" || h.fault != "stop" && h.fault != "inside" && !strings.Contains(c.Where, "hang_test.go:") || len(r.Rounds) != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestHangIsReported checks that by default the job goes on after a hang, every node prints
// the line, and the later end of a worker is a consequence of the hang.
func TestHangIsReported(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "5", "--hang-timeout", "3")
	agents := j.nodes(2, executable(t), playFlag, playHang+"sleep")
	for _, a := range agents {
		a.waitForStderr("never entered all-reduce #7")
	}
	if !agents[0].running() {
		t.Fatal("the job has ended")
	}
	out, _, _ := runClient(t, agents[1].client("status"))
	if !strings.Contains(out, "hangs: rank 1 (") || !strings.Contains(out, "never entered all-reduce #7") {
		t.Errorf("gorun status does not show it:\n%s", out)
	}
	j.kill(agents[1].status().Nodes[1].Ranks[0].PID) // as NCCL's watchdog ends a rank
	j.wantExit(longWait, rendezvous.ExitHang, agents...)
	j.wantCause(agents, "never entered all-reduce #7")
}

// TestHangStartsAgain checks that --on-hang restart takes a restart.
func TestHangStartsAgain(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "5", "--hang-timeout", "3", "--on-hang", "restart", "--max-restarts", "1")
	agents := j.nodes(2, executable(t), playFlag, playHang+"once")
	j.wantExit(2*longWait, 0, agents...)
	if out := agents[0].err.String(); !strings.Contains(out, "restart 1 of 1") || !strings.Contains(out, "never entered all-reduce #7") {
		t.Errorf("%s", out)
	}
}

// TestHangUsesUpRestarts checks that --on-hang restart takes the restarts that there are, also
// of workers that a wrapper starts as its child or execs, and that the hang then is the cause.
func TestHangUsesUpRestarts(t *testing.T) {
	t.Parallel()
	for name, wrapper := range map[string][]string{
		"none":  nil,
		"child": {"bash", "-c", `"$0" "$@"; exit $?`},
		"exec":  {"env", "-u", "NOTHING", "bash", "-c", `exec "$0" "$@"`},
	} {
		for _, restarts := range []string{"0", "2"} {
			t.Run(name+" "+restarts, func(t *testing.T) {
				j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "5", "--hang-timeout", "2", "--on-hang", "restart", "--max-restarts", restarts)
				file := filepath.Join(t.TempDir(), "report.json")
				program := append(slices.Clone(wrapper), executable(t), playFlag, playHang+"sleep")
				agents := []*agent{
					j.node(1, "2", append([]string{"--report", file, "--no-python"}, program...)...),
					j.node(2, "2", append([]string{"--no-python"}, program...)...),
				}
				j.wantExit(4*longWait, rendezvous.ExitHang, agents...)
				j.wantCause(agents, "rank 1 (", "never entered all-reduce #7")
				j.wantSameCause(agents...)
				if r := readReport(t, file); fmt.Sprint(len(r.Rounds)-1) != restarts || r.Cause.Kind != rendezvous.KindHang || !slices.Equal(r.Cause.Ranks, []int{1}) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// TestSlowIsNoHang checks that jobs in which a rank works for much longer than the timeout
// end well, and nothing is said.
func TestSlowIsNoHang(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"slow", "compile", "files"} {
		t.Run(fault, func(t *testing.T) {
			j := newJob(t, "--nproc-per-node", "2", "--hang-timeout", "2", "--on-hang", "abort")
			agents := j.nodes(2, executable(t), playFlag, playHang+fault)
			j.wantExit(4*longWait, 0, agents...)
			for _, a := range agents {
				if strings.Contains(a.err.String(), "never entered") || strings.Contains(a.err.String(), "no rank has made progress") {
					t.Errorf("%s", a.err.String())
				}
			}
		})
	}
}

// TestSleepingProgram checks that a program in which no collective is known is reported, and
// never ended.
func TestSleepingProgram(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--nproc-per-node", "2", "--hang-timeout", "2", "--on-hang", "abort")
	a := j.node(1, "1", sh("sleep 8")...)
	a.waitForStderr("and none computes, reads or writes files; the job is not ended")
	j.wantExit(2*longWait, 0, a)
}

// TestStoppedAgent checks that a node whose agent is stopped is lost, not a hang.
func TestStoppedAgent(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--nproc-per-node", "1", "--shutdown-timeout", "5", "--hang-timeout", "60")
	agents := j.nodes(2, executable(t), playFlag, playHang+"sleep")
	agents[0].waitForStdout("rank 0 is in step 5", 1)
	_ = syscall.Kill(agents[1].pid(), syscall.SIGSTOP)
	j.wantExit(2*longWait, rendezvous.ExitLost, agents[0])
	_ = syscall.Kill(agents[1].pid(), syscall.SIGCONT)
	agents[1].wait(longWait)
}

// executable returns this test's program.
func executable(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// readReport reads the file of --report.
func readReport(t testing.TB, file string) (r report.Report) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || r.Cause == nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

// hangWorker is a rank of the tests above.
func hangWorker(fault string) int {
	return worker.Main(func(ctx context.Context, w *worker.World) error {
		c, err := w.Comm(ctx)
		if err != nil {
			return err
		}
		half, err := c.Split(ctx, w.Rank()/2, w.Rank())
		if err != nil {
			return err
		}
		for i := range 10 {
			if i == 5 {
				fmt.Printf("rank %d is in step 5\n", w.Rank())
				if err := strike(ctx, w, c, half, fault); err != nil {
					return err
				}
			}
			if fault == "skip" {
				err = worker.Barrier(ctx, c)
			} else {
				err = worker.AllReduce(ctx, c, make([]float32, 4), worker.Sum)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// strike does what a fault wants of this rank.
func strike(ctx context.Context, w *worker.World, c, half *worker.Comm, fault string) error {
	switch rank := w.Rank(); {
	case fault == "inside":
		return stopInside(ctx, c)
	case fault == "receive" && rank < 2:
		return worker.Recv(ctx, c, make([]float32, 4), 1-rank)
	case fault == "message" && rank == 0:
		return worker.Recv(ctx, c, make([]float32, 4), 1)
	case fault == "compile":
		compute(5 * time.Second)
	case rank != 1:
	case fault == "sleep", fault == "skip", fault == "message", fault == "once" && w.RestartCount() == 0:
		return loadForever(ctx)
	case fault == "stop":
		return stopHere()
	case fault == "groups":
		return worker.Barrier(ctx, half)
	case fault == "slow":
		compute(6 * time.Second)
	case fault == "files":
		return writeFiles(6 * time.Second)
	}
	return nil
}

// stopInside stops rank 1 after it has begun the collective that the others come to.
func stopInside(ctx context.Context, c *worker.Comm) error {
	buf := make([]float32, 1<<20)
	if c.Rank() != 1 {
		time.Sleep(time.Second) // sleep: rank 1 shall be stopped by then
		return worker.AllReduce(ctx, c, buf, worker.Sum)
	}
	r := worker.IAllReduce(c, buf, worker.Sum)
	time.Sleep(300 * time.Millisecond) // sleep: it shall have begun
	if err := stopHere(); err != nil {
		return err
	}
	return r.Wait(ctx)
}

// loadForever waits for data that never come.
func loadForever(ctx context.Context) error {
	<-ctx.Done()
	return errors.New("no more data")
}

// compute uses a CPU.
func compute(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

// writeFiles writes files slowly.
func writeFiles(d time.Duration) error {
	dir, err := os.MkdirTemp("", "gorun-e2e-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // sleep: a slow disk
		if err := os.WriteFile(filepath.Join(dir, "part"), make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
	}
	return nil
}
