package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
)

// within fails the test if do, which waits for nothing, does not return soon.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(testTime / 4):
		t.Errorf("%s has not returned", what)
	}
}

// TestContextEndsCallsInsideOfNCCL holds up a rank inside of NCCL, which waits for other
// ranks there too: its context ends every call.
func TestContextEndsCallsInsideOfNCCL(t *testing.T) {
	for call, do := range map[string]func(ctx context.Context, c *cuda.Comm, b *cuda.Buffer[float32]) error{
		"ncclRecv":      func(ctx context.Context, c *cuda.Comm, b *cuda.Buffer[float32]) error { return cuda.Recv(ctx, c, b, 1) },
		"ncclAllReduce": barrier,
		"ncclCommWindowRegister": func(ctx context.Context, c *cuda.Comm, _ *cuda.Buffer[float32]) error {
			_, err := cuda.Alloc[float32](ctx, c, 10)
			return err
		},
	} {
		t.Run(call, func(t *testing.T) {
			f := newFake(t)
			left := make(chan struct{})
			errs := gpus(t, f, 2, place{}, func(r rank, c *cuda.Comm) error {
				b, err := cuda.Alloc[float32](r.ctx, c, 10)
				if err == nil {
					err = cuda.Barrier(r.ctx, c)
				}
				if err != nil {
					return err
				}
				if r.Rank() == 1 {
					if call == "ncclCommWindowRegister" {
						_, _ = cuda.Alloc[float32](r.ctx, c, 10)
					}
					<-left
					return nil
				}
				defer close(left)
				f.set("FAKE_NCCL_STALL", call)
				ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
				defer cancel()
				within(t, call, func() { err = do(ctx, c, b) })
				return err
			})
			if err := errs[0]; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func barrier(ctx context.Context, c *cuda.Comm, _ *cuda.Buffer[float32]) error {
	return cuda.Barrier(ctx, c)
}

// TestContextThatHasEnded checks that a call does not begin, and what it says.
func TestContextThatHasEnded(t *testing.T) {
	f := newFake(t)
	errs := gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[float32](r.ctx, c, 10)
		if err == nil {
			err = c.Wait(r.ctx)
		}
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		return cuda.AllReduce(ctx, c, b, worker.Sum)
	})
	if err := errs[0]; !errors.Is(err, context.Canceled) || err.Error() != "gorun: all-reduce (sum of float32 x 10) on GPUs failed: context canceled" {
		t.Errorf("error %v", err)
	}
}

// TestFirstAllReduceHangs checks that calls and Close return while the first all-reduce, in
// the background, does not.
func TestFirstAllReduceHangs(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_NCCL_STALL", "ncclAllReduce")
	errs := gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) (err error) {
		ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
		defer cancel()
		within(t, "Barrier", func() { err = cuda.Barrier(ctx, c) })
		within(t, "Close", func() { _ = c.Close() })
		return err
	})
	if err := errs[0]; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestAbortEndsStartOfTheDriver aborts the round while the driver of a rank does not start.
func TestAbortEndsStartOfTheDriver(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_CUDA_STALL", "1")
	read := f.record()
	s := openAgent(t, 1)
	go func() {
		for !slices.Contains(read(), "cuInit") {
			nap()
		}
		s.Abort(rendezvous.Cause{Kind: rendezvous.KindExit, Host: "n1", Rank: 1, ExitCode: 3})
	}()
	var errs []error
	within(t, "Open", func() {
		errs = world(t, 1, place{socket: s.Path()}, func(r rank) error {
			_, err := cuda.Start(f.settings(0)).Open(r.ctx, r.comm)
			return err
		})
	})
	if len(errs) == 1 && !errors.Is(errs[0], worker.ErrAborted) {
		t.Errorf("error %v", errs[0])
	}
}

// TestErrorsOfMessagesAreNotMixed lets two parts of a call fail with results that together
// are the number of another one.
func TestErrorsOfMessagesAreNotMixed(t *testing.T) {
	f := newFake(t)
	errs := gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		a, err := cuda.Alloc[float32](r.ctx, c, 10)
		if err != nil {
			return err
		}
		f.set("FAKE_NCCL_SEND", "2")
		f.set("FAKE_NCCL_RECV", "5")
		return cuda.SendRecv(r.ctx, c, a.Slice(0, 5), 0, a.Slice(5, 10), 0)
	})
	if err := errs[0]; err == nil || !strings.Contains(err.Error(), "unhandled error") {
		t.Errorf("error %v", err)
	}
}

// TestCommunicatorsThatDoNotBlock checks that they are refused, with the reason.
func TestCommunicatorsThatDoNotBlock(t *testing.T) {
	f := newFake(t)
	f.set("NCCL_COMM_BLOCKING", "0")
	errs := gpus(t, f, 1, place{}, func(rank, *cuda.Comm) error { return nil })
	if err := errs[0]; err == nil || !strings.Contains(err.Error(), "unset NCCL_COMM_BLOCKING") {
		t.Errorf("error %v", err)
	}
}

