// Command allreduce is a Go worker. It runs every collective once and checks each result
// against the closed form. It exits with 1 if a result is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/gorun/gorun/worker"
)

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	w, err := worker.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, w, os.Stdout); err != nil {
		// Fail reports to every node at once. Without it the exit code would.
		if failErr := w.Fail(err); failErr != nil {
			log.Print(failErr)
		}
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
}

// run makes all checks; rank 0 writes the results to out.
func run(ctx context.Context, w *worker.World, out io.Writer) error {
	if w.Rank() != 0 {
		out = io.Discard
	}
	comm, err := w.Comm(ctx)
	if err != nil {
		return err
	}
	// The first call makes the connections. The measurements below must not include it.
	if err := worker.Barrier(ctx, comm); err != nil {
		return err
	}
	dev, err := openDevice(ctx, comm)
	if err != nil {
		return err
	}
	r := report{ctx, w, dev, out}
	for _, n := range []int{1, 1000, 1 << 20} {
		for _, op := range []worker.Op{worker.Sum, worker.Max, worker.Min, worker.Prod} {
			if err := allReduce[float32](r, "float32", n, op); err != nil {
				return err
			}
			if err := allReduce[float64](r, "float64", n, op); err != nil {
				return err
			}
			if err := allReduce[int64](r, "int64", n, op); err != nil {
				return err
			}
		}
	}
	for root := range w.Size() {
		if err := broadcast(r, 1000, root); err != nil {
			return err
		}
	}
	return errors.Join(ring(r, 1000), dev.Close())
}

// report has what the checks share.
type report struct {
	ctx context.Context
	w   *worker.World
	dev device
	out io.Writer
}

func (r report) verified(what string, took time.Duration) {
	ms := float64(took.Microseconds()) / 1000
	fmt.Fprintf(r.out, "allreduce: %d ranks, %s verified, %.1f ms\n", r.w.Size(), what, ms)
}
