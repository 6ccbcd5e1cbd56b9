// Command worker is one rank of Go workers: plain|alloc|tcp BYTES REPS BATCH... prints the
// median time of an all-reduce.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/gorun/gorun/worker"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args)%3 != 1 {
		return errors.New("usage: worker plain|alloc|tcp, then BYTES REPS BATCH for each size")
	}
	var opts []worker.Option
	if args[0] == "tcp" {
		opts = append(opts, worker.WithoutSharedMemory())
	}
	w, err := worker.Init(ctx, opts...)
	if err != nil {
		return err
	}
	defer w.Close()
	c, err := w.Comm(ctx)
	if err != nil {
		return err
	}
	var numbers []int
	for _, a := range args[1:] {
		n, err := strconv.Atoi(a)
		if err != nil || n < 1 {
			return fmt.Errorf("cannot use %q as a number", a)
		}
		numbers = append(numbers, n)
	}
	for n := range slices.Chunk(numbers, 3) {
		buf := make([]float32, n[0]/4)
		if args[0] == "alloc" {
			if buf, err = worker.Alloc[float32](c, n[0]/4); err != nil {
				return err
			}
		}
		median, err := measure(ctx, c, buf, n[1], n[2])
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Printf("median %d %.3f\n", n[0], float64(median)/1000)
		}
	}
	return nil
}

// measure returns the median time of a call over reps measurements of batch calls.
func measure(ctx context.Context, c *worker.Comm, buf []float32, reps, batch int) (time.Duration, error) {
	var times []time.Duration
	for r := -3; r < reps; r++ {
		for i := range buf {
			buf[i] = float32(c.Rank() + i%7)
		}
		if err := worker.Barrier(ctx, c); err != nil {
			return 0, err
		}
		begin := time.Now()
		for range batch {
			if err := worker.AllReduce(ctx, c, buf, worker.Sum); err != nil {
				return 0, err
			}
		}
		if r >= 0 {
			times = append(times, time.Since(begin)/time.Duration(batch))
		}
	}
	slices.Sort(times)
	return times[reps/2], nil
}