// TestMemoryIsNotUsedAfterFree gives memory back that another stream uses, and memory that
// the ranks do not agree about.
func TestMemoryIsNotUsedAfterFree(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[float32](r.ctx, c, 10)
		if err != nil {
			return err
		}
		s, err := c.NewStream()
		if err != nil {
			return err
		}
		read := f.record()
		f.set("FAKE_CUDA_HOLD", "1")
		if err := cuda.AllReduce(r.ctx, c.On(s), b, worker.Sum); err != nil {
			return err
		}
		freed := make(chan error, 1)
		go func() { freed <- b.Free(r.ctx) }()
		for range 50 {
			nap()
		}
		if slices.Contains(read(), "ncclMemFree") {
			t.Error("the memory was freed while a stream used it")
		}
		f.set("FAKE_CUDA_HOLD", "")
		return <-freed
	}))
}

// TestNewMemoryIsZeroInAllStreams checks that Alloc does not leave the clearing to a stream.
func TestNewMemoryIsZeroInAllStreams(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		if err := cuda.Barrier(r.ctx, c); err != nil {
			return err
		}
		f.set("FAKE_CUDA_HOLD", "1")
		done := make(chan error, 1)
		go func() {
			_, err := cuda.Alloc[float32](r.ctx, c, 10)
			done <- err
		}()
		for range 50 {
			nap()
		}
		select {
		case err := <-done:
			t.Errorf("Alloc returned before the memory was 0: %v", err)
			done <- err
		default:
		}
		f.set("FAKE_CUDA_HOLD", "")
		return <-done
	}))
}

// TestOneDeviceForTwoCommunicators opens two communicators at once and uses what is left of
// one after its Close.
func TestOneDeviceForTwoCommunicators(t *testing.T) {
	f := newFake(t)
	noErrors(t, world(t, 1, place{}, func(r rank) error {
		d := cuda.Start(f.settings(0))
		a, err := d.Open(r.ctx, r.comm)
		if err != nil {
			return err
		}
		b, err := d.Open(r.ctx, r.comm)
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		for _, c := range []*cuda.Comm{a, b} {
			wg.Go(func() {
				if times, err := c.Timings(r.ctx); err != nil || times.WarmUp < times.Comm || times.Comm < times.Exchange || times.Exchange < times.Context {
					t.Errorf("times %v, error %v", times, err)
				}
			})
		}
		wg.Wait()
		if err := a.Close(); err != nil {
			return err
		}
		if _, err := a.Stream().Record(); !errors.Is(err, cuda.ErrClosed) {
			t.Errorf("an event in a stream after Close: %v", err)
		}
		return errors.Join(cuda.Barrier(r.ctx, b), b.Close())
	}))
}

// TestContextEndsTheWaitForAnotherCall lets a goroutine wait for the call of another one,
// which is held up inside of NCCL: its own context ends that.
func TestContextEndsTheWaitForAnotherCall(t *testing.T) {
	f := newFake(t)
	errs := gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		s, err := c.NewStream()
		if err == nil {
			err = cuda.Barrier(r.ctx, c)
		}
		if err != nil {
			return err
		}
		read := f.record()
		f.set("FAKE_NCCL_STALL", "ncclAllReduce")
		held := make(chan error, 1)
		go func() { held <- cuda.Barrier(r.ctx, c) }()
		for !slices.Contains(read(), "ncclAllReduce 1") {
			nap()
		}
		ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
		defer cancel()
		within(t, "Barrier", func() { err = cuda.Barrier(ctx, c.On(s)) })
		within(t, "the other Barrier", func() { <-held })
		return err
	})
	if err := errs[0]; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestCallsOfOneStreamFromSeveralGoroutines makes calls and waits on a stream at once, for
// the race detector.
func TestCallsOfOneStreamFromSeveralGoroutines(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[float32](r.ctx, c, 8)
		if err != nil {
			return err
		}
		errs := make([]error, 3)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				for range 200 {
					errs[i] = errors.Join(errs[i], cuda.Copy(r.ctx, c, b.Slice(0, 4), b.Slice(4, 8)), c.Wait(r.ctx))
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}))
}

// TestThreadKeepsItsContexts checks that calls leave the contexts of their thread, which
// another library may use, as they were.
func TestThreadKeepsItsContexts(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		depth := f.lib.Find("fake_depth")
		if n := depth.Call(); n != 0 {
			t.Errorf("%d contexts before the calls", n)
		}
		b, err := cuda.Alloc[float32](r.ctx, c, 8)
		if err == nil {
			err = cuda.AllReduce(r.ctx, c, b, worker.Sum)
		}
		if err == nil {
			err = b.CopyTo(r.ctx, make([]float32, 8))
		}
		if n := depth.Call(); n != 0 {
			t.Errorf("%d contexts after the calls", n)
		}
		return errors.Join(err, b.Free(r.ctx), c.Close())
	}))
}

