package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gorun/gorun/worker"
)

// measureTime bounds how long a probe repeats a call to measure it, and measureCalls how
// often.
const (
	measureTime  = 150 * time.Millisecond
	measureCalls = 200
)

// Probe is the whole of a process that a tester starts: one rank of a group. It reads the
// plan from in, tests, and writes its Result to out.
func Probe(ctx context.Context, in io.Reader, out io.Writer) error {
	var p Plan
	if err := json.NewDecoder(io.LimitReader(in, maxPlan)).Decode(&p); err != nil {
		return fmt.Errorf("no plan on standard input: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Deadline)
	defer cancel()
	timings, err := probe(ctx, p)
	r := Result{End: endOf(err), Timing: timings}
	if err != nil {
		r.Text = err.Error()
	}
	return json.NewEncoder(out).Encode(r)
}

func probe(ctx context.Context, p Plan) ([]Timing, error) {
	w, err := worker.Init(ctx)
	if err != nil {
		return nil, err
	}
	timings, err := run(ctx, w, p)
	if err != nil {
		_ = w.Fail(err) // tells the partners, who else wait for the deadline
		w.Close()
		return nil, err
	}
	return timings, w.Close()
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

// run carries out a plan on the CPUs.
func run(ctx context.Context, w *worker.World, p Plan) ([]Timing, error) {
	if p.Kind == KindLoad {
		return nil, nil
	}
	c, err := w.Comm(ctx)
	if err != nil {
		return nil, err
	}
	var timings []Timing
	for _, bytes := range p.Sizes {
		t, err := measure(ctx, c, p.Kind, max(1, bytes/4))
		if err != nil {
			return nil, err
		}
		timings = append(timings, Timing{bytes, t.Seconds()})
	}
	return timings, nil
}

// measure makes a call with n numbers until it knows its time. It checks every value of
// the first call and of the last.
func measure(ctx context.Context, c *worker.Comm, kind Kind, n int) (time.Duration, error) {
	t := newCall(kind, c, n)
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
	each := time.Since(start) / time.Duration(calls)
	return each, t.check(ctx)
}

// call is one collective with its buffers.
type call struct {
	kind     Kind
	c        *worker.Comm
	src, dst []float32
}

func newCall(kind Kind, c *worker.Comm, n int) *call {
	if kind == KindAllToAll {
		n *= c.Size()
	}
	return &call{kind, c, make([]float32, n), make([]float32, n)}
}

// do makes the call once.
func (t *call) do(ctx context.Context) error {
	switch t.kind {
	case KindRing:
		next, before := (t.c.Rank()+1)%t.c.Size(), (t.c.Rank()+t.c.Size()-1)%t.c.Size()
		return worker.SendRecv(ctx, t.c, t.src, next, t.dst, before)
	case KindAllToAll:
		return worker.AllToAll(ctx, t.c, t.dst, t.src)
	case KindCopy:
		copy(t.dst, t.src)
		return ctx.Err()
	}
	return worker.AllReduce(ctx, t.c, t.src, worker.Sum)
}

// count returns how often the call is to be measured: rank 0 measures one, and all do
// what it says.
func (t *call) count(ctx context.Context) (int, error) {
	start := time.Now()
	if err := t.do(ctx); err != nil {
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
	if err := t.do(ctx); err != nil {
		return err
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
