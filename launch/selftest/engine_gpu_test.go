//go:build cgo

package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/contract"
	"github.com/gorun/gorun/worker/cuda"
	"github.com/gorun/gorun/worker/cuda/cudatest"
)

// TestEndOfGPU checks whose fault an error of a GPU's group is.
func TestEndOfGPU(t *testing.T) {
	nccl := errors.New("ncclSystemError")
	for _, c := range []struct {
		err  error
		size int
		want End
	}{
		{nil, 2, EndPassed},
		{nccl, 1, EndFailed},
		{nccl, 2, EndBroken},
		{&cuda.Error{Rank: 1, Err: nccl}, 2, EndFailed},
		{&cuda.Error{Rank: -1, Err: nccl}, 2, EndFailed},
		{&cuda.Error{Rank: 0, Err: nccl}, 2, EndLost},
		{fmt.Errorf("all-reduce: %w", &worker.PeerError{Rank: 0, Err: nccl}), 2, EndLost},
		{&WrongError{KindRing, 1, 2, 3}, 2, EndWrong},
		{context.DeadlineExceeded, 2, EndLate},
	} {
		if got := endOfGPU(c.err, 1, c.size); got != c.want {
			t.Errorf("%v of %d ranks: %s, want %s", c.err, c.size, got, c.want)
		}
	}
}

// TestNextProcessIsPrepared checks that the process of the next task starts before the
// result of the present one is known, and that the last one does not stay.
func TestNextProcessIsPrepared(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log := filepath.Join(t.TempDir(), "log")
	// A process waits for an order; with one it waits until the next process has started.
	script := fmt.Sprintf(`echo "start $1" >>%[1]s; read order || { echo none >>%[1]s; exit; }; echo order >>%[1]s
while [ "$(grep -c start %[1]s)" -le "$(grep -c order %[1]s)" ]; do sleep 0.01; done
echo '{"end":"passed","gpu":{"model":"x","uuid":"u","visible":1},"timing":[{"bytes":8,"seconds":0.001}]}'`, log)
	self := fleet(1)[0]
	self.Device = "GPU-0"
	tester := Tester{Self: self, Size: 1, Store: newMemoryStore(), Probe: shell(script), Env: os.Environ()}
	r, err := tester.Run(ctx, ScopeFull)
	if err != nil || !r.OK || r.Compute != ComputeGPU || len(r.Rungs) != 2 {
		t.Fatalf("%v, %+v", err, r)
	}
	text, _ := os.ReadFile(log)
	if got, want := string(text), strings.Repeat("start true\n", 3); strings.ReplaceAll(strings.ReplaceAll(got, "order\n", ""), "none\n", "") != want {
		t.Errorf("%q, want %q: two tasks, and a process without one", got, want)
	}
}

// TestMissingNCCLIsTold checks that a GPU without NCCL is told from a GPU that fails.
func TestMissingNCCLIsTold(t *testing.T) {
	lib := cudatest.Build(t)
	t.Setenv(contract.EnvNCCL, "")
	with := cudaGPU{cuda.Start(cuda.Settings{CUDA: lib, NCCL: lib})}
	if f, err := with.facts(t.Context()); err != nil || f.Model == "" || f.UUID == "" || f.NCCL == 0 || with.lacksNCCL(t.Context()) {
		t.Errorf("%v, %+v", err, f)
	}
	broken := cudaGPU{cuda.Start(cuda.Settings{CUDA: "/none/libcuda.so", NCCL: lib})}
	if _, err := broken.facts(t.Context()); err == nil || broken.lacksNCCL(t.Context()) {
		t.Errorf("%v", err)
	}
	without := cudaGPU{cuda.Start(cuda.Settings{CUDA: lib})}
	if _, err := without.facts(t.Context()); err == nil {
		t.Skip("this machine has an NCCL")
	}
	if !without.lacksNCCL(t.Context()) {
		t.Error("no NCCL is missed")
	}
	t.Setenv(contract.EnvNCCL, "/none/libnccl.so.2")
	if without.lacksNCCL(t.Context()) {
		t.Error("a file that the user names is taken for one that nobody needs")
	}
}
