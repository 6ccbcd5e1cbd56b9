// Package cudatest builds a stand-in for libcuda and libnccl, with which tests of programs
// that use package cuda run on machines without a GPU.
package cudatest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// source is the stand-in.
//
//go:embed testdata/fake.c
var source []byte

// Build returns the path of the stand-in, which is both libraries at once: Settings.CUDA
// and Settings.NCCL, or GORUN_CUDA_LIB and GORUN_NCCL_LIB. defines are what the compiler is
// to define, such as "NO_SCALABLE". Without a C compiler the test is skipped, in CI it
// fails.
//
// Variables of the environment tell the stand-in of a process what to be:
// FAKE_CUDA_DEVICES=GPU-…,GPU-… the GPUs ("none": none), FAKE_NCCL_VERSION=22809,
// FAKE_CUDA_INIT and FAKE_CUDA_CONTEXT results of the driver, FAKE_CUDA_MEMORY the largest
// allocation in bytes, FAKE_NCCL_ASYNC an asynchronous error, FAKE_NCCL_HANG_INIT the rank
// that never joins, FAKE_CUDA_STALL=1 a driver whose start takes for ever, FAKE_NCCL_STALL
// a call of NCCL that does until an abort, FAKE_NCCL_SEND and FAKE_NCCL_RECV results of
// messages, NCCL_COMM_BLOCKING=0 what it means to NCCL, FAKE_CUDA_HOLD=1 streams that stand still, FAKE_CUDA_LOG a file for the
// names of calls.
func Build(t testing.TB, defines ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no C compiler for the stand-in of libcuda and libnccl: %v", err)
		}
		t.Skipf("no C compiler for the stand-in of libcuda and libnccl: %v", err)
	}
	dir := t.TempDir()
	src, lib := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libfake.so")
	if err := os.WriteFile(src, source, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-O1", "-shared", "-fPIC", "-pthread", "-Wno-unused-result", "-o", lib, src, "-ldl"}
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("cannot build the stand-in of libcuda and libnccl: %v\n%s", err, out)
	}
	return lib
}
