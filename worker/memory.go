package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/internal/route"
	"github.com/gorun/gorun/worker/internal/stall"
	"github.com/gorun/gorun/worker/rails"
	"github.com/gorun/gorun/worker/shm"
	"github.com/gorun/gorun/worker/tcp"
)

// memory is this rank's view of the memory that its node shares.
type memory struct {
	once sync.Once
	node *shm.Node // nil: there is none
	// messages has the messages between this rank and the others of its node; nil: they go
	// over TCP. Comm sets it.
	messages *shm.Messages
}

// shared returns this rank's view of the memory that its node shares, nil if there is
// none, or too little.
func (w *World) shared() *shm.Node {
	w.memory.once.Do(func() {
		if w.board() == nil || w.opts.separate {
			return
		}
		if node, err := shm.NewNode(w.board(), w.set.LocalRank); err == nil {
			w.memory.node = node
		}
	})
	return w.memory.node
}

// openMessages tells the ranks of this node that this rank takes messages in memory, if it
// shares some.
func (w *World) openMessages() {
	node := w.shared()
	if node == nil || w.memory.messages != nil {
		return
	}
	if m := node.NewMessages(); m != nil {
		m.Open()
		w.memory.messages = m
	}
}

// Alloc returns n zeros in memory that the ranks of this node share. An all-reduce of a
// buffer that comes from Alloc on every rank copies nothing: each rank reduces its part
// where the buffers are. Everything else about the slice is as usual, and it may be cut.
// Where ranks share no memory it is a slice like any other, and the error says that it has
// more bytes than the machine.
//
// It is memory of the host, on which CPUs compute, also in a program that uses GPUs. Memory
// of a device will not come from here, since it is no slice.
//
// The memory is not garbage collected: it stays until Free, or until the process ends. A
// rank has 256 MiB, less up to 1 MiB for each rank of its node. The error says that they do
// not suffice.
func Alloc[T Element](c *Comm, n int) ([]T, error) {
	if c == nil {
		return nil, errNoComm
	}
	if n < 0 {
		return nil, fmt.Errorf("gorun: cannot allocate %d elements", n)
	}
	node := c.w.shared()
	var zero T
	if uint64(n) > math.MaxInt/uint64(unsafe.Sizeof(zero)) {
		return nil, fmt.Errorf("gorun: cannot allocate %d elements", n)
	}
	if node == nil || n == 0 {
		size, most := uint64(n)*uint64(unsafe.Sizeof(zero)), board.MachineMemory()
		if size > most {
			return nil, fmt.Errorf("gorun: cannot allocate %d elements: they need %d bytes, and this machine has %d", n, size, most)
		}
		return make([]T, n), nil
	}
	b, err := node.Alloc(n * int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, voiced(err)
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
		return voiced(err)
	}
	return nil
}

// engine is the engine of the world's communicator. Until the first collective it sends
// messages only. Then the ranks tell each other which of them share a board, and all
// choose the same way for collectives.
type engine struct {
	collective.Below // collectives of messages, and the messages between two ranks
	w                *World
	mesh             *tcp.Mesh
	routes           *route.Routes // of messages between two ranks

	once   sync.Once
	shares atomic.Bool       // true: collectives go through memory, where the board shows them
	node   *shm.Node         // nil: this rank shares no memory
	chosen collective.Engine // by the first collective; afterwards it does not change
	err    error
}

