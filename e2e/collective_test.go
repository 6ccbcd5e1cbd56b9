package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/worker"
)

// TestCollectiveAborts checks that a collective whose peer is killed returns with the
// reason on every other rank, and the report blames only the killed rank.
func TestCollectiveAborts(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode string
		code int
		text string
	}{
		{playKilled, 137, "was killed by SIGKILL"},
		{playFails, 1, "reported a failure: no more data"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--nproc-per-node", "2", "--shutdown-timeout", "5")
			agents := j.nodes(2, self, playFlag, c.mode)
			j.wantExit(longWait, c.code, agents...)
			j.wantCause(agents, "rank 1 on", c.text)
			j.wantSameCause(agents...)
			out := agents[0].out.String() + agents[1].out.String()
			for _, rank := range []int{0, 2, 3} {
				line := fmt.Sprintf("rank %d returned: ", rank)
				_, after, ok := strings.Cut(out, line)
				text, _, _ := strings.Cut(after, "\n")
				// On a busy machine the broken connection may be all that is known in time.
				aborted := strings.HasPrefix(text, "gorun: aborted: rank 1 on")
				if !ok || !aborted && !strings.Contains(text, "rank 1 is gone") {
					t.Errorf("no %q with the cause in %s", line, out)
				}
			}
		})
	}
}

// TestExampleAllReduce checks that the allreduce example is built once a node and
// verifies its sums.
func TestExampleAllReduce(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--local-nodes", "2", "--nproc-per-node", "2")
	j.wd = ".."
	a := j.run("allreduce", "./examples/allreduce")
	j.wantExit(4*longWait, 0, a)
	a.waitForStdout("allreduce: 4 ranks, float32 x 1048576: sum verified", 1)
	a.waitForStdout("send/receive ring verified", 1)
}

// TestExampleTrain checks that a job whose rank fails starts again and goes on from its
// checkpoint.
func TestExampleTrain(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone", "--nproc-per-node", "4", "--max-restarts", "1")
	j.wd = ".."
	a := j.run("train", "./examples/train", "-steps", "100", "-checkpoint", t.TempDir(), "-fail-at", "60")
	j.wantExit(4*longWait, 0, a)
	a.waitForStdout("train: goes on from step 50", 1)
	a.waitForStdout("train: done: loss", 1)
}

// Modes of play in which rank 1 fails while the others wait for it.
const (
	playKilled = "killed"
	playFails  = "fails"
)

// collective is a rank of TestCollectiveAborts.
func collective(mode string) int {
	// What is tested is the abort through the worker socket, not the signal that
	// follows it for programs that have none.
	signal.Ignore(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), longWait)
	defer cancel()
	w, err := worker.Init(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer w.Close()
	comm, err := w.Comm(ctx)
	if err == nil {
		err = worker.Barrier(ctx, comm)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	mark := filepath.Join(os.Getenv(envDir), "waits.")
	if w.Rank() == 1 {
		return failAsRank1(ctx, w, mode, mark)
	}
	if err := os.WriteFile(mark+fmt.Sprint(w.Rank()), nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	err = worker.AllReduce(ctx, comm, []float32{1}, worker.Sum)
	fmt.Printf("rank %d returned: %v\n", w.Rank(), err)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// failAsRank1 is rank 1. It fails once the others are in the collective.
func failAsRank1(ctx context.Context, w *worker.World, mode, mark string) int {
	for n := 0; n < w.Size()-1 && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) { // sleep: between two looks
		files, _ := filepath.Glob(mark + "*")
		n = len(files)
	}
	if mode == playFails {
		if err := w.Fail(errors.New("no more data")); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return 1
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	return 2
}
