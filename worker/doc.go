// Package worker is what a Go program links to be a rank of a gorun job: who it
// is in the world, word of an abort as it happens, and collectives.
//
//	w, err := worker.Init(ctx)
//	defer w.Close()
//	comm, err := w.Comm(ctx)
//	err = worker.AllReduce(ctx, comm, gradients, worker.Sum)
//
// It works in three surroundings. Under gorun it also holds a connection to the
// agent, so that whatever blocks returns within 100 ms of an abort, with the
// cause. Under another launcher that sets torchrun's variables and serves the
// store at MASTER_ADDR:MASTER_PORT everything but the abort works. Without any of
// these variables it is a world of one.
//
// Invariants: it imports the standard library and this module's worker tree
// only; it never prints and never ends the process; all that it starts ends
// with World.Close.
package worker
