//go:build !gpu

package main

import (
	"context"

	"github.com/gorun/gorun/worker"
)

// device is what computes: the CPUs. With -tags gpu it is the GPUs.
type device struct{ *worker.Comm }

// openDevice returns the device of this rank.
func openDevice(_ context.Context, c *worker.Comm) (device, error) { return device{c}, nil }

// Close gives the device back.
func (device) Close() error { return nil }

func allReduceOn[T worker.Number](ctx context.Context, d device, buf []T, op worker.Op) error {
	return worker.AllReduce(ctx, d.Comm, buf, op)
}

func broadcastOn[T worker.Number](ctx context.Context, d device, buf []T, root int) error {
	return worker.Broadcast(ctx, d.Comm, buf, root)
}

func sendRecvOn[T worker.Number](ctx context.Context, d device, out []T, dst int, in []T, src int) error {
	return worker.SendRecv(ctx, d.Comm, out, dst, in, src)
}
