package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/shm"
	"github.com/gorun/gorun/worker/tcp"
)

// memory is this rank's view of the memory that its node shares.
type memory struct {
	once sync.Once
	node *shm.Node // nil: there is none
}

// shared returns this rank's view of the memory that its node shares, nil if there is
// none, or too little.
func (w *World) shared() *shm.Node {
	w.memory.once.Do(func() {
		if w.board == nil || w.opts.separate {
			return
		}
		if node, err := shm.NewNode(w.board, w.set.LocalRank); err == nil {
			w.memory.node = node
		}
	})
	return w.memory.node
}

// Alloc returns n zeros in memory that the ranks of this node share. An all-reduce of a
// buffer that comes from Alloc on every rank copies nothing: each rank reduces its part
// where the buffers are. Everything else about the slice is as usual, and it may be cut.
// Where ranks share no memory it is a slice like any other.
//
// The memory is not garbage collected: it stays until Free, or until the process ends. A
// rank has 256 MiB. The error says that they do not suffice.
func Alloc[T Element](c *Comm, n int) ([]T, error) {
	if c == nil {
		return nil, errNoComm
	}
	if n < 0 {
		return nil, fmt.Errorf("gorun: cannot allocate %d elements", n)
	}
	node := c.w.shared()
	var zero T
	if node == nil || n == 0 {
		return make([]T, n), nil
	}
	if uint64(n) > 1<<62/uint64(unsafe.Sizeof(zero)) {
		return nil, fmt.Errorf("gorun: cannot allocate %d elements", n)
	}
	b, err := node.Alloc(n * int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, fmt.Errorf("gorun: %w", err)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n), nil
}

// Free gives back memory that Alloc returned: the whole slice, or one that begins where it
// began. No rank may use it any more, nor be in a call that does.
func Free[T Element](c *Comm, buf []T) error {
	if c == nil {
		return errNoComm
	}
	node := c.w.shared()
	if node == nil || cap(buf) == 0 {
		return nil
	}
	if err := node.Free(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf))), 1)); err != nil {
		return fmt.Errorf("gorun: %w", err)
	}
	return nil
}

// engine is the engine of the world's communicator. Until the first collective it sends
// messages only. Then the ranks tell each other which of them share a board, and all
// choose the same way for collectives.
type engine struct {
	collective.Below // messages over TCP
	w                *World
	mesh             *tcp.Mesh

	once   sync.Once
	shares atomic.Bool       // true: collectives go through memory, where the board shows them
	chosen collective.Engine // by the first collective; afterwards it does not change
	err    error
}

// newEngine returns the engine of all ranks of the world.
func (w *World) newEngine(mesh *tcp.Mesh) collective.Engine {
	messages := collective.NewMessages(mesh.World(), w.set.Rank, w.set.Size)
	if w.set.LocalSize != w.set.Size { // ranks of several nodes
		return messages
	}
	return &engine{Below: collective.Below{Engine: messages}, w: w, mesh: mesh}
}

// Enter is described at collective.Positions.
func (e *engine) Enter(call *collective.Call, peer int, send bool) {
	if call.Kind == collective.KindSend || !e.shares.Load() {
		e.Below.Enter(call, peer, send)
	}
}

// Leave is described at collective.Positions.
func (e *engine) Leave(call *collective.Call, peer int) {
	if call.Kind == collective.KindSend || !e.shares.Load() {
		e.Below.Leave(call, peer)
	}
}

// Do is described at collective.Engine.
func (e *engine) Do(ctx context.Context, work *collective.Work) error {
	e.once.Do(e.choose)
	if e.err != nil {
		return e.err
	}
	return e.chosen.Do(ctx, work)
}

// Split is described at collective.Engine. A collective of the Group goes before it.
func (e *engine) Split(ctx context.Context, comm uint64, ranks []int) (collective.Engine, error) {
	e.once.Do(e.choose)
	if e.err != nil {
		return nil, e.err
	}
	return e.chosen.Split(ctx, comm, ranks)
}

// Close is described at collective.Engine.
func (e *engine) Close() error {
	e.once.Do(func() { e.err = tcp.ErrClosed })
	if e.chosen == nil {
		return e.Below.Close()
	}
	return e.chosen.Close()
}

// place is what a rank tells the others of itself: a hash of its board's ID, 0 if it
// cannot use one, and its local rank.
type place [2]uint64

// choose finds out which ranks share a board.
func (e *engine) choose() {
	e.chosen, e.err = e.shared()
	if e.err == nil && e.chosen == nil {
		e.chosen = e.Engine
	}
	_, shares := e.chosen.(*shm.Engine)
	e.shares.Store(shares)
}

// shared returns the engine in shared memory, nil if not all ranks share a board.
func (e *engine) shared() (collective.Engine, error) {
	size := e.w.set.Size
	var mine place
	node := e.w.shared()
	if node != nil {
		mine = place{hash(e.w.boardID()), uint64(e.w.set.LocalRank)}
		context.AfterFunc(e.mesh.Context(), func() { breakNode(node, e.mesh.Err()) })
	}
	all := make([]uint64, size*len(mine))
	work := collective.AllGather(collective.Of(all), collective.Of(mine[:]))
	if err := e.Engine.Do(context.Background(), &work); err != nil {
		return nil, fmt.Errorf("cannot learn which ranks share memory: %w", err)
	}
	locals := make([]int, size)
	for r := range size {
		if all[2*r] != all[0] || all[2*r] == 0 {
			return nil, nil
		}
		locals[r] = int(all[2*r+1])
	}
	return shm.New(context.Background(), node, 0, locals, e.Engine)
}

// breakNode ends the calls in shared memory when the connections between ranks break, but
// not when this rank closes them in order.
func breakNode(node *shm.Node, why error) {
	if !errors.Is(why, tcp.ErrClosed) {
		node.Break(why)
	}
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return max(h.Sum64(), 1)
}
