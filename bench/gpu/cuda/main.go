// Command cuda is one rank of Go workers on GPUs, for bench/gpu/cuda.sh:
//
//	cuda values           every call with every type, against the closed form
//	cuda speed OP:BYTES…  times of calls, as peer.py takes them of torch
//	cuda start            when each part of the start was done
//	cuda loop             all-reduces until one fails
//	cuda mismatch         another call on rank 0 than on the others
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
	"github.com/gorun/gorun/worker/cuda/cudacheck"
	"github.com/gorun/gorun/worker/half"
)

func main() {
	log.SetFlags(0)
	os.Exit(worker.Main(func(ctx context.Context, w *worker.World) error { return run(ctx, w, os.Args[1:]) }))
}

func run(ctx context.Context, w *worker.World, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: cuda values|speed|start|loop|mismatch")
	}
	if args[0] == "loop" {
		fmt.Printf("pid %d %d\n", w.Rank(), os.Getpid())
	}
	dev := cuda.Start(cuda.FromEnv(os.LookupEnv)) // while the ranks find each other
	comm, err := w.Comm(ctx)
	if err != nil {
		return err
	}
	gpu, err := dev.Open(ctx, comm)
	if err != nil {
		return err
	}
	switch args[0] {
	case "values":
		err = values(ctx, gpu)
	case "speed":
		err = speed(ctx, gpu, args[1:])
	case "start":
		err = start(ctx, gpu)
	case "loop":
		err = loop(ctx, gpu)
	case "mismatch":
		err = mismatch(ctx, gpu)
	default:
		err = fmt.Errorf("%q is none of values, speed, start, loop and mismatch", args[0])
	}
	return errors.Join(err, gpu.Close())
}

// values checks every call with every type.
func values(ctx context.Context, c *cuda.Comm) error {
	for _, n := range []int{1, 1000, 1 << 20} {
		for _, check := range []func(context.Context, *cuda.Comm, int) error{
			cudacheck.Calls[float32], cudacheck.Calls[float64], cudacheck.Calls[int8], cudacheck.Calls[uint8],
			cudacheck.Calls[int32], cudacheck.Calls[uint32], cudacheck.Calls[int64], cudacheck.Calls[uint64],
		} {
			if err := check(ctx, c, n); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Printf("every call with 8 types x %d is right\n", n)
		}
	}
	return halves(ctx, c)
}

// halves checks the floats of 16 bits.
func halves(ctx context.Context, c *cuda.Comm) error {
	const n = 1000
	for _, f := range []func() (float32, error){
		func() (float32, error) {
			return half16(ctx, c, n, half.ToFloat16, worker.Float16.Float32)
		},
		func() (float32, error) {
			return half16(ctx, c, n, half.ToBFloat16, worker.BFloat16.Float32)
		},
	} {
		got, err := f()
		if err != nil {
			return err
		}
		if want := float32(c.Size()*(c.Size()-1)) / 2; got != want {
			return fmt.Errorf("the sum of floats of 16 bits is %v, want %v", got, want)
		}
	}
	if c.Rank() == 0 {
		fmt.Println("sums of float16 and bfloat16 are right")
	}
	return nil
}

// half16 returns the last element of a sum of the ranks' numbers.
func half16[T worker.Element](ctx context.Context, c *cuda.Comm, n int, to func(float32) T, from func(T) float32) (float32, error) {
	b, err := cuda.Alloc[T](ctx, c, n)
	if err != nil {
		return 0, err
	}
	host := make([]T, n)
	for i := range host {
		host[i] = to(float32(c.Rank()))
	}
	if err := b.CopyFrom(ctx, host); err != nil {
		return 0, err
	}
	if err := cuda.AllReduce(ctx, c, b, worker.Sum); err != nil {
		return 0, err
	}
	err = b.CopyTo(ctx, host)
	return from(host[n-1]), errors.Join(err, b.Free(ctx))
}

// reps returns how many calls are timed at once, and how often.
func reps(bytes int) (batch, times int) {
	switch {
	case bytes <= 64<<10:
		return 200, 9
	case bytes <= 16<<20:
		return 20, 7
	}
	return 5, 5
}

