//go:build gpu

package main

import (
	"context"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/cuda"
)

// device is what computes: the GPUs. Without -tags gpu it is the CPUs.
type device struct{ *cuda.Comm }

// openDevice returns the GPU of this rank.
func openDevice(ctx context.Context, c *worker.Comm) (device, error) {
	gpu, err := cuda.Open(ctx, c)
	return device{gpu}, err
}

// onGPU makes a call on a copy of buf in the GPU's memory and copies the result back.
func onGPU[T worker.Number](ctx context.Context, d device, buf []T, call func(b *cuda.Buffer[T]) error) error {
	b, err := cuda.Alloc[T](ctx, d.Comm, len(buf))
	if err != nil {
		return err
	}
	if err := b.CopyFrom(ctx, buf); err != nil {
		return err
	}
	if err := call(b); err != nil {
		return err
	}
	if err := b.CopyTo(ctx, buf); err != nil {
		return err
	}
	return b.Free(ctx)
}

func allToAllOn(ctx context.Context, d device, dst, src []float64) error {
	return onGPU(ctx, d, src, func(s *cuda.Buffer[float64]) error {
		return onGPU(ctx, d, dst, func(b *cuda.Buffer[float64]) error { return cuda.AllToAll(ctx, d.Comm, b, s) })
	})
}
