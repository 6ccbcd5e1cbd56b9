package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gorun/gorun/worker"
)

// measureTime bounds how long a probe repeats a call to measure it, and measureCalls how
// often.
const (
	measureTime  = 150 * time.Millisecond
	measureCalls = 200
)

// Order is what a process of a rung reads: its task, and the environment of its world.
type Order struct {
	Task Task     `json:"task"`
	Env  []string `json:"env"` // NAME=value
}

// Probe is the whole of a process that a tester starts: one rank of a group. It reads its
// order from in, tests, and writes its Result to out. onGPU begins to prepare the GPU at
// once, because that takes longer than the rung before may take. Without an order it ends.
func Probe(ctx context.Context, onGPU bool, in io.Reader, out io.Writer) error {
	var mine gpu
	if onGPU {
		mine = startGPU()
	}
	var o Order
	if err := json.NewDecoder(io.LimitReader(in, maxMessage)).Decode(&o); err == io.EOF {
		return nil
	} else if err != nil {
		return fmt.Errorf("no order on standard input: %w", err)
	}
	for _, entry := range o.Env {
		name, value, _ := strings.Cut(entry, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Task.Deadline)
	defer cancel()
	if o.Task.Compute != ComputeGPU {
		mine = nil
	} else if mine == nil {
		if mine = startGPU(); mine == nil {
			return json.NewEncoder(out).Encode(Result{End: EndFailed, Text: "this gorun is built without C, and cannot compute on GPUs"})
		}
	}
	return json.NewEncoder(out).Encode(probe(ctx, mine, o.Task))
}

// probe carries out a task: on the CPUs without a GPU.
func probe(ctx context.Context, mine gpu, task Task) Result {
	w, err := worker.Init(ctx)
	if err != nil {
		return Result{End: EndFailed, Text: err.Error()}
	}
	r, err := run(ctx, w, mine, task)
	if err != nil {
		_ = w.Fail(err) // tells the partners, who else wait for the deadline
		w.Close()
		r.Text = err.Error()
		return r
	}
	if err := w.Close(); err != nil {
		r.End, r.Text = endOf(err), err.Error()
	}
	return r
}

// endOf returns the End that an error means.
func endOf(err error) End {
	_, isWrong := errors.AsType[*WrongError](err)
	_, isLost := errors.AsType[*worker.PeerError](err)
	_, isHung := errors.AsType[*worker.HangError](err)
	switch {
	case err == nil:
		return EndPassed
	case isWrong:
		return EndWrong
	case isHung, !isLost && errors.Is(err, context.DeadlineExceeded):
		return EndLate
	case isLost:
		return EndLost
	}
	return EndFailed
}

// run carries out a task. The Result has the End that the error means.
func run(ctx context.Context, w *worker.World, mine gpu, task Task) (r Result, err error) {
	r.End = EndPassed
	if task.Kind == KindLoad {
		if mine != nil {
			if r.GPU, err = mine.facts(ctx); err != nil {
				r.End, r.NoNCCL = mine.end(err, 0, 1), mine.lacksNCCL(ctx)
			}
		}
		return r, err
	}
	c, err := w.Comm(ctx)
	if err != nil {
		r.End = endOf(err)
		return r, err
	}
	var e engine = cpus{c}
	if mine != nil {
		if e, err = mine.open(ctx, c); err != nil {
			r.End = mine.end(err, c.Rank(), c.Size())
			return r, err
		}
	}
	for _, bytes := range task.Sizes {
		t, err := measure(ctx, e, c, task.Kind, max(1, bytes/4))
		if err != nil {
			r.End = e.end(err)
			return r, err
		}
		r.Timing = append(r.Timing, Timing{bytes, t.Seconds()})
	}
	if mine != nil { // the memory of a process that ends is gone for the others
		if err := worker.Barrier(ctx, c); err != nil {
			r.End = endOf(err)
			return r, err
		}
	}
	return r, nil
}

// measure makes a call with n numbers until it knows its time. It checks every value of
// the first call and of the last.
func measure(ctx context.Context, e engine, c *worker.Comm, kind Kind, n int) (time.Duration, error) {
	t, err := newCall(ctx, e, c, kind, n)
	if err != nil {
		return 0, err
	}
	if err := t.check(ctx); err != nil {
		return 0, err
	}
	calls, err := t.count(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	for range calls {
		if err := t.do(ctx); err != nil {
			return 0, err
		}
	}
	if err := t.wait(ctx); err != nil {
		return 0, err
	}
	each := time.Since(start) / time.Duration(calls)
	if err := t.check(ctx); err != nil {
		return 0, err
	}
	return each, t.free(ctx)
}

// call is one collective with its buffers.
type call struct {
	calls
	kind     Kind
	c        *worker.Comm
	src, dst []float32
}

func newCall(ctx context.Context, e engine, c *worker.Comm, kind Kind, n int) (*call, error) {
	if kind == KindAllToAll {
		n *= c.Size()
	}
	t := &call{kind: kind, c: c, src: make([]float32, n), dst: make([]float32, n)}
	var err error
	t.calls, err = e.prepare(ctx, kind, t.src, t.dst)
	return t, err
}

// count returns how often the call is to be measured: rank 0 measures one, and all do
// what it says.
func (t *call) count(ctx context.Context) (int, error) {
	start := time.Now()
	if err := t.do(ctx); err != nil {
		return 0, err
	}
	if err := t.wait(ctx); err != nil {
		return 0, err
	}
	n := []int64{min(measureCalls, int64(measureTime/max(1, time.Since(start)))+1)}
	err := worker.Broadcast(ctx, t.c, n, 0)
	return int(n[0]), err
}

// value is what a rank puts at an index. It depends on both, so that a value at a wrong
// place or of a wrong rank shows; sums of it are exact in float32.
func value(rank, i int) float32 { return float32(rank%61 + 1 + i%127) }

// check makes the call with known values and checks every result.
func (t *call) check(ctx context.Context) error {
	rank, size := t.c.Rank(), t.c.Size()
	for i := range t.src {
		t.src[i], t.dst[i] = value(rank, i), -1
	}
	for _, step := range []func(context.Context) error{t.load, t.do, t.wait, t.store} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	got, want := t.dst, func(i int) float32 { return value((rank+size-1)%size, i) }
	switch t.kind {
	case KindCopy:
		want = func(i int) float32 { return value(rank, i) }
	case KindAllToAll:
		part := len(t.src) / size
		want = func(i int) float32 { return value(i/part, rank*part+i%part) }
	case KindAllReduce:
		var ranks float32
		for r := range size {
			ranks += value(r, 0)
		}
		got, want = t.src, func(i int) float32 { return ranks + float32(size)*float32(i%127) }
	}
	for i, v := range got {
		if w := want(i); v != w {
			return &WrongError{t.kind, i, v, w}
		}
	}
	return nil
}

// WrongError is a call with a wrong result.
type WrongError struct {
	Kind      Kind
	Index     int
	Got, Want float32
}

func (e *WrongError) Error() string {
	return fmt.Sprintf("%s of known values: element %d is %v instead of %v", e.Kind, e.Index, e.Got, e.Want)
}
