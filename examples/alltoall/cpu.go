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

func allToAllOn(ctx context.Context, d device, dst, src []float64) error {
	return worker.AllToAll(ctx, d.Comm, dst, src)
}
