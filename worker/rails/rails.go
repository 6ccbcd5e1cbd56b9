// Package rails carries out collectives of ranks on several nodes in two levels, over the
// engines of the levels.
//
// In an all-reduce the ranks of each node reduce first. Then rank i of each node
// all-reduces slice i with rank i of the other nodes: their connections are rail i. At last
// each node gathers the slices. Where nodes have different numbers of ranks there are as
// many rails as the smallest has ranks. All other collectives go to the engine below, over
// all ranks.
//
// Invariants: all ranks get the same bits, since each element is reduced on one rail, by
// the same engine on all its ranks. The order in which floats are added depends on the
// numbers of ranks of the nodes.
package rails

import (
	"context"
	"slices"

	"github.com/gorun/gorun/worker/collective"
)

// Engine is the engine of ranks on several nodes.
type Engine struct {
	collective.Below
	size  int
	local collective.Engine // over the ranks of this node; nil: this rank is alone there
	rail  collective.Engine // over the ranks of other nodes with this one's number; nil: there is no such rail
	place Layout

	// What follows belongs to the running collective.
	steps  [3]collective.Work
	counts []int
}

// Layout says where a rank stands among nodes.
type Layout struct {
	Node  []int   // the ranks of this rank's node, in order
	Local int     // this rank's index there
	Rails int     // number of rails
	Rail  []int   // the ranks of this rank's rail; empty: it has none
	Nodes [][]int // the ranks of each node, in order
}

// LayoutOf returns where rank stands, of ranks on the given nodes, by rank.
func LayoutOf(nodes []uint64, rank int) Layout {
	var l Layout
	var order []uint64
	members := map[uint64][]int{}
	for r, n := range nodes {
		if members[n] == nil {
			order = append(order, n)
		}
		members[n] = append(members[n], r)
	}
	l.Rails = len(nodes)
	for _, n := range order {
		l.Nodes = append(l.Nodes, members[n])
		l.Rails = min(l.Rails, len(members[n]))
	}
	l.Node = members[nodes[rank]]
	l.Local = slices.Index(l.Node, rank)
	if l.Local < l.Rails {
		for _, node := range l.Nodes {
			l.Rail = append(l.Rail, node[l.Local])
		}
	}
	return l
}

// New returns the engine of size ranks, of which local joins those of this node and
// below joins all. comm is the number of the communicator: rails use it too, so that a
// rank sees also there whether others make another call.
func New(ctx context.Context, comm uint64, size int, l Layout, local, below collective.Engine) (*Engine, error) {
	e := &Engine{Below: collective.Below{Engine: below}, size: size, local: local, place: l, counts: make([]int, len(l.Node))}
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

// Do is described at collective.Engine.
func (e *Engine) Do(ctx context.Context, w *collective.Work) error {
	if w.Call.Kind != collective.KindAllReduce || w.Dst.Count == 0 {
		return e.Engine.Do(ctx, w)
	}
	rails := e.place.Rails
	if len(w.Dst.Data) <= oneRail {
		rails = 1
	}
	call := w.Call
	if call.Op == collective.Avg { // each level adds; Root keeps it apart from a sum in the signature
		call.Op, call.Root = collective.Sum, 1
	}
	if e.local != nil {
		e.steps[0] = collective.Work{Call: call, Dst: w.Dst}
		if err := e.local.Do(ctx, &e.steps[0]); err != nil {
			return err
		}
	}
	mine := collective.Buffer{Type: w.Dst.Type}
	for i := range e.counts {
		e.counts[i] = 0
		if i < rails {
			from, to := w.Dst.Count*i/rails, w.Dst.Count*(i+1)/rails
			e.counts[i] = to - from
			if i == e.place.Local {
				n := mine.Type.Size()
				mine.Count, mine.Data = to-from, w.Dst.Data[from*n:to*n]
			}
		}
	}
	if e.place.Local < rails {
		e.steps[1] = collective.Work{Call: call, Dst: mine}
		e.steps[1].Call.Count = uint64(mine.Count)
		if err := e.rail.Do(ctx, &e.steps[1]); err != nil {
			return err
		}
		collective.Finish(w.Call.Op, mine, e.size)
	}
	if e.local == nil {
		return nil
	}
	call.Kind, call.Op, call.Root = collective.KindAllGatherV, collective.NoOp, 0
	if rails == 1 {
		call.Kind = collective.KindBroadcast
	}
	e.steps[2] = collective.Work{Call: call, Dst: w.Dst, Src: mine, RecvCounts: e.counts}
	return e.local.Do(ctx, &e.steps[2])
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
