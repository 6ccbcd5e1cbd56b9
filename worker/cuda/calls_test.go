package cuda_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
)

// nap waits a moment before the next look at a condition.
func nap() { time.Sleep(time.Millisecond) } // sleep: between two looks at a condition

// TestAbortEndsCalls aborts the round while a rank waits for a call that never ends.
func TestAbortEndsCalls(t *testing.T) {
	f := newFake(t)
	read := f.record()
	s := openAgent(t, 2)
	var aborted time.Time
	var once sync.Once
	errs := gpus(t, f, 2, place{socket: s.Path()}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[float32](r.ctx, c, 10)
		if err == nil {
			err = cuda.Barrier(r.ctx, c)
		}
		if err != nil {
			return err
		}
		f.set("FAKE_CUDA_HOLD", "1")
		if err := cuda.AllReduce(r.ctx, c, b, worker.Sum); err != nil {
			return err
		}
		once.Do(func() {
			aborted = time.Now()
			s.Abort(rendezvous.Cause{Kind: rendezvous.KindSignal, Host: "n1", Rank: 1, Signal: 9})
		})
		err = c.Wait(r.ctx)
		if took := time.Since(aborted); took > time.Second {
			t.Errorf("rank %d: the call ended %v after the abort", r.Rank(), took)
		}
		if again := cuda.Barrier(r.ctx, c); !errors.Is(again, worker.ErrAborted) {
			t.Errorf("rank %d: the next call: %v", r.Rank(), again)
		}
		return err
	})
	for r, err := range errs {
		if !errors.Is(err, worker.ErrAborted) || !strings.HasPrefix(err.Error(), "gorun: aborted: ") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if calls := read(); len(slices.DeleteFunc(calls, func(c string) bool { return c != "ncclCommAbort" })) != 2 {
		t.Error("not both communicators were aborted")
	}
}

// TestErrorOfNCCL checks that an error which NCCL meets by itself ends a wait.
func TestErrorOfNCCL(t *testing.T) {
	f := newFake(t)
	errs := gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		if err := cuda.Barrier(r.ctx, c); err != nil {
			return err
		}
		f.set("FAKE_CUDA_HOLD", "1")
		f.set("FAKE_NCCL_ASYNC", "6")
		return cuda.Barrier(r.ctx, c)
	})
	if err := errs[0]; err == nil || !strings.Contains(err.Error(), "NCCL: remote process exited or there was a network error: the stand-in says so") {
		t.Errorf("error %v", err)
	}
}

// TestDeadlineNamesWhoIsMissing ends the context of a rank that waits for one that does not
// come, on one node and on two.
func TestDeadlineNamesWhoIsMissing(t *testing.T) {
	f := newFake(t)
	for _, apart := range []bool{false, true} {
		left := make(chan struct{})
		errs := gpus(t, f, 2, place{apart: apart}, func(r rank, c *cuda.Comm) error {
			if err := cuda.Barrier(r.ctx, c); err != nil {
				return err
			}
			if r.Rank() == 1 {
				<-left
				return nil
			}
			defer close(left)
			ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
			defer cancel()
			return cuda.Barrier(ctx, c)
		})
		err := errs[0]
		hang, ok := errors.AsType[*worker.HangError](err)
		if !ok || !errors.Is(err, context.DeadlineExceeded) || len(hang.Others) != 1 || hang.Others[0].Arrived {
			t.Errorf("apart %v: error %v", apart, err)
		}
		if want := "rank 1 has not arrived, it has left barrier #1"; err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("apart %v: %v\ndoes not say %q", apart, err, want)
		}
	}
}

