// Package program uses package worker as programs do: without its parts, of which the compiler
// would know more then.
package program

import (
	"context"
	"testing"

	"github.com/gorun/gorun/worker"
)

// TestCollectivesAllocateNothing calls from a package for which the compiler makes generic
// functions anew.
func TestCollectivesAllocateNothing(t *testing.T) {
	ctx := context.Background()
	w, err := worker.Start(ctx, worker.Settings{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c, err := w.Comm(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a, b, counts := make([]float32, 8), make([]float32, 8), []int{8}
	for name, call := range map[string]func() error{
		"all-reduce":      func() error { return worker.AllReduce(ctx, c, a, worker.Sum) },
		"reduce":          func() error { return worker.Reduce(ctx, c, a, b, worker.Sum, 0) },
		"broadcast":       func() error { return worker.Broadcast(ctx, c, a, 0) },
		"barrier":         func() error { return worker.Barrier(ctx, c) },
		"all-gather":      func() error { return worker.AllGather(ctx, c, a, b) },
		"all-gather V":    func() error { return worker.AllGatherV(ctx, c, a, counts, b) },
		"reduce-scatter":  func() error { return worker.ReduceScatter(ctx, c, a, b, worker.Sum) },
		"gather":          func() error { return worker.Gather(ctx, c, a, b, 0) },
		"scatter":         func() error { return worker.Scatter(ctx, c, a, b, 0) },
		"all-to-all":      func() error { return worker.AllToAll(ctx, c, a, b) },
		"all-to-all of V": func() error { return worker.AllToAllV(ctx, c, a, counts, b, counts) },
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations a call", name, n)
		}
	}
}
