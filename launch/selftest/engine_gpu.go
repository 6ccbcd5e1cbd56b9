//go:build cgo

package selftest

import (
	"context"
	"errors"
	"os"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/contract"
	"github.com/gorun/gorun/worker/cuda"
)

// HasGPU reports whether this program can compute on GPUs.
const HasGPU = true

// startGPU begins to prepare the GPU of this process.
func startGPU() gpu { return cudaGPU{cuda.Start(cuda.FromEnv(os.LookupEnv))} }

type cudaGPU struct{ d *cuda.Device }

func (g cudaGPU) facts(ctx context.Context) (*GPU, error) {
	if err := g.d.Ready(ctx); err != nil {
		return nil, err
	}
	f := g.d.Facts()
	return &GPU{
		Model: f.Name, UUID: f.UUID, Host: os.Getenv("NCCL_HOSTID"), Visible: f.Visible,
		Driver: f.Driver, NCCL: f.NCCL, Library: f.NCCLPath,
		Port: fastestPort(ctx, "", os.LookupEnv),
	}, nil
}

func (g cudaGPU) lacksNCCL(ctx context.Context) bool {
	if ctx.Err() != nil || os.Getenv(contract.EnvNCCL) != "" {
		return false
	}
	f := g.d.Facts()
	return f.UUID != "" && f.NCCLPath == ""
}

func (g cudaGPU) open(ctx context.Context, c *worker.Comm) (engine, error) {
	comm, err := g.d.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return gpus{c, comm}, nil
}

func (cudaGPU) end(err error, rank, size int) End { return endOfGPU(err, rank, size) }

// gpus computes on GPUs through NCCL.
type gpus struct {
	host *worker.Comm
	c    *cuda.Comm
}

func (e gpus) end(err error) End { return endOfGPU(err, e.host.Rank(), e.host.Size()) }

// endOfGPU returns the End that an error of a rank means. What NCCL reports may be the
// fault of any rank of several, or of what is between them.
func endOfGPU(err error, rank, size int) End {
	end := endOf(err)
	if end != EndFailed || size == 1 {
		return end
	}
	if own, ok := errors.AsType[*cuda.Error](err); ok && (own.Rank < 0 || own.Rank == rank) {
		return EndFailed
	} else if ok {
		return EndLost
	}
	return EndBroken
}

func (e gpus) prepare(ctx context.Context, kind Kind, src, dst []float32) (calls, error) {
	t := &gpuCalls{kind: kind, gpus: e, hostSrc: src, hostDst: dst}
	var err error
	if t.src, err = cuda.Alloc[float32](ctx, e.c, len(src)); err == nil && kind != KindAllReduce {
		t.dst, err = cuda.Alloc[float32](ctx, e.c, len(dst))
	}
	if err == nil && kind == KindCopy {
		err = t.reduceAlone(ctx)
	}
	return t, err
}

type gpuCalls struct {
	kind Kind
	gpus
	hostSrc, hostDst []float32
	src, dst         *cuda.Buffer[float32] // an all-reduce has no dst
}

// reduceAlone makes an all-reduce of one rank, which loads NCCL's kernels: the values stay
// as they are.
func (t *gpuCalls) reduceAlone(ctx context.Context) error {
	for i := range t.hostSrc {
		t.hostSrc[i] = value(t.host.Rank(), i)
	}
	if err := t.src.CopyFrom(ctx, t.hostSrc); err != nil {
		return err
	}
	if err := cuda.AllReduce(ctx, t.c, t.src, worker.Sum); err != nil {
		return err
	}
	if err := t.src.CopyTo(ctx, t.hostDst); err != nil {
		return err
	}
	for i, v := range t.hostDst {
		if w := t.hostSrc[i]; v != w {
			return &WrongError{KindAllReduce, i, v, w}
		}
	}
	return nil
}

func (t *gpuCalls) load(ctx context.Context) error {
	err := t.src.CopyFrom(ctx, t.hostSrc)
	if err == nil && t.dst != nil {
		err = t.dst.CopyFrom(ctx, t.hostDst)
	}
	return err
}

func (t *gpuCalls) do(ctx context.Context) error {
	switch t.kind {
	case KindRing:
		next, before := neighbours(t.host)
		return cuda.SendRecv(ctx, t.c, t.src, next, t.dst, before)
	case KindAllToAll:
		return cuda.AllToAll(ctx, t.c, t.dst, t.src)
	case KindCopy:
		return cuda.Copy(ctx, t.c, t.dst, t.src)
	}
	return cuda.AllReduce(ctx, t.c, t.src, worker.Sum)
}

func (t *gpuCalls) wait(ctx context.Context) error { return t.c.Wait(ctx) }

func (t *gpuCalls) store(ctx context.Context) error {
	if t.dst == nil {
		return t.src.CopyTo(ctx, t.hostSrc)
	}
	return t.dst.CopyTo(ctx, t.hostDst)
}

func (t *gpuCalls) free(ctx context.Context) error {
	err := t.src.Free(ctx)
	if t.dst != nil {
		err = errors.Join(err, t.dst.Free(ctx))
	}
	return err
}
