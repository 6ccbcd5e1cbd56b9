// Package worker is what a Go program links to be a rank of a gorun job. It gives the
// program its place in the world, the cause of an abort at once, and collectives.
//
//	w, err := worker.Init(ctx)
//	defer w.Close()
//	comm, err := w.Comm(ctx)
//	err = worker.AllReduce(ctx, comm, gradients, worker.Sum)
//
// It works in three surroundings. Under gorun it also holds a connection to the agent,
// so that every blocked call returns within 100 ms of an abort, with the cause. Under
// another launcher that sets torchrun's variables and serves the store at
// MASTER_ADDR:MASTER_PORT, everything but the abort works. Without any of these
// variables the process is a world of one.
//
// Invariants: the package imports only the standard library and this module's worker
// tree. It never prints and never ends the process. Everything that it starts ends with
// World.Close.
package worker
