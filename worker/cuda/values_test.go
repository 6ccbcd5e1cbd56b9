package cuda_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
	"github.com/gorun/gorun/worker/cuda/cudacheck"
	"github.com/gorun/gorun/worker/half"
)

// TestValues goes through every call with every type that NCCL computes with: on one node,
// and on nodes apart with an old library.
func TestValues(t *testing.T) {
	for _, f := range []*fake{newFake(t), newFake(t, "NO_SCALABLE", "NO_WINDOWS")} {
		apart := !f.lib.Find("ncclCommWindowRegister").Exists()
		noErrors(t, gpus(t, f, 3, place{apart: apart}, func(r rank, c *cuda.Comm) error {
			for _, n := range []int{1, 1000, 20000} {
				for _, check := range []func(context.Context, *cuda.Comm, int) error{
					cudacheck.Calls[float32], cudacheck.Calls[float64], cudacheck.Calls[int8], cudacheck.Calls[uint8],
					cudacheck.Calls[int32], cudacheck.Calls[uint32], cudacheck.Calls[int64], cudacheck.Calls[uint64],
				} {
					if err := check(r.ctx, c, n); err != nil {
						return err
					}
					if n != 1000 { // one type suffices
						break
					}
				}
			}
			return nil
		}))
	}
}

// TestHalves checks the types of 16 bits: floats are computed with, integers only moved.
func TestHalves(t *testing.T) {
	f := newFake(t)
	noErrors(t, gpus(t, f, 2, place{}, func(r rank, c *cuda.Comm) error {
		b, err := cuda.Alloc[worker.BFloat16](r.ctx, c, 3)
		if err != nil {
			return err
		}
		if err := b.CopyFrom(r.ctx, []worker.BFloat16{half.ToBFloat16(1.5), half.ToBFloat16(-2), half.ToBFloat16(float32(r.Rank()))}); err != nil {
			return err
		}
		if err := cuda.AllReduce(r.ctx, c, b, worker.Avg); err != nil {
			return err
		}
		got := make([]worker.BFloat16, 3)
		if err := b.CopyTo(r.ctx, got); err != nil {
			return err
		}
		if want := []worker.BFloat16{half.ToBFloat16(1.5), half.ToBFloat16(-2), half.ToBFloat16(0.5)}; !slices.Equal(got, want) {
			return fmt.Errorf("average of bfloat16 %v, want %v", got, want)
		}
		n, err := cuda.Alloc[int16](r.ctx, c, 2)
		if err != nil {
			return err
		}
		if err := n.CopyFrom(r.ctx, []int16{int16(1000 * r.Rank()), -1}); err != nil {
			return err
		}
		if err := cuda.Broadcast(r.ctx, c, n, 1); err != nil {
			return err
		}
		moved := make([]int16, 2)
		if err := n.CopyTo(r.ctx, moved); err != nil {
			return err
		}
		if !slices.Equal(moved, []int16{1000, -1}) {
			return fmt.Errorf("broadcast of int16 %v", moved)
		}
		return nil
	}))
}