// TestDeadlineOfAMessage ends the context of a rank that waits for a message: the other rank
// has not called, or has sent it and its GPU holds it up.
func TestDeadlineOfAMessage(t *testing.T) {
	for _, test := range []struct {
		name        string
		apart, sent bool
		want        string
	}{
		{"not sent", false, false, "rank 1 has not arrived, it has left barrier #1"},
		{"not sent between nodes", true, false, "rank 1 has not arrived, it has left barrier #1"},
		{"sent", false, true, "no rank is missing, rank 1 is in this call too"},
		{"sent between nodes", true, true, "no rank is missing, rank 1 is in this call too"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			ready, left := make(chan struct{}), make(chan struct{})
			errs := gpus(t, f, 2, place{apart: test.apart}, func(r rank, c *cuda.Comm) error {
				b, err := cuda.Alloc[float32](r.ctx, c, 8)
				if err == nil {
					err = cuda.Barrier(r.ctx, c)
				}
				if err != nil {
					return err
				}
				if r.Rank() == 1 {
					if test.sent {
						f.set("FAKE_CUDA_HOLD", "1")
						err = cuda.Send(r.ctx, c, b, 0)
					}
					close(ready)
					<-left
					return err
				}
				defer close(left)
				<-ready
				if err := cuda.Recv(r.ctx, c, b, 1); err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
				defer cancel()
				return c.Wait(ctx)
			})
			err := errs[0]
			hang, ok := errors.AsType[*worker.HangError](err)
			if !ok || !errors.Is(err, context.DeadlineExceeded) || len(hang.Others) != 1 || hang.Others[0].Arrived != test.sent {
				t.Fatalf("error %v", err)
			}
			for _, want := range []string{"receive #1 (float32 x 8)", "from rank 1 on GPUs failed", test.want} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
		})
	}
}

// TestMismatch makes two ranks call different things. On one node it is seen before a kernel
// hangs, on two nodes by the one that waits.
func TestMismatch(t *testing.T) {
	f := newFake(t)
	for _, apart := range []bool{false, true} {
		errs := gpus(t, f, 2, place{apart: apart}, func(r rank, c *cuda.Comm) error {
			b, err := cuda.Alloc[int64](r.ctx, c, 20000)
			if err != nil {
				return err
			}
			if r.Rank() == 0 {
				err = cuda.AllReduce(r.ctx, c, b.Slice(0, 7), worker.Max)
			} else {
				err = cuda.Broadcast(r.ctx, c, b, 1)
			}
			if err == nil {
				err = c.Wait(r.ctx)
			}
			return err
		})
		for r, err := range errs {
			if err == nil {
				t.Errorf("apart %v: rank %d: no error", apart, r)
				continue
			}
			for _, want := range []string{"rank 0 is in all-reduce #1 (max of int64 x 7)", "rank 1 is in broadcast #1 (int64 x 20000 from rank 1)"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("apart %v: rank %d: %v\ndoes not say %q", apart, r, err, want)
				}
			}
			if wrong, ok := errors.AsType[*worker.MismatchError](err); !apart && (!ok || !strings.Contains(wrong.MyCaller, "calls_test.go:") || !strings.Contains(wrong.TheirCaller, "calls_test.go:") || wrong.MyCaller == wrong.TheirCaller) {
				t.Errorf("rank %d does not know both lines: %v", r, err)
			}
		}
	}
}