// newEngine returns the engine of all ranks of the world.
func (w *World) newEngine(mesh *tcp.Mesh) collective.Engine {
	routes := route.New(route.Config{
		Mesh: mesh, Size: w.set.Size, Board: w.board(), Node: w.shared(), Messages: w.memory.messages,
		Await: func(ctx context.Context, rank int) error {
			_, err := w.directory().Lookup(ctx, rank)
			return err
		},
	})
	routes.Start()
	messages := collective.NewMessages(routes.World(), w.set.Rank, w.set.Size)
	e := &engine{Below: collective.Below{Engine: messages}, w: w, mesh: mesh, routes: routes, node: w.shared()}
	if e.node != nil {
		context.AfterFunc(mesh.Context(), func() { breakNode(e.node, mesh.Err()) })
	}
	return e
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

// Break is described at collective.Engine. It ends the calls in shared memory before it
// returns, so that a Close that follows is not taken for a rank that ended in order.
func (e *engine) Break(why error) {
	if e.node != nil {
		e.node.Break(why)
	}
	e.Below.Break(why)
}

// Close is described at collective.Engine.
func (e *engine) Close() error {
	e.once.Do(func() { e.err = tcp.ErrClosed })
	if e.chosen == nil {
		return e.Below.Close()
	}
	return e.chosen.Close()
}

// choose finds out which ranks share a board, and makes the engine for that.
func (e *engine) choose() {
	e.chosen, e.err = e.make()
	_, shares := e.chosen.(*shm.Engine)
	e.shares.Store(shares)
}

func (e *engine) make() (collective.Engine, error) {
	var mine place
	if e.node != nil {
		mine = place{hash(e.w.boardID()), uint64(e.w.set.LocalRank)}
	}
	all := make([]uint64, e.w.set.Size*len(mine))
	work := collective.AllGather(collective.Of(all), collective.Of(mine[:]))
	if err := e.Engine.Do(context.Background(), work); err != nil {
		return nil, err
	}
	s := &site{node: e.node, rank: e.w.set.Rank}
	var world []int
	for i := range e.w.set.Size {
		world = append(world, i)
		p := place{all[2*i], all[2*i+1]}
		if p[0] == 0 { // alone, like nobody else
			p[0] = ^uint64(i)
		}
		s.places = append(s.places, p)
	}
	return s.engine(context.Background(), 0, world, e.Engine)
}

// place is what a rank tells the others of itself: a hash of its board's ID, 0 if it
// cannot use one, and its local rank.
type place [2]uint64

// site knows the places of all ranks of the world.
type site struct {
	node   *shm.Node // nil: this rank shares no memory
	rank   int       // this rank in the world
	places []place   // by rank in the world
}

// engine returns the engine of communicator comm. members are its ranks in the world, and
// below joins them: in shared memory if they are all on one node, in two levels if there
// are several ranks on some nodes.
func (s *site) engine(ctx context.Context, comm uint64, members []int, below collective.Engine) (collective.Engine, error) {
	nodes, rank := make([]uint64, len(members)), 0
	for i, m := range members {
		nodes[i] = s.places[m][0]
		if m == s.rank {
			rank = i
		}
	}
	layout := rails.LayoutOf(nodes, rank)
	switch len(layout.Nodes) {
	case len(members):
		return stall.New(below, s.rank), nil
	case 1:
		return shm.New(ctx, s.node, comm, s.members(members, layout.Here()), below)
	}
	var local collective.Engine
	if len(layout.Here()) > 1 {
		messages, err := below.Split(ctx, comm, layout.Here())
		if err != nil {
			return nil, err
		}
		if local, err = shm.New(ctx, s.node, comm, s.members(members, layout.Here()), unowned{messages}); err != nil {
			return nil, err
		}
	}
	e, err := rails.New(ctx, comm, layout, local, below)
	if err != nil {
		return nil, err
	}
	return stall.New(&levels{e, s, members}, s.rank), nil
}

// members describes some ranks of a communicator of the given ranks of the world.
func (s *site) members(world, ranks []int) []shm.Member {
	var all []shm.Member
	for _, r := range ranks {
		all = append(all, shm.Member{Local: int(s.places[world[r]][1]), World: world[r]})
	}
	return all
}

// levels is rails.Engine that knows how to split.
type levels struct {
	*rails.Engine
	site    *site
	members []int
}

// Split is described at collective.Engine.
func (l *levels) Split(ctx context.Context, comm uint64, ranks []int) (collective.Engine, error) {
	below, err := l.Engine.Split(ctx, comm, ranks)
	if err != nil {
		return nil, err
	}
	world := make([]int, len(ranks))
	for i, r := range ranks {
		world[i] = l.members[r]
	}
	return l.site.engine(ctx, comm, world, below)
}

// unowned is an engine that another one closes.
type unowned struct{ collective.Engine }

// Close does nothing.
func (unowned) Close() error { return nil }

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
