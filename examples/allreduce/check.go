package main

import (
	"fmt"
	"time"

	"github.com/gorun/gorun/worker"
)

// element returns rank's value at index i, and result returns the value that the op over
// all ranks must give there. All values are small whole numbers, so floats are exact.
func element(op worker.Op, rank, size, i int) int {
	if op == worker.Prod { // one rank has 2, the others have 1
		return 1 + max(0, 1-abs(rank-i%size))
	}
	return rank + 1 + i%10
}

func result(op worker.Op, size, i int) int {
	switch op {
	case worker.Sum: // 1 + 2 + ... + size, and i%10 from each
		return size*(size+1)/2 + size*(i%10)
	case worker.Max:
		return size + i%10
	case worker.Min:
		return 1 + i%10
	default:
		return 2
	}
}

func abs(n int) int { return max(n, -n) }

func allReduce[T worker.Number](r report, dtype string, n int, op worker.Op) error {
	size := r.w.Size()
	buf := make([]T, n)
	for i := range buf {
		buf[i] = T(element(op, r.w.Rank(), size, i))
	}
	start := time.Now()
	if err := allReduceOn(r.ctx, r.dev, buf, op); err != nil {
		return err
	}
	took := time.Since(start)
	for i, v := range buf {
		if want := T(result(op, size, i)); v != want {
			return fmt.Errorf("allreduce: rank %d: wrong %v of %s x %d: %v at %d, want %v",
				r.w.Rank(), op, dtype, n, v, i, want)
		}
	}
	r.verified(fmt.Sprintf("%s x %d: %v", dtype, n, op), took)
	return nil
}

func broadcast(r report, n, root int) error {
	buf := make([]int64, n)
	for i := range buf {
		buf[i] = int64(r.w.Rank()*n + i)
	}
	start := time.Now()
	if err := broadcastOn(r.ctx, r.dev, buf, root); err != nil {
		return err
	}
	took := time.Since(start)
	for i, v := range buf {
		if want := int64(root*n + i); v != want {
			return fmt.Errorf("allreduce: rank %d: broadcast from rank %d: %d at %d, want %d", r.w.Rank(), root, v, i, want)
		}
	}
	r.verified(fmt.Sprintf("int64 x %d: broadcast from rank %d", n, root), took)
	return nil
}

// ring sends a number once round all ranks, and each rank adds its own.
func ring(r report, n int) error {
	size, rank := r.w.Size(), r.w.Rank()
	next, prev := (rank+1)%size, (rank+size-1)%size
	mine, theirs, total := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range mine {
		mine[i] = float64(rank + i)
	}
	start := time.Now()
	for range size {
		if err := sendRecvOn(r.ctx, r.dev, mine, next, theirs, prev); err != nil {
			return err
		}
		for i, v := range theirs {
			total[i] += v
		}
		mine, theirs = theirs, mine
	}
	took := time.Since(start)
	for i, v := range total {
		if want := float64(size*(size-1)/2 + size*i); v != want {
			return fmt.Errorf("allreduce: rank %d: send/receive ring: %v at %d, want %v", rank, v, i, want)
		}
	}
	r.verified(fmt.Sprintf("float64 x %d: send/receive ring", n), took)
	return nil
}
