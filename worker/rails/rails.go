// Package rails carries out collectives of ranks on several nodes in two levels, over the
// engines of the levels.
//
// Rank i of each node and rank i of the other nodes make rail i, which has connections of
// its own. Where nodes have different numbers of ranks there are as many rails as the
// smallest node has ranks; the ranks beyond work in their node only. A small buffer takes
// one rail, a big one is divided among all:
//
//	all-reduce      each node reduces, rail i all-reduces slice i, each node gathers the slices
//	reduce          each node reduces, rail i reduces slice i to root's node, which gathers at root
//	reduce-scatter  each node reduces, rail i gives each node slice i of what its ranks get
//	broadcast       root's node has it, rail i carries slice i, the other nodes gather the slices
//	all-gather      each node gathers, rail i gathers slice i of each node's, each node gathers again
//	barrier         each node waits, rail 0 waits, each node waits
//
// So a byte that every node needs crosses to it once, and the ranks of a node move it in
// their memory. All other collectives go to the engine below, over all ranks: in a gather,
// a scatter and an all-to-all no byte is for two ranks of a node.
//
// Invariants: all ranks get the same bits, since each element is reduced on one rail, by
// the same engine on all its ranks. The order in which floats are added depends on the
// numbers of ranks of the nodes. Whatever a level does, the ranks compare the program's
// call, and errors name it.
package rails

import (
	"context"

	"github.com/gorun/gorun/worker/collective"
)

// Engine is the engine of ranks on several nodes.
type Engine struct {
	collective.Below
	Layout
	local   collective.Engine // over the ranks of this node; nil: this rank is alone there
	rail    collective.Engine // over the ranks of this rank's rail; nil: it has none
	ordered bool              // the ranks of each node follow each other

	running
}

// running belongs to the running collective.
type running struct {
	call   *collective.Call // that the program made
	step   collective.Work
	here   [2][]int // counts by rank of the node
	parts  []span   // by rank, in a buffer that has a part for each
	blocks []int    // elements of the parts of each node's ranks
	sliced []int    // elements of one slice of each block
	tmp    [2]collective.Scratch
}

// New returns the engine of the ranks of l, of which local joins those of this node and
// below joins all. comm is the number of the communicator: rails use it too, so that a
// rank sees also there whether others make another call.
func New(ctx context.Context, comm uint64, l Layout, local, below collective.Engine) (*Engine, error) {
	e := &Engine{Below: collective.Below{Engine: below}, Layout: l, local: local, ordered: l.inOrder()}
	e.here = [2][]int{make([]int, len(l.Here())), make([]int, len(l.Here()))}
	e.parts, e.blocks, e.sliced = make([]span, len(l.Spots)), make([]int, len(l.Nodes)), make([]int, len(l.Nodes))
	if len(l.Rail) > 0 {
		rail, err := below.Split(ctx, comm, l.Rail)
		if err != nil {
			return nil, err
		}
		e.rail = rail
	}
	return e, nil
}

// oneRail is the number of bytes up to which one rail is used, because more of them would
// only carry small messages.
const oneRail = 32 << 10

// rails returns how many rails carry a buffer of so many bytes.
func (e *Engine) rails(bytes int) int {
	if bytes <= oneRail {
		return 1
	}
	return e.Rails
}

// Do is described at collective.Engine.
func (e *Engine) Do(ctx context.Context, w *collective.Work) error {
	e.call = w.Made()
	if w.Dst.Count == 0 && w.Src.Count == 0 && w.Call.Kind != collective.KindBarrier {
		return e.Engine.Do(ctx, w) // only to see whether all make this call
	}
	switch w.Call.Kind {
	case collective.KindBarrier:
		return e.barrier(ctx)
	case collective.KindAllReduce:
		return e.allReduce(ctx, w)
	case collective.KindReduce:
		return e.reduce(ctx, w)
	case collective.KindReduceScatter:
		return e.reduceScatter(ctx, w)
	case collective.KindBroadcast:
		return e.broadcast(ctx, w)
	case collective.KindAllGather, collective.KindAllGatherV:
		return e.allGather(ctx, w)
	}
	return e.Engine.Do(ctx, w)
}

// inNode carries out a part of the call among the ranks of this node.
func (e *Engine) inNode(ctx context.Context, w *collective.Work) error {
	if e.local == nil {
		copy(w.Dst.Data, w.Src.Data)
		return nil
	}
	return e.do(ctx, e.local, w)
}

// onRail carries out a part of the call on this rank's rail.
func (e *Engine) onRail(ctx context.Context, w *collective.Work) error { return e.do(ctx, e.rail, w) }

func (e *Engine) do(ctx context.Context, level collective.Engine, w *collective.Work) error {
	e.step = *w
	e.step.Of = e.call
	err := level.Do(ctx, &e.step)
	e.step = collective.Work{} // the buffers are the program's
	return err
}

// finish turns b, reduced over all ranks, into the result.
func (e *Engine) finish(op collective.Op, b collective.Buffer) {
	collective.Finish(op, b.Type, b.Data, len(e.Spots))
}

// slice returns the slice of count elements that this rank's rail carries, if lead is the
// first of so many rails.
func (e *Engine) slice(count, rails, lead int) span {
	if e.Local < lead {
		return span{}
	}
	return slice(count, rails, e.Local-lead)
}

// measure finds out the parts and blocks of a buffer that has a part for each rank, of count
// elements, or of counts if it is not nil.
func (e *Engine) measure(count int, counts []int) {
	at := 0
	for r := range e.parts {
		if counts != nil {
			count = counts[r]
		}
		e.parts[r] = span{at, at + count}
		at += count
	}
	for n, ranks := range e.Nodes {
		e.blocks[n] = 0
		for _, r := range ranks {
			e.blocks[n] += e.parts[r].count()
		}
	}
}

// block returns where the block of a node is in a buffer that is ordered by node.
func (e *Engine) block(node int) span {
	from := 0
	for _, n := range e.blocks[:node] {
		from += n
	}
	return span{from, from + e.blocks[node]}
}

// slicesOfBlocks finds out the slice of each block that this rank's rail carries, and
// returns the sum.
func (e *Engine) slicesOfBlocks(rails int) (sum int) {
	for n, count := range e.blocks {
		e.sliced[n] = slice(count, rails, e.Local).count()
		sum += e.sliced[n]
	}
	return sum
}

// slices returns the slice of each rank of this node, of count elements that so many rails
// carry.
func (e *Engine) slices(count, rails int) []int {
	for i := range e.here[0] {
		e.here[0][i] = slice(count, rails, i).count()
	}
	return e.here[0]
}

// Break is described at collective.Engine.
func (e *Engine) Break(why error) {
	if e.local != nil {
		e.local.Break(why)
	}
	e.Engine.Break(why)
}

// Close is described at collective.Engine.
func (e *Engine) Close() error {
	if e.local != nil {
		_ = e.local.Close() // its messages are those of the engine below
	}
	return e.Engine.Close()
}