// TestNothingOfNil calls what programs may have after a failure.
func TestNothingOfNil(t *testing.T) {
	var (
		c *cuda.Comm
		s *cuda.Stream
		b *cuda.Buffer[float32]
	)
	if c.Device() != nil || c.Stream() != nil || s.Handle() != 0 || b.Slice(0, 0) != nil {
		t.Error("something of nothing")
	}
	if b.Registered() || new(cuda.Buffer[float32]).Registered() {
		t.Error("memory that is not there is registered")
	}
	if _, err := s.Record(); err == nil {
		t.Error("an event of no stream")
	}
	if err := s.WaitFor(nil); err == nil {
		t.Error("no stream waits for no event")
	}
	var e *cuda.Event
	if _, err := e.Since(e); err == nil || e.Wait(t.Context()) == nil || e.Free() != nil {
		t.Error("no event was reached, or cannot be given back")
	}
	defer func() {
		if recover() == nil {
			t.Error("a nil Buffer has elements")
		}
	}()
	b.Slice(0, 1)
}

// TestMessageToNoRank checks that an error names the rank that the program gave.
func TestMessageToNoRank(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[float32](r.ctx, c, 8)
		if err != nil {
			return err
		}
		for _, peer := range []int{-5, -1, 1} {
			for _, err := range []error{cuda.Send(r.ctx, c, b, peer), cuda.Recv(r.ctx, c, b, peer), cuda.SendRecv(r.ctx, c, b.Slice(0, 4), 0, b.Slice(4, 8), peer)} {
				if want := fmt.Sprintf("there is no rank %d", peer); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		}
		return nil
	}))
}

// TestLinesAreGivenBack opens more communicators, one after the other, than the board has
// lines. The last is a part of the world and still knows where ranks called.
func TestLinesAreGivenBack(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_CUDA_DEVICES", gpu0+","+gpu1+","+gpu2)
	errs := world(t, 3, place{}, func(r rank) error {
		part, err := r.comm.Split(r.ctx, min(r.Rank(), 1), -r.Rank())
		if err != nil || r.Rank() == 0 {
			return err
		}
		d := cuda.Start(f.settings(r.Rank()))
		for range 25 {
			c, err := d.Open(r.ctx, part)
			if err == nil {
				err = errors.Join(cuda.Barrier(r.ctx, c), c.Close())
			}
			if err != nil {
				return fmt.Errorf("one of many: %w", err)
			}
		}
		c, err := d.Open(r.ctx, part)
		if err != nil {
			return err
		}
		b, err := cuda.Alloc[float32](r.ctx, c, 8)
		if err != nil {
			return err
		}
		if r.Rank() == 1 {
			err = cuda.Broadcast(r.ctx, c, b, 0)
		} else {
			err = cuda.AllReduce(r.ctx, c, b, worker.Sum)
		}
		return errors.Join(err, c.Wait(r.ctx))
	})
	found := 0
	for i, err := range errs {
		if wrong, ok := errors.AsType[*worker.MismatchError](err); ok {
			found++
			if wrong.Rank != i || wrong.Peer != 3-i || !strings.Contains(wrong.MyCaller, "waits_test.go:") || !strings.Contains(wrong.TheirCaller, "waits_test.go:") {
				t.Errorf("rank %d: %v", i, err)
			}
		} else if _, gone := errors.AsType[*worker.PeerError](err); !gone && i > 0 {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	if found == 0 {
		t.Errorf("no rank says what does not match: %v", errs)
	}
}

// TestLongFactsAreCut checks that ranks with very long paths of libraries understand each
// other.
func TestLongFactsAreCut(t *testing.T) {
	f := newFake(t)
	deep := filepath.Join(append([]string{t.TempDir()}, slices.Repeat([]string{strings.Repeat("x", 200)}, 8)...)...)
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(deep, "libnccl.so.2")
	text, err := os.ReadFile(f.path)
	if err == nil {
		err = os.WriteFile(lib, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	open := func(path string) []error {
		return world(t, 2, place{}, func(r rank) error {
			s := f.settings(0)
			if r.Rank() == 1 { // whose stand-in is another one, with another GPU
				s.CUDA, s.NCCL = lib, path
			}
			c, err := cuda.Start(s).Open(r.ctx, r.comm)
			if err != nil {
				return err
			}
			return errors.Join(cuda.Barrier(r.ctx, c), c.Close())
		})
	}
	f.set("FAKE_CUDA_DEVICES", gpu0)
	noErrors(t, open(lib))
	for r, err := range open(filepath.Dir(lib) + "/none.so") {
		if err == nil || !strings.HasPrefix(err.Error(), "gorun: rank 1 cannot use its GPU: cannot open the NCCL that GORUN_NCCL_LIB names: ") || strings.ContainsAny(err.Error(), "{}") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
