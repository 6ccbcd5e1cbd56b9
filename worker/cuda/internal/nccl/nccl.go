// Package nccl calls NVIDIA's library of collectives, libnccl.so.2, as far as package cuda
// needs it.
//
// Invariants: communicators are blocking, because a communicator that is not starts a
// thread for every call. Everything needs a current context on the calling thread, and a
// group begins and ends on one thread.
package nccl

import (
	"fmt"
	"unsafe"

	"github.com/gorun/gorun/worker/cuda/internal/dl"
)

// Name is the library as the loader knows it.
const Name = "libnccl.so.2"

// Oldest is the oldest release that this package works with: it has the configuration of a
// communicator.
const Oldest = 21400

// Library is an open libnccl.
type Library struct {
	Path    string // of its file
	Version int    // 22809 for 2.28.9

	version, id, errorText, lastError dl.Func
	comms                             comms
	calls                             calls
	mem                               memory
}

// comms is the functions of communicators.
type comms struct {
	scalable, config, asyncError, abort, finalize, destroy dl.Func
}

// calls is the functions that go into a stream.
type calls struct {
	allReduce, reduce, broadcast, allGather, reduceScatter dl.Func
	send, recv, groupStart, groupEnd                       dl.Func
}

// memory is the functions of memory; a library may lack them.
type memory struct{ alloc, free, register, deregister dl.Func }

// Open opens a library by its path, or by a name that the loader finds.
func Open(path string) (*Library, error) {
	l, err := dl.Open(path)
	if err != nil {
		return nil, err
	}
	n := &Library{}
	err = l.FindAll(
		dl.Want{To: &n.version, Name: "ncclGetVersion"},
		dl.Want{To: &n.id, Name: "ncclGetUniqueId"},
		dl.Want{To: &n.errorText, Name: "ncclGetErrorString"},
		dl.Want{To: &n.comms.asyncError, Name: "ncclCommGetAsyncError"},
		dl.Want{To: &n.comms.abort, Name: "ncclCommAbort"},
		dl.Want{To: &n.comms.destroy, Name: "ncclCommDestroy"},
		dl.Want{To: &n.comms.finalize, Name: "ncclCommFinalize"},
		dl.Want{To: &n.comms.config, Name: "ncclCommInitRankConfig"},
		dl.Want{To: &n.calls.allReduce, Name: "ncclAllReduce"},
		dl.Want{To: &n.calls.reduce, Name: "ncclReduce"},
		dl.Want{To: &n.calls.broadcast, Name: "ncclBroadcast"},
		dl.Want{To: &n.calls.allGather, Name: "ncclAllGather"},
		dl.Want{To: &n.calls.reduceScatter, Name: "ncclReduceScatter"},
		dl.Want{To: &n.calls.send, Name: "ncclSend"},
		dl.Want{To: &n.calls.recv, Name: "ncclRecv"},
		dl.Want{To: &n.calls.groupStart, Name: "ncclGroupStart"},
		dl.Want{To: &n.calls.groupEnd, Name: "ncclGroupEnd"},
	)
	if err != nil {
		return nil, err
	}
	n.lastError = l.Find("ncclGetLastError")
	n.comms.scalable = l.Find("ncclCommInitRankScalable")
	n.mem = memory{l.Find("ncclMemAlloc"), l.Find("ncclMemFree"), l.Find("ncclCommWindowRegister"), l.Find("ncclCommWindowDeregister")}
	if n.Path = n.version.File(); n.Path == "" {
		n.Path = path
	}
	v := new(int32)
	if code := n.version.Call(uintptr(unsafe.Pointer(v))); code != 0 {
		return nil, fmt.Errorf("%s: ncclGetVersion returned %d", n.Path, code)
	}
	if n.Version = int(*v); n.Version < Oldest {
		return nil, fmt.Errorf("%s is NCCL %s: this program needs %s or later", n.Path, Text(n.Version), Text(Oldest))
	}
	return n, nil
}

