package nccl

import "unsafe"

// Type is ncclDataType_t.
type Type int32

// Types of elements. NCCL has no integers of 16 bits.
const (
	Int8     Type = 0
	Uint8    Type = 1
	Int32    Type = 2
	Uint32   Type = 3
	Int64    Type = 4
	Uint64   Type = 5
	Float16  Type = 6
	Float32  Type = 7
	Float64  Type = 8
	BFloat16 Type = 9
)

// Op is ncclRedOp_t.
type Op int32

// Operations.
const (
	Sum  Op = 0
	Prod Op = 1
	Max  Op = 2
	Min  Op = 3
	Avg  Op = 4
)

// To says where a call goes.
type To struct {
	Comm   Comm
	Stream uintptr
}

// The calls below return the result as NCCL does: Failure makes the error. Counts are in
// elements.

// AllReduce is ncclAllReduce.
func (n *Library) AllReduce(src, dst uintptr, count int, t Type, op Op, to To) int32 {
	return n.calls.allReduce.Numbers(src, dst, uintptr(count), uintptr(t), uintptr(op), uintptr(to.Comm), to.Stream)
}

// Reduce is ncclReduce.
func (n *Library) Reduce(src, dst uintptr, count int, t Type, op Op, root int, to To) int32 {
	return n.calls.reduce.Numbers(src, dst, uintptr(count), uintptr(t), uintptr(op), uintptr(root), uintptr(to.Comm), to.Stream)
}

// Broadcast is ncclBroadcast.
func (n *Library) Broadcast(src, dst uintptr, count int, t Type, root int, to To) int32 {
	return n.calls.broadcast.Numbers(src, dst, uintptr(count), uintptr(t), uintptr(root), uintptr(to.Comm), to.Stream)
}

// AllGather is ncclAllGather; count is that of one rank.
func (n *Library) AllGather(src, dst uintptr, count int, t Type, to To) int32 {
	return n.calls.allGather.Numbers(src, dst, uintptr(count), uintptr(t), uintptr(to.Comm), to.Stream)
}

// ReduceScatter is ncclReduceScatter; count is that of one rank.
func (n *Library) ReduceScatter(src, dst uintptr, count int, t Type, op Op, to To) int32 {
	return n.calls.reduceScatter.Numbers(src, dst, uintptr(count), uintptr(t), uintptr(op), uintptr(to.Comm), to.Stream)
}

// Send is ncclSend.
func (n *Library) Send(src uintptr, count int, t Type, peer int, to To) int32 {
	return n.calls.send.Numbers(src, uintptr(count), uintptr(t), uintptr(peer), uintptr(to.Comm), to.Stream)
}

// Recv is ncclRecv.
func (n *Library) Recv(dst uintptr, count int, t Type, peer int, to To) int32 {
	return n.calls.recv.Numbers(dst, uintptr(count), uintptr(t), uintptr(peer), uintptr(to.Comm), to.Stream)
}

// GroupStart begins calls that go into the stream together, at GroupEnd.
func (n *Library) GroupStart() int32 { return n.calls.groupStart.Numbers() }

// GroupEnd ends what GroupStart began.
func (n *Library) GroupEnd() int32 { return n.calls.groupEnd.Numbers() }

// HasAlloc reports whether this release has Alloc.
func (n *Library) HasAlloc() bool { return n.mem.alloc.Exists() && n.mem.free.Exists() }

// Alloc returns device memory that NCCL moves without copies of its own.
func (n *Library) Alloc(size int) (uintptr, error) {
	p := new(uintptr)
	err := n.Failure("ncclMemAlloc", n.mem.alloc.Call(uintptr(unsafe.Pointer(p)), uintptr(size)), 0)
	return *p, err
}

// Free gives memory of Alloc back.
func (n *Library) Free(p uintptr) error { return n.Failure("ncclMemFree", n.mem.free.Call(p), 0) }

// HasWindows reports whether memory can be registered with a communicator.
func (n *Library) HasWindows() bool { return n.mem.register.Exists() && n.mem.deregister.Exists() }

// Register registers memory of Alloc with c, on all ranks at once. The window is 0 where
// that gains nothing.
func (n *Library) Register(c Comm, p uintptr, size int) (window uintptr, err error) {
	const symmetric = 1
	out := new(uintptr)
	err = n.Failure("ncclCommWindowRegister", n.mem.register.Call(uintptr(c), p, uintptr(size), uintptr(unsafe.Pointer(out)), symmetric), c)
	return *out, err
}

// Deregister ends what Register began.
func (n *Library) Deregister(c Comm, window uintptr) error {
	return n.Failure("ncclCommWindowDeregister", n.mem.deregister.Call(uintptr(c), window), c)
}