// TestMessagesThatDoNotMatch lets two ranks disagree about the length or the type of what
// one sends the other. On one node the later one does not start, and both lines are named; on
// two nodes a rank that waits asks the other.
func TestMessagesThatDoNotMatch(t *testing.T) {
	type buffers struct {
		floats *cuda.Buffer[float32]
		ints   *cuda.Buffer[int32]
	}
	type call func(ctx context.Context, c *cuda.Comm, b buffers) error
	send := func(ctx context.Context, c *cuda.Comm, b buffers) error {
		return cuda.Send(ctx, c, b.floats.Slice(0, 7), 1)
	}
	receive := func(ctx context.Context, c *cuda.Comm, b buffers) error {
		return cuda.Recv(ctx, c, b.floats.Slice(0, 8), 0)
	}
	parts := func(send, recv []int) call {
		return func(ctx context.Context, c *cuda.Comm, b buffers) error {
			in := send[0] + send[1]
			return cuda.AllToAllV(ctx, c, b.floats.Slice(in, in+recv[0]+recv[1]), recv, b.floats.Slice(0, in), send)
		}
	}
	for _, test := range []struct {
		name  string
		apart bool
		first int // the rank that calls first
		calls [2]call
		want  []string
	}{
		{
			"lengths", false, 0,
			[2]call{send, receive},
			[]string{"rank 0 is in send #2 (float32 x 7)", "rank 1 is in receive #2 (float32 x 8)"},
		},
		{
			"receiver first", false, 1,
			[2]call{send, receive},
			[]string{"rank 0 is in send #2 (float32 x 7)", "rank 1 is in receive #2 (float32 x 8)"},
		},
		{
			"types", false, 0,
			[2]call{send, func(ctx context.Context, c *cuda.Comm, b buffers) error { return cuda.Recv(ctx, c, b.ints, 0) }},
			[]string{"rank 0 is in send #2 (float32 x 7)", "rank 1 is in receive #2 (int32 x 7)"},
		},
		{
			"parts", false, 0,
			[2]call{parts([]int{1, 3}, []int{1, 2}), parts([]int{2, 1}, []int{0, 1})},
			[]string{"rank 0 is in all-to-all #1 (float32 x 3)", "rank 1 is in all-to-all #1 (float32 x 0)"},
		},
		{
			"lengths between nodes", true, 0,
			[2]call{send, receive},
			[]string{"rank 0 is in send #2 (float32 x 7)", "rank 1 is in receive #2 (float32 x 8)"},
		},
		{
			"parts between nodes", true, 0,
			[2]call{parts([]int{1, 3}, []int{1, 2}), parts([]int{2, 1}, []int{4, 1})},
			[]string{"rank 0 is in all-to-all #1 (float32 x 3)", "rank 1 is in all-to-all #1 (float32 x 4)"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			called, found := make(chan struct{}), make(chan struct{}, 2)
			errs := gpus(t, f, 2, place{apart: test.apart}, func(r rank, c *cuda.Comm) error {
				var b buffers
				var err error
				if b.floats, err = cuda.Alloc[float32](r.ctx, c, 100); err != nil {
					return err
				}
				if b.ints, err = cuda.Alloc[int32](r.ctx, c, 7); err != nil {
					return err
				}
				if r.Rank() == 0 { // a message that matches
					err = cuda.Send(r.ctx, c, b.floats.Slice(0, 3), 1)
				} else {
					err = cuda.Recv(r.ctx, c, b.floats.Slice(0, 3), 0)
				}
				if r.Rank() != test.first {
					<-called
				}
				if err == nil {
					err = test.calls[r.Rank()](r.ctx, c, b)
				}
				if r.Rank() == test.first {
					close(called)
				}
				if err == nil {
					err = c.Wait(r.ctx)
				}
				if err == nil { // a short message may be gone before the other rank comes
					select {
					case <-found:
					case <-r.ctx.Done():
					}
					return cuda.Barrier(r.ctx, c)
				}
				if _, ok := errors.AsType[*worker.MismatchError](err); ok {
					found <- struct{}{}
				}
				return err
			})
			var mismatch *worker.MismatchError
			known := 0
			for r, err := range errs {
				if wrong, ok := errors.AsType[*worker.MismatchError](err); ok {
					known++
					if mismatch = wrong; wrong.Rank != r || wrong.Peer != 1-r {
						t.Errorf("rank %d: %+v", r, wrong)
					}
				}
				for _, want := range test.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("rank %d: %v\ndoes not say %q", r, err, want)
					}
				}
			}
			if known == 0 || known == 1 && test.first == 1 { // who receives waits until then
				t.Fatalf("%d ranks know what does not match: %v", known, errs)
			}
			if !test.apart && (!strings.Contains(mismatch.MyCaller, "calls_test.go:") || !strings.Contains(mismatch.TheirCaller, "calls_test.go:")) {
				t.Errorf("the lines are not known: %v", mismatch)
			}
		})
	}
}

// TestCallsInFlightAreBounded checks that a stream takes 256 calls, and no more until some
// have ended.
func TestCallsInFlightAreBounded(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[float32](r.ctx, c, 77)
		if err == nil {
			err = c.Wait(r.ctx)
		}
		if err != nil {
			return err
		}
		read := f.record()
		f.set("FAKE_CUDA_HOLD", "1")
		made := func() int {
			return len(slices.DeleteFunc(read(), func(c string) bool { return c != "ncclAllReduce 77" }))
		}
		const calls = 700
		done := make(chan error, 1)
		go func() {
			for range calls {
				if err := cuda.AllReduce(r.ctx, c, b, worker.Sum); err != nil {
					done <- err
					return
				}
			}
			done <- c.Wait(r.ctx)
		}()
		for made() < 256 && r.ctx.Err() == nil {
			nap()
		}
		for range 20 {
			nap()
		}
		if n := made(); n != 256 {
			return fmt.Errorf("%d calls are in a stream that stands still", n)
		}
		f.set("FAKE_CUDA_HOLD", "")
		if err := <-done; err != nil {
			return err
		}
		if n := made(); n != calls {
			return fmt.Errorf("%d of %d calls were made", n, calls)
		}
		return nil
	}))
}

