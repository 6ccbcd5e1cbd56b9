package cuda_test

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
)

// TestDeviceIsChosen checks which GPU a process takes, and what it says where there is none.
func TestDeviceIsChosen(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1+","+gpu2)
	for _, c := range []struct {
		device string
		local  int
		want   string // the UUID, or a part of the error
	}{
		{gpu2, 0, gpu2},
		{strings.ToUpper(gpu1[:4]) + gpu1[4:], 2, gpu1},
		{"MIG-" + gpu1[4:], 0, gpu1},
		{"", 1, gpu1},
		{"", 3, "local rank 3 has no GPU: the process sees 3"},
		{"GPU-9", 0, "GORUN_DEVICE is GPU-9, but the process sees only " + gpu0 + ", " + gpu1 + ", " + gpu2},
	} {
		s := f.settings(c.local)
		s.Device = c.device
		d := cuda.Start(s)
		err := d.Ready(t.Context())
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && d.Facts().UUID != c.want {
			t.Errorf("device %q, local rank %d: %v, %v; want %s", c.device, c.local, d.Facts().UUID, err, c.want)
		}
		if wrong, ok := errors.AsType[*cuda.Error](err); err != nil && (!ok || wrong.Rank != -1) {
			t.Errorf("%v is no error of this process", err)
		}
	}
	f.set("FAKE_CUDA_DEVICES", gpu1)
	d := cuda.Start(f.settings(3)) // the only one is this rank's
	if err := d.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	facts := d.Facts()
	want := cuda.Facts{Name: "Fake GPU", UUID: gpu1, BusID: "0000:01:00.0", Memory: 1 << 30, Visible: 1, Driver: 13000, NCCL: 22809, CUDAPath: f.path, NCCLPath: f.path}
	if facts != want {
		t.Errorf("facts %+v, want %+v", facts, want)
	}
}

