package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/shm"
	"github.com/gorun/gorun/worker/tcp"
)

// engine is the engine of the world's communicator. Until the first collective it sends
// messages only. Then the ranks tell each other which of them share a board, and all
// choose the same way for collectives.
type engine struct {
	collective.Below // messages over TCP
	w                *World
	mesh             *tcp.Mesh

	once   sync.Once
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
}

// shared returns the engine in shared memory, nil if not all ranks share a board.
func (e *engine) shared() (collective.Engine, error) {
	size := e.w.set.Size
	var mine place
	var node *shm.Node
	if e.w.board != nil {
		var err error
		if node, err = shm.NewNode(e.w.board, e.w.set.LocalRank); err == nil {
			mine = place{hash(e.w.boardID()), uint64(e.w.set.LocalRank)}
			context.AfterFunc(e.mesh.Context(), func() { breakNode(node, e.mesh.Err()) })
		}
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