// TestCallsAllocateNothing counts the allocations of calls and of their wait.
func TestCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		a, err := cuda.Alloc[float32](r.ctx, c, 8)
		if err != nil {
			return err
		}
		b, err := cuda.Alloc[float32](r.ctx, c, 8)
		if err != nil {
			return err
		}
		counts := []int{8}
		n := testing.AllocsPerRun(300, func() {
			err = errors.Join(
				cuda.AllReduce(r.ctx, c, a, worker.Sum), cuda.Broadcast(r.ctx, c, a, 0), cuda.AllGather(r.ctx, c, b, a),
				cuda.ReduceScatter(r.ctx, c, b, a, worker.Sum), cuda.AllToAll(r.ctx, c, b, a), cuda.AllToAllV(r.ctx, c, b, counts, a, counts),
				cuda.SendRecv(r.ctx, c, a, 0, b, 0), c.Wait(r.ctx), err,
			)
		})
		if err == nil && n != 0 {
			err = fmt.Errorf("7 calls and a wait allocate %v times", n)
		}
		return err
	}))
}

// TestArgumentsAreChecked makes calls that cannot be right. Their errors break nothing.
func TestArgumentsAreChecked(t *testing.T) {
	f := newFake(t)
	f.set("FAKE_CUDA_MEMORY", "1000000")
	noErrors(t, gpus(t, f, 2, place{}, func(r rank, c *cuda.Comm) error {
		ctx := r.ctx
		a, err := cuda.Alloc[float32](ctx, c, 8)
		if err != nil {
			return err
		}
		b, err := cuda.Alloc[float32](ctx, c, 16)
		if err != nil {
			return err
		}
		short, err := cuda.Alloc[int16](ctx, c, 8)
		if err != nil {
			return err
		}
		freed, err := cuda.Alloc[float32](ctx, c, 8)
		if err == nil {
			err = freed.Free(ctx)
		}
		if err != nil {
			return err
		}
		_, tooMuch := cuda.Alloc[byte](ctx, c, 2000000)
		_, negative := cuda.Alloc[byte](ctx, c, -1)
		_, unequal := cuda.Alloc[byte](ctx, c, 100+r.Rank())
		var none *cuda.Comm
		for want, err := range map[string]error{
			"the result has 8 elements instead of 16":                             cuda.AllGather(ctx, c, a, a),
			"the source has 8 elements instead of 32":                             cuda.ReduceScatter(ctx, c, b, a, worker.Sum),
			"there is no rank 2: the communicator has ranks 0 to 1":               cuda.Broadcast(ctx, c, a, 2),
			"cannot send on GPUs: there is no rank 5":                             cuda.Send(ctx, c, a, 5),
			"cannot receive on GPUs: there is no rank -1":                         cuda.Recv(ctx, c, a, -1),
			"is this rank itself":                                                 cuda.Send(ctx, c, a, r.Rank()),
			"there is no rank -3":                                                 cuda.SendRecv(ctx, c, a, -3, b, 0),
			"and is for integers, the buffer holds float32":                       cuda.AllReduce(ctx, c, a, worker.And),
			"NCCL does not compute with int16":                                    cuda.AllReduce(ctx, c, short, worker.Sum),
			"the source and the result share memory":                              cuda.AllToAll(ctx, c, b, b),
			"the buffer was freed":                                                cuda.AllReduce(ctx, c, freed, worker.Sum),
			"cannot copy between 3 elements of the host and 8 of the GPU":         a.CopyFrom(ctx, make([]float32, 3)),
			"cannot copy on the GPU: the source has 8 elements, the result 16":    cuda.Copy(ctx, c, b, a),
			"rank 0 cannot use its GPU: allocating 2000000 bytes: ncclMemAlloc: ": tooMuch,
			"cannot allocate -1 elements":                                         negative,
			"the ranks allocate different sizes: rank 0 100 bytes, rank 1 101":    unequal,
			"the communicator of GPUs is nil":                                     cuda.Barrier(ctx, none),
		} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "gorun: ") {
				t.Errorf("rank %d: %v, want %s", r.Rank(), err, want)
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a slice outside of its buffer is no panic")
				}
			}()
			a.Slice(4, 9)
		}()
		return cuda.Barrier(ctx, c)
	}))
}