// TestErrorsOfLibraries checks the one line that a process says of what it cannot use.
func TestErrorsOfLibraries(t *testing.T) {
	f := newFake(t)
	text := filepath.Join(t.TempDir(), "libnccl.so.2")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(s *cuda.Settings)
		want   []string
	}{
		"no driver":      {func(s *cuda.Settings) { s.CUDA = "/none/libcuda.so.1" }, []string{"cannot open CUDA's driver", "/none/libcuda.so.1", "does this machine have a GPU"}},
		"no NCCL":        {func(s *cuda.Settings) { s.NCCL = "/none/libnccl.so.2" }, []string{"the NCCL that GORUN_NCCL_LIB names", "/none/libnccl.so.2"}},
		"no library":     {func(s *cuda.Settings) { s.NCCL = text }, []string{text}},
		"another one":    {func(s *cuda.Settings) { s.NCCL = "libm.so.6" }, []string{"libm.so.6 has no function ncclGetVersion"}},
		"not installed":  {func(s *cuda.Settings) { s.NCCL = "" }, []string{"cannot open NCCL", "libnccl.so.2", "install it, or set GORUN_NCCL_LIB"}},
		"driver's state": {func(*cuda.Settings) { f.set("FAKE_CUDA_INIT", "803") }, []string{"cuInit: CUDA_ERROR_FAKE (803)", "was the driver updated without a restart?"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "not installed" && exec.Command("sh", "-c", "ldconfig -p | grep -q libnccl.so.2").Run() == nil {
				t.Skip("NCCL is installed here")
			}
			s := f.settings(0)
			c.change(&s)
			err := cuda.Start(s).Ready(t.Context())
			f.set("FAKE_CUDA_INIT", "")
			if err == nil || !strings.HasPrefix(err.Error(), "gorun: no GPU can be used: ") {
				t.Fatalf("error %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

// TestOrderOfTheStart checks that the GPU of the Settings has its context before a
// communicator is made, and what Close gives back.
func TestOrderOfTheStart(t *testing.T) {
	f := newFake(t)
	read := f.record()
	noErrors(t, gpus(t, f, 2, place{}, func(r rank, c *cuda.Comm) error {
		_, err := cuda.Alloc[float32](r.ctx, c, 10)
		return err
	}))
	calls := read()
	at := func(call string) int { return slices.Index(calls, call) }
	last := func(call string) int {
		for i := len(calls) - 1; i >= 0; i-- {
			if calls[i] == call {
				return i
			}
		}
		return -1
	}
	for _, c := range []struct {
		what          string
		before, after int
	}{
		{"the driver before the GPU", at("cuInit"), at("cuDevicePrimaryCtxRetain " + gpu0)},
		{"GPU 0 before rank 0", at("cuDevicePrimaryCtxRetain " + gpu0), at("ncclCommInitRank 0 of 2")},
		{"GPU 1 before rank 1", at("cuDevicePrimaryCtxRetain " + gpu1), at("ncclCommInitRank 1 of 2")},
		{"the ID before the ranks", at("ncclGetUniqueId"), min(at("ncclCommInitRank 0 of 2"), at("ncclCommInitRank 1 of 2"))},
		{"warm-up", at("ncclCommInitRank 1 of 2"), at("ncclAllReduce 1")},
		{"window", at("ncclAllReduce 1"), at("ncclCommWindowRegister 40")},
		{"end", last("ncclCommWindowDeregister"), last("ncclCommFinalize")},
		{"free", last("ncclMemFree"), last("ncclCommDestroy")},
	} {
		if c.before < 0 || c.after < 0 || c.before >= c.after {
			t.Errorf("%s: call %d is not before call %d of\n%s", c.what, c.before, c.after, strings.Join(calls, "\n"))
		}
	}
	if at("ncclCommAbort") >= 0 {
		t.Error("a communicator that is closed in order was aborted")
	}
}

// TestReleasesDiffer checks that ranks with different releases of NCCL do not start, and that
// all name the two.
func TestReleasesDiffer(t *testing.T) {
	f, old := newFake(t), newFake(t, "VERSION=22703")
	f.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1+","+gpu2)
	read := f.record()
	errs := world(t, 3, place{}, func(r rank) error {
		s := f.settings(r.Rank())
		if r.Rank() == 2 {
			s.NCCL = old.path
		}
		_, err := cuda.Start(s).Open(r.ctx, r.comm)
		return err
	})
	for r, err := range errs {
		wrong, ok := errors.AsType[*cuda.LibraryError](err)
		if !ok || wrong.Ranks != [2]int{0, 2} || wrong.Paths != [2]string{f.path, old.path} || wrong.Versions != [2]string{"2.28.9", "2.27.3"} {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if calls := read(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "ncclCommInitRank") }) {
		t.Error("a rank made a communicator")
	}
}

// TestOneRankCannot checks that all ranks say what is wrong at one, and can go on with CPUs.
func TestOneRankCannot(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1)
	for name, c := range map[string]struct {
		change func(s *cuda.Settings)
		want   string
	}{
		"no library": {func(s *cuda.Settings) { s.NCCL = "/none" }, "gorun: rank 1 cannot use its GPU: cannot open the NCCL that GORUN_NCCL_LIB names: "},
		"no GPU":     {func(s *cuda.Settings) { s.Device = "GPU-7" }, "gorun: rank 1 cannot use its GPU: GORUN_DEVICE is GPU-7, "},
		"same GPU":   {func(s *cuda.Settings) { s.LocalRank = 0 }, "gorun: ranks 0 and 1 have the same GPU, " + gpu0},
	} {
		t.Run(name, func(t *testing.T) {
			errs := world(t, 2, place{}, func(r rank) error {
				s := f.settings(r.Rank())
				if r.Rank() == 1 {
					c.change(&s)
				}
				_, err := cuda.Start(s).Open(r.ctx, r.comm)
				// The world goes on without GPUs.
				if cpu := worker.Barrier(r.ctx, r.comm); cpu != nil {
					t.Errorf("rank %d: %v", r.Rank(), cpu)
				}
				return err
			})
			for r, err := range errs {
				if err == nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("rank %d: %v, want %s…", r, err, c.want)
				}
			}
		})
	}
}

// TestErrorsNameRanksOfTheWorld makes what can go wrong at rank 2 of the world, which is rank
// 0 of a communicator of the ranks 1 and 2.
func TestErrorsNameRanksOfTheWorld(t *testing.T) {
	f, old := newFake(t), newFake(t, "VERSION=22703")
	f.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1+","+gpu2)
	old.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1+","+gpu2)
	opened := func(context.Context, *cuda.Comm, int) error { return nil }
	is := func(err error, rank int) bool {
		own, ok := errors.AsType[*cuda.Error](err)
		return ok && own.Rank == rank
	}
	for name, c := range map[string]struct {
		change func(s *cuda.Settings) // of rank 2
		call   func(ctx context.Context, c *cuda.Comm, world int) error
		right  func(err error) bool
	}{
		"no library": {func(s *cuda.Settings) { s.NCCL = "/none" }, opened, func(err error) bool { return is(err, 2) }},
		"no GPU":     {func(s *cuda.Settings) { s.Device = "GPU-7" }, opened, func(err error) bool { return is(err, 2) }},
		"same GPU": {func(s *cuda.Settings) { s.LocalRank = 1 }, opened, func(err error) bool {
			shared, ok := errors.AsType[*cuda.SharedDeviceError](err)
			return ok && shared.Ranks == [2]int{2, 1}
		}},
		"releases": {func(s *cuda.Settings) { s.NCCL = old.path }, opened, func(err error) bool {
			differ, ok := errors.AsType[*cuda.LibraryError](err)
			return ok && differ.Ranks == [2]int{2, 1} && differ.Versions == [2]string{"2.27.3", "2.28.9"}
		}},
		"sizes": {nil, func(ctx context.Context, c *cuda.Comm, world int) error {
			_, err := cuda.Alloc[byte](ctx, c, 10*world)
			return err
		}, func(err error) bool {
			return strings.Contains(err.Error(), "rank 2 20 bytes, rank 1 10")
		}},
		"late": {nil, func(ctx context.Context, c *cuda.Comm, world int) error {
			if world == 2 {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			return cuda.Barrier(ctx, c)
		}, func(err error) bool {
			return strings.Contains(err.Error(), "rank 2 has not arrived")
		}},
	} {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, apart %v", name, apart), func(t *testing.T) {
				left := make(chan struct{})
				errs := world(t, 3, place{apart: apart}, func(r rank) error {
					part, err := r.comm.Split(r.ctx, min(r.Rank(), 1), -r.Rank())
					if err != nil || r.Rank() == 0 {
						return err
					}
					if r.Rank() == 1 {
						defer close(left)
					}
					s := f.settings(r.Rank())
					if r.Rank() == 2 && c.change != nil {
						c.change(&s)
					}
					gpu, err := cuda.Start(s).Open(r.ctx, part)
					if err != nil {
						return err
					}
					if err = c.call(r.ctx, gpu, r.Rank()); r.Rank() == 2 {
						<-left
					}
					return err
				})
				if errs[1] == nil || !c.right(errs[1]) || errs[2] != nil && !c.right(errs[2]) {
					t.Errorf("rank 1: %v; rank 2: %v", errs[1], errs[2])
				}
			})
		}
	}
}

