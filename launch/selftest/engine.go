package selftest

import (
	"context"

	"github.com/gorun/gorun/worker"
)

// Compute says what computes in a self-test.
type Compute string

// The ways to compute.
const (
	ComputeAuto Compute = "auto" // on GPUs if each rank has one
	ComputeCPU  Compute = "cpu"
	ComputeGPU  Compute = "gpu"
)

// engine computes with the ranks of a group.
type engine interface {
	// prepare returns the calls of a kind on copies of src and dst. All ranks call it.
	prepare(ctx context.Context, kind Kind, src, dst []float32) (calls, error)
	// end returns the End that an error of a call means.
	end(err error) End
}

// calls is one call that can be made again and again, with its memory.
type calls interface {
	// load copies the values of src and dst to the memory of the call.
	load(ctx context.Context) error
	// do makes the call once; it may return before the call is done.
	do(ctx context.Context) error
	// wait returns when the calls so far are done.
	wait(ctx context.Context) error
	// store copies the result back: of an all-reduce to src, else to dst.
	store(ctx context.Context) error
	// free gives the memory back. All ranks call it.
	free(ctx context.Context) error
}

// gpu is the GPU of this process, which is being prepared.
type gpu interface {
	// facts waits until the GPU can be used and says what it is.
	facts(ctx context.Context) (*GPU, error)
	// lacksNCCL reports whether the GPU can be used, but no NCCL was found.
	lacksNCCL(ctx context.Context) bool
	// open connects the GPUs of the ranks.
	open(ctx context.Context, c *worker.Comm) (engine, error)
	// end returns the End that an error of facts or open means for a rank of a group.
	end(err error, rank, size int) End
}

// cpus computes on CPUs: in the memory that the ranks of a node share, and over TCP.
type cpus struct{ c *worker.Comm }

func (e cpus) prepare(_ context.Context, kind Kind, src, dst []float32) (calls, error) {
	return &cpuCalls{kind, e.c, src, dst}, nil
}

func (cpus) end(err error) End { return endOf(err) }

type cpuCalls struct {
	kind     Kind
	c        *worker.Comm
	src, dst []float32
}

func (t *cpuCalls) do(ctx context.Context) error {
	switch t.kind {
	case KindRing:
		next, before := neighbours(t.c)
		return worker.SendRecv(ctx, t.c, t.src, next, t.dst, before)
	case KindAllToAll:
		return worker.AllToAll(ctx, t.c, t.dst, t.src)
	case KindCopy:
		copy(t.dst, t.src)
		return ctx.Err()
	}
	return worker.AllReduce(ctx, t.c, t.src, worker.Sum)
}

func (*cpuCalls) load(context.Context) error  { return nil }
func (*cpuCalls) wait(context.Context) error  { return nil }
func (*cpuCalls) store(context.Context) error { return nil }
func (*cpuCalls) free(context.Context) error  { return nil }

// neighbours returns the next rank and the one before.
func neighbours(c *worker.Comm) (next, before int) {
	return (c.Rank() + 1) % c.Size(), (c.Rank() + c.Size() - 1) % c.Size()
}