// speed prints for each OP:BYTES the median time of a call that is waited for, and of one of
// many that follow each other, in µs.
func speed(ctx context.Context, c *cuda.Comm, args []string) error {
	for _, a := range args {
		op, text, _ := strings.Cut(a, ":")
		bytes, err := strconv.Atoi(text)
		if err != nil || bytes < 8 {
			return fmt.Errorf("%q is not OP:BYTES", a)
		}
		call, free, err := caller(ctx, c, op, bytes)
		if err != nil {
			return err
		}
		single, err := median(ctx, c, call, 1, 31)
		if err != nil {
			return err
		}
		batch, times := reps(bytes)
		many, err := median(ctx, c, call, batch, times)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Printf("time %s %d %.2f %.2f\n", op, bytes, micros(single), micros(many))
		}
		if err := free(); err != nil {
			return err
		}
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// caller returns a call of op on bytes of each rank.
func caller(ctx context.Context, c *cuda.Comm, op string, bytes int) (call, free func() error, err error) {
	n := bytes / 4
	a, err := cuda.Alloc[float32](ctx, c, n)
	if err != nil {
		return nil, nil, err
	}
	b, err := cuda.Alloc[float32](ctx, c, n)
	if err != nil {
		return nil, nil, err
	}
	free = func() error { return errors.Join(a.Free(ctx), b.Free(ctx)) }
	part := a.Slice(0, max(n/c.Size(), 1))
	whole := b.Slice(0, part.Len()*c.Size())
	if whole.Len() > b.Len() {
		return nil, nil, fmt.Errorf("%d bytes are too few for %d ranks", bytes, c.Size())
	}
	calls := map[string]func() error{
		"all-reduce":     func() error { return cuda.AllReduce(ctx, c, a, worker.Sum) },
		"broadcast":      func() error { return cuda.Broadcast(ctx, c, a, 0) },
		"all-gather":     func() error { return cuda.AllGather(ctx, c, whole, part) },
		"reduce-scatter": func() error { return cuda.ReduceScatter(ctx, c, part, whole, worker.Sum) },
		"all-to-all":     func() error { return cuda.AllToAll(ctx, c, whole, a.Slice(0, whole.Len())) },
	}
	if call = calls[op]; call == nil {
		return nil, nil, fmt.Errorf("there is no %q", op)
	}
	return call, free, nil
}

// median returns the median time of a call, of batch that follow each other.
func median(ctx context.Context, c *cuda.Comm, call func() error, batch, times int) (time.Duration, error) {
	var took []time.Duration
	for i := -2; i < times; i++ {
		if err := cuda.Barrier(ctx, c); err != nil {
			return 0, err
		}
		begin := time.Now()
		for range batch {
			if err := call(); err != nil {
				return 0, err
			}
		}
		if err := c.Wait(ctx); err != nil {
			return 0, err
		}
		if i >= 0 {
			took = append(took, time.Since(begin)/time.Duration(batch))
		}
	}
	slices.Sort(took)
	return took[times/2], nil
}

// start prints when the first all-reduce was done, and the parts of the start.
func start(ctx context.Context, c *cuda.Comm) error {
	b, err := cuda.Alloc[float32](ctx, c, 2)
	if err != nil {
		return err
	}
	if err := cuda.AllReduce(ctx, c, b, worker.Sum); err != nil {
		return err
	}
	if err := c.Wait(ctx); err != nil {
		return err
	}
	done := time.Now()
	t, err := c.Timings(ctx)
	if err == nil {
		fmt.Printf("done %d %d.%06d\n", c.Rank(), done.Unix(), done.Nanosecond()/1000)
		fmt.Printf("parts of rank %d: %v\n", c.Rank(), t)
	}
	return err
}

// loop makes all-reduces until one fails, and says when.
func loop(ctx context.Context, c *cuda.Comm) error {
	b, err := cuda.Alloc[float32](ctx, c, 1<<18)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err = cuda.AllReduce(ctx, c, b, worker.Sum); err == nil {
			err = c.Wait(ctx)
		}
		if err != nil {
			now := time.Now()
			fmt.Printf("ended %d %d.%06d after %d calls: %v\n", c.Rank(), now.Unix(), now.Nanosecond()/1000, i, err)
			return err
		}
		if i == 20 {
			fmt.Printf("running %d %d\n", c.Rank(), os.Getpid())
		}
	}
}

// mismatch makes another call on rank 0 than on the others, and prints the error.
func mismatch(ctx context.Context, c *cuda.Comm) error {
	b, err := cuda.Alloc[float32](ctx, c, 1<<22)
	if err != nil {
		return err
	}
	if err := cuda.Barrier(ctx, c); err != nil {
		return err
	}
	begin := time.Now()
	if c.Rank() == 0 {
		err = cuda.AllReduce(ctx, c, b.Slice(0, 1000), worker.Sum)
	} else {
		err = cuda.Broadcast(ctx, c, b, 1)
	}
	if err == nil {
		err = c.Wait(ctx)
	}
	fmt.Printf("mismatch of rank %d after %.1f ms: %v\n", c.Rank(), float64(time.Since(begin).Microseconds())/1000, err)
	return err
}
