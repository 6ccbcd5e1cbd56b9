// Command train is a Go worker that trains a small network in plain Go. The ranks form a
// grid: the hidden units of one copy of the network are divided among the ranks of a row,
// the samples among the rows. It writes checkpoints, and a restarted job goes on from the
// last one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/gorun/gorun/worker"
)

// options are the command line.
type options struct {
	steps      int
	save       int
	checkpoint string
	failAt     int
}

func main() {
	var o options
	flag.IntVar(&o.steps, "steps", 200, "steps of training")
	flag.IntVar(&o.save, "save", 25, "steps between two checkpoints")
	flag.StringVar(&o.checkpoint, "checkpoint", "", "folder of the checkpoints, which all ranks see; empty: none")
	flag.IntVar(&o.failAt, "fail-at", -1, "the last rank fails at this step of the first attempt")
	flag.Parse()
	os.Exit(worker.Main(func(ctx context.Context, w *worker.World) error { return train(ctx, w, o) }))
}

// grid is a rank's two communicators.
type grid struct {
	world *worker.Comm
	model *worker.Comm // the ranks that share one copy of the network
	data  *worker.Comm // the ranks that have the same hidden units
}

// newGrid makes rows of two ranks, or of one if the number of ranks is odd.
func newGrid(ctx context.Context, c *worker.Comm) (grid, error) {
	width := 1
	if c.Size()%2 == 0 {
		width = 2
	}
	model, err := c.Split(ctx, c.Rank()/width, c.Rank())
	if err != nil {
		return grid{}, err
	}
	data, err := c.Split(ctx, c.Rank()%width, c.Rank())
	return grid{c, model, data}, err
}

func train(ctx context.Context, w *worker.World, o options) error {
	c, err := w.Comm(ctx)
	if err != nil {
		return err
	}
	g, err := newGrid(ctx, c)
	if err != nil {
		return err
	}
	n := newNetwork(hidden/g.model.Size(), g.model.Rank())
	step, err := restore(ctx, g, o.checkpoint, n)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) {
		if c.Rank() == 0 {
			fmt.Printf("train: "+format+"\n", args...)
		}
	}
	if step > 0 {
		say("goes on from step %d", step)
	}
	say("%d ranks: %d rows of %d", c.Size(), g.data.Size(), g.model.Size())
	var loss float64
	for ; step < o.steps; step++ {
		if step == o.failAt && w.RestartCount() == 0 && c.Rank() == c.Size()-1 {
			return fmt.Errorf("train: rank %d fails at step %d, as asked", c.Rank(), step)
		}
		if loss, err = n.step(ctx, g, step); err != nil {
			return err
		}
		if step == 0 {
			n.first = loss
		}
		w.Step(step)
		if (step+1)%50 == 0 {
			say("step %d, loss %.4f", step+1, loss)
		}
		if o.checkpoint != "" && (step+1)%o.save == 0 {
			if err := save(ctx, g, o.checkpoint, n, step+1); err != nil {
				return err
			}
		}
	}
	if loss >= n.first {
		return fmt.Errorf("train: the loss did not fall: %v at first, %v at the end", n.first, loss)
	}
	say("done: loss %.4f, %.4f at first", loss, n.first)
	return nil
}
