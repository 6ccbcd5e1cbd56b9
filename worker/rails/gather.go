package rails

import (
	"context"

	"github.com/gorun/gorun/worker/collective"
)

func (e *Engine) barrier(ctx context.Context) error {
	barrier := collective.Barrier()
	if err := e.inNode(ctx, barrier); err != nil {
		return err
	}
	if e.Local == 0 {
		if err := e.onRail(ctx, barrier); err != nil {
			return err
		}
	}
	return e.inNode(ctx, barrier)
}

// broadcast replaces every rank's buffer by root's. A root with a rail sends a small buffer
// itself, before its node has it.
func (e *Engine) broadcast(ctx context.Context, w *collective.Work) error {
	b, root := w.Dst, e.Spots[w.Call.Root]
	rails := e.rails(len(b.Data))
	lead, direct := e.lead(rails, root)
	hasAll := e.Node == root.Node && !direct
	if hasAll {
		if err := e.inNode(ctx, collective.Broadcast(b, root.Local)); err != nil {
			return err
		}
	}
	if mine := e.slice(b.Count, rails, lead); mine.count() > 0 {
		if err := e.onRail(ctx, collective.Broadcast(b.Slice(mine.from, mine.to), root.Node)); err != nil {
			return err
		}
	}
	if hasAll {
		return nil
	}
	return e.gatherSlices(ctx, b, rails, lead)
}

// lead returns which rail is the first to carry a call with a root. If one rail suffices it
// is root's, if root has one; direct is true then.
func (e *Engine) lead(rails int, root Spot) (lead int, direct bool) {
	if rails == 1 && root.Local < e.Rails {
		return root.Local, true
	}
	return 0, false
}

// gatherSlices sets b on every rank of this node to the slices that its ranks have. lead
// has the first.
func (e *Engine) gatherSlices(ctx context.Context, b collective.Buffer, rails, lead int) error {
	if rails == 1 {
		return e.inNode(ctx, collective.Broadcast(b, lead))
	}
	mine := e.slice(b.Count, rails, lead)
	return e.inNode(ctx, collective.AllGatherV(b, e.slices(b.Count, rails), b.Slice(mine.from, mine.to)))
}

// allGather sets dst to all ranks' src. all has the parts ordered by node.
func (e *Engine) allGather(ctx context.Context, w *collective.Work) error {
	e.measure(w.Src.Count, w.RecvCounts)
	all := w.Dst
	if !e.ordered {
		all = e.tmp[0].Buffer(w.Dst.Type, w.Dst.Count)
	}
	block := e.block(e.Node)
	for i, r := range e.Here() {
		e.here[0][i] = e.parts[r].count()
	}
	if err := e.inNode(ctx, collective.AllGatherV(all.Slice(block.from, block.to), e.here[0], w.Src)); err != nil {
		return err
	}
	var err error
	if e.rails(len(all.Data)) == 1 {
		err = e.gatherBlocks(ctx, all, block)
	} else {
		err = e.gatherBlocksBySlices(ctx, all, block)
	}
	if err != nil || e.ordered {
		return err
	}
	at := 0
	for _, ranks := range e.Nodes {
		for _, r := range ranks {
			p := e.parts[r]
			copy(w.Dst.Slice(p.from, p.to).Data, all.Slice(at, at+p.count()).Data)
			at += p.count()
		}
	}
	return nil
}

// gatherBlocks completes all, of which this node has block, on one rail.
func (e *Engine) gatherBlocks(ctx context.Context, all collective.Buffer, block span) error {
	if e.Local == 0 {
		if err := e.onRail(ctx, collective.AllGatherV(all, e.blocks, all.Slice(block.from, block.to))); err != nil {
			return err
		}
	}
	for _, s := range [2]span{{0, block.from}, {block.to, all.Count}} {
		if s.count() > 0 {
			if err := e.inNode(ctx, collective.Broadcast(all.Slice(s.from, s.to), 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// gatherBlocksBySlices completes all, of which this node has block, on all rails.
func (e *Engine) gatherBlocksBySlices(ctx context.Context, all collective.Buffer, block span) error {
	slices := e.tmp[1].Buffer(all.Type, e.slicesOfBlocks(e.Rails))
	if e.rail != nil {
		mine := e.slice(block.count(), e.Rails, 0)
		if err := e.onRail(ctx, collective.AllGatherV(slices, e.sliced, all.Slice(block.from+mine.from, block.from+mine.to))); err != nil {
			return err
		}
	}
	at := 0
	for n := range e.Nodes {
		b, mine := e.block(n), slices.Slice(at, at+e.sliced[n])
		at += e.sliced[n]
		if n == e.Node || b.count() == 0 {
			continue
		}
		if err := e.inNode(ctx, collective.AllGatherV(all.Slice(b.from, b.to), e.slices(b.count(), e.Rails), mine)); err != nil {
			return err
		}
	}
	return nil
}
