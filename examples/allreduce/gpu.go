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

func allReduceOn[T worker.Number](ctx context.Context, d device, buf []T, op worker.Op) error {
	return onGPU(ctx, d, buf, func(b *cuda.Buffer[T]) error { return cuda.AllReduce(ctx, d.Comm, b, op) })
}

func broadcastOn[T worker.Number](ctx context.Context, d device, buf []T, root int) error {
	return onGPU(ctx, d, buf, func(b *cuda.Buffer[T]) error { return cuda.Broadcast(ctx, d.Comm, b, root) })
}

func sendRecvOn[T worker.Number](ctx context.Context, d device, out []T, dst int, in []T, src int) error {
	return onGPU(ctx, d, out, func(o *cuda.Buffer[T]) error {
		return onGPU(ctx, d, in, func(i *cuda.Buffer[T]) error { return cuda.SendRecv(ctx, d.Comm, o, dst, i, src) })
	})
}
