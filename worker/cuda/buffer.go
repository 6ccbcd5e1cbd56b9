package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/gorun/gorun/worker"
	"github.com/gorun/gorun/worker/collective"
)

// Buffer is elements in the memory of this rank's GPU, or a part of another Buffer.
type Buffer[T worker.Element] struct {
	c   *Comm
	m   *memory
	off int // in elements
	n   int
}

// memory is what a Buffer has of the GPU.
type memory struct {
	at     ptr
	size   int
	window uintptr // of NCCL; 0: none
	ours   bool    // NCCL allocated it
}

// Alloc returns n zeros in the memory of this rank's GPU. All ranks must call it, with the
// same n, because NCCL gets to know the memory of all of them: then it moves what is in it
// without copies of its own.
func Alloc[T worker.Element](ctx context.Context, c *Comm, n int) (*Buffer[T], error) {
	if c == nil {
		return nil, errNoComm
	}
	var zero T
	if n < 0 || uint64(n) > math.MaxInt/uint64(unsafe.Sizeof(zero)) {
		return nil, fmt.Errorf("gorun: cannot allocate %d elements", n)
	}
	m, err := c.alloc(ctx, n*int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, err
	}
	return &Buffer[T]{c: c, m: m, n: n}, nil
}

// alloc returns memory that all ranks allocate.
func (c *Comm) alloc(ctx context.Context, size int) (*memory, error) {
	ctx, cancel := c.at.Deadline(ctx)
	defer cancel()
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	m, failed := c.allocHere(ctx, size)
	// The ranks tell each other their sizes before they go into NCCL together, from where no
	// call would return if one did not come.
	mine := allocation{Size: size}
	if failed != nil {
		mine.Err = failed.Error()
	}
	all, err := exchange(ctx, c.at.Host, mine)
	if err != nil {
		return nil, c.fail(err)
	}
	for r, a := range all {
		switch {
		case a.Err != "":
			err = &Error{Rank: c.world[r], Err: fmt.Errorf("allocating %d bytes: %s", a.Size, a.Err)}
		case a.Size != all[0].Size:
			err = fmt.Errorf("gorun: the ranks allocate different sizes: rank %d %d bytes, rank %d %d", c.world[0], all[0].Size, c.world[r], a.Size)
		}
		if err != nil {
			if locked := c.lock(ctx); locked != nil {
				return nil, errors.Join(err, locked)
			}
			defer c.mu.leave()
			return nil, errors.Join(err, m.release(c.core))
		}
	}
	if err := c.adopt(ctx, m); err != nil {
		return nil, err
	}
	return m, nil
}

// allocation is what a rank tells the others of its memory.
type allocation struct {
	Size int    `json:"s"`
	Err  string `json:"e,omitempty"`
}

func (a allocation) cut(n int) allocation {
	a.Err = firstBytes(a.Err, n)
	return a
}

// allocHere takes memory of this GPU, and sets it to 0.
func (c *core) allocHere(ctx context.Context, size int) (*memory, error) {
	m := &memory{size: size}
	if size == 0 {
		return m, nil
	}
	if err := c.dev.enter(); err != nil {
		return m, err
	}
	defer c.dev.leave()
	if err := c.take(ctx, m); err != nil {
		return m, err
	}
	// All streams may use the memory, and it may be given back, so it must be 0 now.
	s := &Stream{c: c}
	var err error
	if s.handle, err = c.dev.driver.NewStream(); err != nil {
		return m, err
	}
	if err = c.dev.driver.Clear(m.at, size, s.handle); err == nil {
		err = c.await(ctx, s, 0)
	}
	return m, errors.Join(err, c.dev.driver.DestroyStream(s.handle))
}

// take takes the memory from NCCL, or from the driver where NCCL has none.
func (c *core) take(ctx context.Context, m *memory) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.mu.leave()
	c.held.enter(ctx)
	defer c.held.leave()
	var err error
	if m.ours = c.dev.nccl.HasAlloc(); m.ours {
		var p uintptr
		p, err = c.dev.nccl.Alloc(m.size)
		m.at = ptr(p)
	} else {
		m.at, err = c.dev.driver.Alloc(m.size)
	}
	return err
}