// TestMemoryIsZeroAndOrdered checks that memory is 0 at first, that a copy comes after the
// calls before it, and that streams wait for each other's events.
func TestMemoryIsZeroAndOrdered(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 2, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[int32](r.ctx, c, 1000)
		if err != nil {
			return err
		}
		host := make([]int32, 1000)
		host[7] = 1
		if err := b.CopyTo(r.ctx, host); err != nil {
			return err
		}
		if slices.ContainsFunc(host, func(v int32) bool { return v != 0 }) {
			return errors.New("new memory is not 0")
		}
		s, err := c.NewStream()
		if err != nil {
			return err
		}
		for i := range host {
			host[i] = int32(i)
		}
		if err := b.CopyFrom(r.ctx, host); err != nil {
			return err
		}
		host[5] = -1 // the copy has been made
		before, err := c.Stream().Record()
		if err == nil {
			err = s.WaitFor(before)
		}
		if err == nil {
			err = cuda.AllReduce(r.ctx, c.On(s), b, worker.Sum)
		}
		if err == nil {
			err = c.On(s).Wait(r.ctx)
		}
		if err == nil {
			err = b.CopyTo(r.ctx, host)
		}
		if err != nil {
			return err
		}
		for i, v := range host {
			if v != int32(2*i) {
				return fmt.Errorf("%d at %d, want %d", v, i, 2*i)
			}
		}
		return before.Free()
	}))
}

// TestStreamsAreGivenBack frees streams of the program's and of another library's with calls
// in them, and lets Close wait for the calls of one that is not freed.
func TestStreamsAreGivenBack(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 1, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[int32](r.ctx, c, 10)
		if err != nil {
			return err
		}
		other, err := c.NewStream() // stands for another library's
		if err != nil {
			return err
		}
		for range 3 {
			s, err := c.ForeignStream(other.Handle())
			if err == nil {
				err = cuda.AllReduce(r.ctx, c.On(s), b, worker.Sum)
			}
			if err == nil {
				err = s.Free(r.ctx)
			}
			if err == nil {
				err = s.Free(r.ctx) // again
			}
			if err == nil {
				err = cuda.AllReduce(r.ctx, c.On(other), b, worker.Sum) // it is still that library's
			}
			if err != nil {
				return err
			}
		}
		if err := c.Stream().Free(r.ctx); err == nil || !strings.HasPrefix(err.Error(), "gorun: cannot free the stream that Open made") {
			t.Errorf("the communicator's own stream: %v", err)
		}
		if err := other.Free(r.ctx); err != nil {
			return err
		}
		last, err := c.NewStream()
		if err != nil {
			return err
		}
		foreign, err := c.ForeignStream(last.Handle())
		if err != nil {
			return err
		}
		f.set("FAKE_CUDA_HOLD", "1")
		if err := cuda.AllReduce(r.ctx, c.On(foreign), b, worker.Sum); err != nil {
			return err
		}
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		select {
		case err := <-closed:
			return fmt.Errorf("Close did not wait for a foreign stream: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
		f.set("FAKE_CUDA_HOLD", "")
		return <-closed
	}))
}

// TestCallsAfterClose checks that a closed communicator says so.
func TestCallsAfterClose(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 2, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[int32](r.ctx, c, 10)
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			return err
		}
		for _, err := range []error{cuda.AllReduce(r.ctx, c, b, worker.Sum), c.Wait(r.ctx), cuda.Barrier(r.ctx, c)} {
			if !errors.Is(err, cuda.ErrClosed) && (err == nil || !strings.Contains(err.Error(), "freed")) {
				t.Errorf("a call after Close: %v", err)
			}
		}
		// The CPUs' communicator goes on.
		return worker.Barrier(r.ctx, r.comm)
	}))
}