// Text writes a version as people do: "2.28.9".
func Text(code int) string {
	if code < 10000 { // before 2.9
		return fmt.Sprintf("%d.%d.%d", code/1000, code/100%10, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code/100%100, code%100)
}

// Results.
const (
	success    = 0
	inProgress = 7
)

// Error is a result of NCCL other than success.
type Error struct {
	Doing string
	Code  int
	Text  string // of the result
	Last  string // what NCCL says about the last error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Doing, e.Text)
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s
}

// Failure returns the error of a result, nil if it is a success.
func (n *Library) Failure(doing string, code int32, c Comm) error {
	if code == success || code == inProgress {
		return nil
	}
	e := &Error{Doing: doing, Code: int(code), Text: n.errorText.Text(uintptr(uint32(code)))}
	if n.lastError.Exists() {
		e.Last = n.lastError.Text(uintptr(c))
	}
	return e
}

// ID is what the ranks of a communicator have in common.
type ID struct{ Bytes [128]byte }

// NewID makes the ID of a communicator. It needs no GPU. The process must live as long as
// ranks join, since it serves them.
func (n *Library) NewID() (ID, error) {
	id := new(ID)
	err := n.Failure("ncclGetUniqueId", n.id.Call(uintptr(unsafe.Pointer(id))), 0)
	return *id, err
}

// Comm is a rank of a communicator.
type Comm uintptr

// config is ncclConfig_t as of 2.14, which every later release takes. Fields that are not
// in it have their defaults.
type config struct {
	size     uint64
	magic    uint32
	version  uint32
	blocking int32
	_        int32
}

// Init makes a communicator, with all its ranks at once. It may take long, and cannot be
// stopped.
func (n *Library) Init(id ID, rank, size int) (Comm, error) {
	cfg := &config{magic: 0xcafebeef, version: Oldest, blocking: 1}
	cfg.size = uint64(unsafe.Sizeof(*cfg))
	own, out := &id, new(uintptr)
	if n.comms.scalable.Exists() {
		code := n.comms.scalable.Call(uintptr(unsafe.Pointer(out)), uintptr(size), uintptr(rank), 1, uintptr(unsafe.Pointer(own)), uintptr(unsafe.Pointer(cfg)))
		return n.made(Comm(*out), "ncclCommInitRankScalable", code)
	}
	var byValue func(out unsafe.Pointer, size int32, id ID, rank int32, cfg unsafe.Pointer) int32
	n.comms.config.Register(&byValue)
	code := byValue(unsafe.Pointer(out), int32(size), id, int32(rank), unsafe.Pointer(cfg))
	return n.made(Comm(*out), "ncclCommInitRankConfig", code)
}

// made returns what Init has made.
func (n *Library) made(c Comm, doing string, code int32) (Comm, error) {
	if code == inProgress {
		return 0, fmt.Errorf("%s made a communicator that does not block: unset NCCL_COMM_BLOCKING, in NCCL's configuration file too", doing)
	}
	return c, n.Failure(doing, code, 0)
}

// AsyncError returns the error that a communicator has met by itself. word is memory of the
// heap for the answer, which the caller keeps.
func (n *Library) AsyncError(c Comm, word *int32) error {
	code := n.comms.asyncError.Numbers(uintptr(c), uintptr(unsafe.Pointer(word)))
	if code == success {
		code = *word
	}
	if code == success || code == inProgress {
		return nil
	}
	return n.Failure("NCCL", code, c)
}

// Abort ends the calls of c and gives it back. It may take long.
func (n *Library) Abort(c Comm) error {
	return n.Failure("ncclCommAbort", n.comms.abort.Call(uintptr(c)), 0)
}

// Finalize ends c after the calls on it.
func (n *Library) Finalize(c Comm) error {
	return n.Failure("ncclCommFinalize", n.comms.finalize.Call(uintptr(c)), c)
}

// Destroy gives c back.
func (n *Library) Destroy(c Comm) error {
	return n.Failure("ncclCommDestroy", n.comms.destroy.Call(uintptr(c)), 0)
}