// adopt makes the memory known to NCCL, on all ranks at once, where that gains something.
func (c *core) adopt(ctx context.Context, m *memory) error {
	c.own.mu.Lock()
	c.own.memory = append(c.own.memory, m)
	c.own.mu.Unlock()
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.mu.leave()
	if f := c.failed.Load(); f != nil { // NCCL's communicator may be gone
		return f.err
	}
	if !m.ours || m.size == 0 || c.at.Size == 1 || !c.dev.nccl.HasWindows() {
		return nil
	}
	if err := c.dev.enter(); err != nil {
		return err
	}
	defer c.dev.leave()
	c.held.enter(ctx)
	defer c.held.leave()
	// Where memory cannot be registered it is used like any other.
	m.window, _ = c.dev.nccl.Register(c.comm, uintptr(m.at), m.size)
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// release gives the memory back. The caller has the communicator's mutex.
func (m *memory) release(c *core) error {
	if m.at == 0 {
		return nil
	}
	at := m.at
	m.at = 0
	if err := c.dev.enter(); err != nil {
		return err
	}
	defer c.dev.leave()
	var err error
	if m.window != 0 {
		err = c.dev.nccl.Deregister(c.comm, m.window)
	}
	if m.ours {
		return errors.Join(err, c.dev.nccl.Free(uintptr(at)))
	}
	return errors.Join(err, c.dev.driver.Free(at))
}

// Free gives the memory back, of the whole Buffer also if b is a part. All ranks must call
// it. It waits for the calls in all streams; the memory of a communicator that failed is not
// given back.
func (b *Buffer[T]) Free(ctx context.Context) error {
	if b == nil || b.m == nil || b.m.at == 0 {
		return nil
	}
	c := b.c
	ctx, cancel := c.at.Deadline(ctx)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.mu.leave()
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	c.held.enter(ctx)
	defer c.held.leave()
	c.own.mu.Lock()
	c.own.memory = slices.DeleteFunc(c.own.memory, func(m *memory) bool { return m == b.m })
	c.own.mu.Unlock()
	return voiced(b.m.release(c.core))
}

// Len is the number of elements, 0 of a nil Buffer.
func (b *Buffer[T]) Len() int {
	if b == nil {
		return 0
	}
	return b.n
}

// Slice returns the elements from index from up to, but without, index to. They are not
// copied. As with a slice of Go, it panics if b has no such elements, and a nil Buffer has
// none.
func (b *Buffer[T]) Slice(from, to int) *Buffer[T] {
	if from < 0 || from > to || to > b.Len() {
		panic(fmt.Sprintf("cuda: elements %d to %d of a buffer of %d", from, to, b.Len()))
	}
	if b == nil {
		return nil
	}
	return &Buffer[T]{c: b.c, m: b.m, off: b.off + from, n: to - from}
}

// Pointer is the device address (CUdeviceptr), for kernels of the program's own.
func (b *Buffer[T]) Pointer() uintptr { return uintptr(b.area().at) }

// Registered reports whether NCCL knows the memory and reaches that of the other ranks.
func (b *Buffer[T]) Registered() bool { return b != nil && b.m != nil && b.m.window != 0 }

// area describes b; it is empty for nil.
func (b *Buffer[T]) area() area {
	var none []T
	a := area{desc: collective.Of(none)}
	if b == nil || b.m == nil {
		return a
	}
	a.desc.Count = b.n
	if b.m.at != 0 {
		a.at = b.m.at + ptr(b.off*a.desc.Type.Size())
	}
	return a
}

// CopyFrom sets b to host, which has b's length, after the calls in the stream of the Comm
// that b was allocated with. host may be changed when it returns.
func (b *Buffer[T]) CopyFrom(ctx context.Context, host []T) error {
	err := b.transfer(ctx, host, true)
	runtime.KeepAlive(host)
	return err
}

// CopyTo waits for the calls in the stream of the Comm that b was allocated with, and sets
// host, which has b's length, to b.
func (b *Buffer[T]) CopyTo(ctx context.Context, host []T) error {
	err := b.transfer(ctx, host, false)
	runtime.KeepAlive(host)
	return err
}

// transfer copies between the host and the GPU.
func (b *Buffer[T]) transfer(ctx context.Context, host []T, toDevice bool) error {
	if b == nil || b.m == nil || b.m.at == 0 && b.n > 0 {
		return voiced(errFreed)
	}
	if len(host) != b.n {
		return fmt.Errorf("gorun: cannot copy between %d elements of the host and %d of the GPU", len(host), b.n)
	}
	if b.n == 0 {
		return nil
	}
	return b.c.transfer(ctx, b.area(), unsafe.Pointer(unsafe.SliceData(host)), toDevice)
}

func (c *Comm) transfer(ctx context.Context, a area, host unsafe.Pointer, toDevice bool) error {
	ctx, cancel := c.at.Deadline(ctx)
	defer cancel()
	// The driver may wait for the stream before it copies, so nothing must be in it that never
	// ends.
	if err := c.Wait(ctx); err != nil {
		return err
	}
	err := c.dev.enter()
	if err == nil {
		if toDevice {
			err = c.dev.driver.ToDevice(a.at, host, a.bytes(), c.stream.handle)
		} else {
			err = c.dev.driver.ToHost(host, a.at, a.bytes(), c.stream.handle)
		}
		c.dev.leave()
	}
	if err != nil {
		return c.fail(err)
	}
	// Also what goes to the GPU is awaited: the driver reads pinned memory when it likes.
	err = c.await(ctx, c.stream, 0)
	if err != nil { // and may still do
		c.own.mu.Lock()
		defer c.own.mu.Unlock()
		c.own.hosts = append(c.own.hosts, host)
	}
	return err
}
