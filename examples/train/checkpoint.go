package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gorun/gorun/worker"
)

// checkpoint is a file: the parameters of some hidden units after a step.
type checkpoint struct {
	Step   int
	First  float64 // the loss of the first step
	Params []float64
}

// file names the checkpoint of a share of the network. Two steps take turns, so that one
// is whole while the other is written.
func file(dir string, share, slot int) string {
	return filepath.Join(dir, fmt.Sprintf("share-%d.%d", share, slot))
}

// save writes the network after a step; the first row does so for all.
func save(ctx context.Context, g grid, dir string, n *network, step int) error {
	if g.data.Rank() == 0 {
		if err := write(dir, g.model.Rank(), checkpoint{step, n.first, n.params}); err != nil {
			return fmt.Errorf("train: cannot write a checkpoint: %w", err)
		}
	}
	// No rank goes on before the checkpoint is whole: the slots of two steps must not mix.
	return worker.Barrier(ctx, g.world)
}

// write replaces the older of a share's two files.
func write(dir string, share int, c checkpoint) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	slot := 0
	if old, err := read(dir, share, 0); err == nil && old.Step < c.Step {
		if other, err := read(dir, share, 1); err != nil || other.Step < old.Step {
			slot = 1
		}
	}
	f, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = gob.NewEncoder(f).Encode(c)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), file(dir, share, slot))
	}
	return err
}

func read(dir string, share, slot int) (checkpoint, error) {
	var c checkpoint
	f, err := os.Open(file(dir, share, slot))
	if err != nil {
		return c, err
	}
	defer f.Close()
	err = gob.NewDecoder(f).Decode(&c)
	return c, err
}

// restore reads the newest checkpoint that every rank has, and returns its step: 0 if there
// is none.
func restore(ctx context.Context, g grid, dir string, n *network) (int, error) {
	if dir == "" {
		return 0, nil
	}
	var mine [2]checkpoint
	newest := 0
	for slot := range mine {
		c, err := read(dir, g.model.Rank(), slot)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("train: cannot read a checkpoint: %w", err)
		}
		mine[slot] = c
		newest = max(newest, c.Step)
	}
	step := []int{newest}
	if err := worker.AllReduce(ctx, g.world, step, worker.Min); err != nil || step[0] == 0 {
		return 0, err
	}
	for _, c := range mine {
		if c.Step == step[0] && len(c.Params) == len(n.params) {
			copy(n.params, c.Params)
			n.first = c.First
			return c.Step, nil
		}
	}
	return 0, fmt.Errorf("train: rank %d has no checkpoint of step %d for %d units in %s; was it written by another number of ranks?",
		g.world.Rank(), step[0], n.units, dir)
}
