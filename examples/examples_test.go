package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
	"github.com/gorun/gorun/rendezvous/tcpstore"
	"github.com/gorun/gorun/worker/cuda/cudatest"
)

// job is what the ranks of one run of an example share.
type job struct {
	size int
	env  []string
}

// newJob serves a store and describes a world of size ranks on this node.
func newJob(t *testing.T, size int) job {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tcpstore.New(tcpstore.Options{}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return job{size, append(os.Environ(),
		"MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port, "TORCHELASTIC_USE_AGENT_STORE=True",
		"TORCHELASTIC_RESTART_COUNT=0", "GROUP_RANK=0", "OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo",
		fmt.Sprintf("WORLD_SIZE=%d", size), fmt.Sprintf("LOCAL_WORLD_SIZE=%d", size))}
}

// result says how one rank ended.
type result struct {
	code           int
	stdout, stderr string
}

// run runs one rank until it ends or ctx does.
func (j job) run(ctx context.Context, rank int, args ...string) result {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(slices.Clip(j.env), fmt.Sprintf("RANK=%d", rank), fmt.Sprintf("LOCAL_RANK=%d", rank))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		code = -2
		stderr.WriteString(err.Error())
	}
	return result{code, stdout.String(), stderr.String()}
}

// all runs every rank at once.
func (j job) all(ctx context.Context, args ...string) []result {
	results := make([]result, j.size)
	var wg sync.WaitGroup
	for r := range results {
		wg.Go(func() { results[r] = j.run(ctx, r, args...) })
	}
	wg.Wait()
	return results
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAllReduce(t *testing.T) {
	bin := build(t, "allreduce")
	for _, size := range []int{1, 2, 4} {
		for r, res := range newJob(t, size).all(soon(t), bin) {
			if res.code != 0 {
				t.Errorf("rank %d of %d exited with %d: %s", r, size, res.code, res.stderr)
			}
			if r > 0 {
				if res.stdout != "" {
					t.Errorf("rank %d wrote %q", r, res.stdout)
				}
				continue
			}
			for _, want := range []string{
				fmt.Sprintf("allreduce: %d ranks, float32 x 1048576: sum verified", size),
				"float64 x 1000: prod verified", "int64 x 1: min verified", "max verified",
				fmt.Sprintf("broadcast from rank %d verified", size-1), "send/receive ring verified",
			} {
				if !strings.Contains(res.stdout, want) {
					t.Errorf("%d ranks: no %q in the output:\n%s", size, want, res.stdout)
				}
			}
		}
	}
}

// build builds an example and returns its path.
func build(t *testing.T, name string, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(soon(t), "go", append(append([]string{"build", "-o", bin}, flags...), "./"+name)...).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func TestAllToAll(t *testing.T) {
	bin := build(t, "alltoall")
	for _, size := range []int{1, 3} {
		for r, res := range newJob(t, size).all(soon(t), bin, "-rows", "50") {
			if res.code != 0 {
				t.Errorf("rank %d of %d exited with %d: %s", r, size, res.code, res.stderr)
			}
			want := fmt.Sprintf("alltoall: %d ranks, %d x %[2]d transposed and verified", size, 50*size)
			if (r == 0) != strings.HasPrefix(res.stdout, want) {
				t.Errorf("rank %d of %d wrote %q", r, size, res.stdout)
			}
		}
	}
}

// TestOnGPUs runs the examples that compute on GPUs too, on a stand-in for two of them.
func TestOnGPUs(t *testing.T) {
	fake := cudatest.Build(t)
	for name, want := range map[string]string{
		"allreduce": "allreduce: 2 ranks, float32 x 1048576: sum verified",
		"alltoall":  "alltoall: 2 ranks, 512 x 512 transposed and verified",
	} {
		t.Run(name, func(t *testing.T) {
			calls := filepath.Join(t.TempDir(), "calls")
			j := newJob(t, 2)
			j.env = append(j.env, "GORUN_CUDA_LIB="+fake, "GORUN_NCCL_LIB="+fake, "FAKE_CUDA_LOG="+calls,
				"FAKE_CUDA_DEVICES=GPU-00000000-0000-0000-0000-000000000000,GPU-11111111-1111-1111-1111-111111111111")
			results := j.all(soon(t), build(t, name, "-tags", "gpu"))
			for r, res := range results {
				if res.code != 0 {
					t.Errorf("rank %d exited with %d: %s", r, res.code, res.stderr)
				}
			}
			if !strings.Contains(results[0].stdout, want) {
				t.Errorf("no %q in the output:\n%s", want, results[0].stdout)
			}
			if text, err := os.ReadFile(calls); err != nil || strings.Count(string(text), "ncclCommInitRank") != 2 {
				t.Errorf("the GPUs did not compute: %v\n%s", err, text)
			}
		})
	}
}

// elsewhere are the examples as other launchers start them, with what they print.
func elsewhere(t *testing.T) map[string]struct {
	args []string
	want string
} {
	return map[string]struct {
		args []string
		want string
	}{
		"allreduce": {nil, "allreduce: 4 ranks, float32 x 1048576: sum verified"},
		"alltoall":  {[]string{"-rows", "50"}, "alltoall: 4 ranks, 200 x 200 transposed and verified"},
		"train":     {[]string{"-steps", "40", "-checkpoint", t.TempDir()}, "train: done: loss "},
	}
}

// TestTorchrun runs the examples under torchrun, which has no agent for them and, in Debian,
// a store of torch 1.13.
func TestTorchrun(t *testing.T) {
	torchrun := "/usr/bin/torchrun"
	if _, err := os.Stat(torchrun); err != nil {
		python(t, "torch") // skips, or fails where torch must be
		t.Skip("no /usr/bin/torchrun")
	}
	for name, c := range elsewhere(t) {
		t.Run(name, func(t *testing.T) {
			port := strconv.Itoa(porttest.Free(t, "127.0.0.1"))
			// With Python 3.11 torch 1.13 needs -r and -t.
			args := []string{"--no_python", "--nproc_per_node", "4", "--master_port", port, "-r", "1", "-t", "1", "--log_dir", t.TempDir(), build(t, name)}
			cmd := exec.CommandContext(soon(t), torchrun, append(args, c.args...)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, want %q in\n%s", err, c.want, out)
			}
		})
	}
}

// TestMPIRun runs the examples under mpirun and mpiexec alone, which have no store.
func TestMPIRun(t *testing.T) {
	for _, program := range []string{"mpirun.openmpi", "mpiexec.hydra"} {
		path, err := exec.LookPath(program)
		if err != nil && os.Getenv("CI") == "true" {
			t.Fatalf("no %s", program)
		} else if err != nil {
			t.Skipf("no %s", program)
		}
		for name, c := range elsewhere(t) {
			t.Run(program+"/"+name, func(t *testing.T) {
				args := []string{"-n", "4", "sh", "-c", build(t, name) + " " + strings.Join(c.args, " ") + "; exit"}
				if program == "mpirun.openmpi" {
					args = append([]string{"--oversubscribe", "--bind-to", "none"}, args...)
				}
				dir, err := os.MkdirTemp("", "mpi-") // t.TempDir is too long for Open MPI's sockets
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(dir)
				cmd := exec.CommandContext(soon(t), path, args...)
				cmd.Env = append(os.Environ(), "TMPDIR="+dir, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
				if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
					t.Errorf("%v, want %q in\n%s", err, c.want, out)
				}
			})
		}
	}
}

// TestTrain lets a rank fail, starts all again as a launcher does, and checks that they go
// on from the checkpoint and that the loss falls.
func TestTrain(t *testing.T) {
	bin := build(t, "train")
	dir := t.TempDir()
	args := []string{bin, "-steps", "100", "-checkpoint", dir, "-fail-at", "60"}
	first := newJob(t, 4).all(soon(t), args...)
	for r, want := range map[int]string{3: "rank 3 fails at step 60, as asked", 0: "rank 3"} {
		if res := first[r]; res.code != 1 || !strings.Contains(res.stderr, want) {
			t.Errorf("rank %d exited with %d: %s", r, res.code, res.stderr)
		}
	}
	again := newJob(t, 4)
	again.env = append(again.env, "TORCHELASTIC_RESTART_COUNT=1")
	for r, res := range again.all(soon(t), args...) {
		if res.code != 0 {
			t.Errorf("rank %d exited with %d: %s", r, res.code, res.stderr)
		}
		for _, want := range []string{"train: goes on from step 50\n", "train: 4 ranks: 2 rows of 2\n", "train: done: loss "} {
			if r == 0 && !strings.Contains(res.stdout, want) {
				t.Errorf("no %q in %s", want, res.stdout)
			}
		}
	}
}

// python is an interpreter with the module, preferring Debian's with its torch.
func python(t *testing.T, module string) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(soon(t), p, "-c", "import "+module).Run() == nil {
			return p
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("no python3 with the module %s", module)
	}
	t.Skipf("no python3 with the module %s", module)
	return ""
}

func TestDDP(t *testing.T) {
	py := python(t, "torch")
	for _, size := range []int{1, 2} {
		for r, res := range newJob(t, size).all(soon(t), py, "ddp/train.py") {
			if res.code != 0 {
				t.Errorf("rank %d of %d exited with %d: %s", r, size, res.code, res.stderr)
			}
			if want := fmt.Sprintf("ddp: %d ranks on ", size); (r == 0) != strings.HasPrefix(res.stdout, want) {
				t.Errorf("rank %d of %d wrote %q", r, size, res.stdout)
			}
		}
	}
}

func TestFailing(t *testing.T) {
	py := python(t, "argparse")
	j := newJob(t, 2)
	for _, tc := range []struct {
		name string
		rank int
		args []string
		code int
		text string
	}{
		{"exception", 1, []string{"--after", "0"}, 1, "RuntimeError: loss is NaN"},
		{"code", 1, []string{"--after", "0", "--code", "7"}, 7, ""},
		{"rank", 0, []string{"--after", "0", "--code", "3", "--rank", "0"}, 3, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := j.run(soon(t), tc.rank, append([]string{py, "failing/train.py"}, tc.args...)...)
			if res.code != tc.code || !strings.Contains(res.stderr, tc.text) {
				t.Errorf("exit code %d, want %d; stderr %s", res.code, tc.code, res.stderr)
			}
			if want := fmt.Sprintf("rank %d: training\n", tc.rank); res.stdout != want {
				t.Errorf("stdout %q", res.stdout)
			}
		})
	}
	t.Run("others wait", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if res := j.run(ctx, 0, py, "failing/train.py", "--after", "0"); res.code != -1 {
			t.Errorf("rank 0 ended by itself with %d: %s", res.code, res.stderr)
		}
	})
}
