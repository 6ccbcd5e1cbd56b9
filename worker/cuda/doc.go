// Package cuda makes a worker's collectives on the memory of its GPU, through NCCL.
//
//	w, err := worker.Init(ctx)
//	comm, err := w.Comm(ctx)
//	gpu, err := cuda.Open(ctx, comm)
//	defer gpu.Close()
//	gradients, err := cuda.Alloc[float32](ctx, gpu, 1<<20)
//	err = cuda.AllReduce(ctx, gpu, gradients, worker.Sum)
//	err = gradients.CopyTo(ctx, host)
//
// The functions have the names and arguments of package worker's. A call returns when it is
// in the GPU's stream; Comm.Wait and Buffer.CopyTo wait for it. The libraries, libcuda.so.1
// and libnccl.so.2, are opened when the program runs, without cgo. A program that imports
// this package is linked dynamically, also with CGO_ENABLED=0; one that imports only
// package worker stays static.
//
// The process uses one GPU: the one that gorun pinned to it, found by its UUID before the
// first call of NCCL. All ranks need the same release of NCCL; which library each of them
// has is compared before the communicator is made.
//
// Invariants: no wait outlives an abort, the failure of another rank or its context: it
// polls, and NCCL's communicator is aborted apart from it. What other ranks call is compared
// before a call goes into the stream, as far as they share a board, and after two seconds of
// waiting otherwise. Calls allocate nothing. At most 256 calls of a stream are under way.
// Memory stays valid until Free or Close, also after a failure, since the GPU may still use
// it.
package cuda