// TestAbortInTheStart checks that an abort ends Open while NCCL waits for a rank that never
// joins.
func TestAbortInTheStart(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1)
	f.set("FAKE_NCCL_HANG_INIT", "1")
	read := f.record()
	s := openAgent(t, 2)
	go func() {
		joining := func() bool {
			return len(slices.DeleteFunc(read(), func(c string) bool { return !strings.HasPrefix(c, "ncclCommInitRank") })) == 2
		}
		for end := t.Context(); end.Err() == nil && !joining(); {
			nap()
		}
		s.Abort(rendezvous.Cause{Kind: rendezvous.KindExit, Host: "n1", Rank: 1, ExitCode: 3})
	}()
	errs := world(t, 2, place{socket: s.Path()}, func(r rank) error {
		_, err := cuda.Start(f.settings(r.Rank())).Open(r.ctx, r.comm)
		return err
	})
	for r, err := range errs {
		if !errors.Is(err, worker.ErrAborted) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestOnlyProgramsWithGPUsAreDynamic builds a program with each package and looks whether it
// asks for a loader.
func TestOnlyProgramsWithGPUsAreDynamic(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	for pkg, dynamic := range map[string]bool{"../../bench/collectives/worker": false, "../../bench/gpu/cuda": true} {
		out := filepath.Join(t.TempDir(), "program")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		f, err := elf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		if got != dynamic {
			t.Errorf("%s is linked dynamically: %v, want %v", pkg, got, dynamic)
		}
	}
}

// TestNoGPU checks that a program on a machine without a GPU gets one clear line.
func TestNoGPU(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_CUDA_DEVICES", "none")
	errs := world(t, 1, place{}, func(r rank) error {
		_, err := cuda.Start(f.settings(0)).Open(context.Background(), r.comm)
		return err
	})
	if err := errs[0]; err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "gorun: rank 0 cannot use its GPU: cuDeviceGetCount: CUDA_ERROR_NO_DEVICE (100)") {
		t.Errorf("error %v", err)
	}
}
