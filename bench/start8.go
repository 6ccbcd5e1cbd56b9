package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// start8 is the wall time of 8 workers that end at once.
func start8() []scenario {
	const bound = 30 * time.Second
	s := shape{nodes: 1, perNode: 8}
	run := func(ctx context.Context, l *lab, p *peer) (_ []reading, err error) {
		j, err := startJob(l, p, s, []string{"/bin/true"})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, j.close()) }()
		codes, err := j.wait(ctx, bound)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(codes, func(c int) bool { return c != 0 }) {
			return nil, fmt.Errorf("exit codes %v: %s", codes, j.lastOutput())
		}
		return one(reading{value: ms(j.end - j.begin), unit: "ms"}), nil
	}
	return []scenario{{
		measure: "start8", name: "8 x true", run: run,
		only: []string{nameGorun, "torchrun", "mpirun", "hydra", nameFloor, "srun -K"}, // a node alone meets nobody
	}}
}
