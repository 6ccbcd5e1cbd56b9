// Command gohang sums in a loop, until rank 1 stays in loadData.
package main

import (
	"context"
	"os"
	"time"

	"github.com/gorun/gorun/worker"
)

func main() { os.Exit(worker.Main(run)) }

func run(ctx context.Context, w *worker.World) error {
	c, err := w.Comm(ctx)
	if err != nil {
		return err
	}
	for i := range 10 {
		w.Step(i)
		if i == 5 && w.Rank() == 1 {
			loadData(ctx)
		}
		if err := worker.AllReduce(ctx, c, make([]float32, 8), worker.Sum); err != nil {
			return err
		}
	}
	return nil
}

func loadData(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Minute):
	}
}
