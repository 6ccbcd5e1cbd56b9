package rails

import (
	"context"

	"github.com/gorun/gorun/worker/collective"
)

// summed returns how each level combines. The sum of an average is divided at the end.
func summed(op collective.Op) collective.Op {
	if op == collective.Avg {
		return collective.Sum
	}
	return op
}

// allReduce replaces every rank's buffer by the op over all. Where most ranks of a node have
// no rail, all of them reduce.
func (e *Engine) allReduce(ctx context.Context, w *collective.Work) error {
	b, op := w.Dst, summed(w.Call.Op)
	rails := e.rails(len(b.Data))
	mine := e.slice(b.Count, rails, 0)
	part := b.Slice(mine.from, mine.to)
	first := collective.AllReduce(b, op)
	if 2*rails > len(e.Here()) {
		first = collective.ReduceScatterV(part, e.slices(b.Count, rails), b, op)
	}
	if err := e.inNode(ctx, first); err != nil {
		return err
	}
	if part.Count > 0 {
		if err := e.onRail(ctx, collective.AllReduce(part, op)); err != nil {
			return err
		}
		e.finish(w.Call.Op, part)
	}
	return e.gatherSlices(ctx, b, rails, 0)
}

// reduceInNode sets dst to this rank's slice of the op over the src of this node's ranks.
// counts has the slices of all; lead has the first.
func (e *Engine) reduceInNode(ctx context.Context, dst, src collective.Buffer, op collective.Op, counts []int, rails, lead int) error {
	if rails == 1 {
		return e.inNode(ctx, collective.Reduce(dst, src, op, lead))
	}
	return e.inNode(ctx, collective.ReduceScatterV(dst, counts, src, op))
}

// reduce sets root's dst to the op over all ranks' src.
func (e *Engine) reduce(ctx context.Context, w *collective.Work) error {
	root, op, count := e.Spots[w.Call.Root], summed(w.Call.Op), w.Src.Count
	rails := e.rails(len(w.Src.Data))
	lead, direct := e.lead(rails, root)
	var part collective.Buffer
	if direct && e.Spot == root {
		part = w.Dst
	} else {
		part = e.tmp[0].Buffer(w.Src.Type, e.slice(count, rails, lead).count())
	}
	if err := e.reduceInNode(ctx, part, w.Src, op, e.slices(count, rails), rails, lead); err != nil {
		return err
	}
	if part.Count > 0 {
		if err := e.onRail(ctx, collective.Reduce(part, part, op, root.Node)); err != nil {
			return err
		}
	}
	if e.Node == root.Node && !direct {
		send, receive := e.here[0], e.here[1]
		copy(receive, e.slices(count, rails))
		clear(send)
		if e.Spot != root {
			clear(receive)
		}
		send[root.Local] = part.Count
		if err := e.inNode(ctx, collective.AllToAllV(w.Dst, receive, part, send)); err != nil {
			return err
		}
	}
	if e.Spot == root {
		e.finish(w.Call.Op, w.Dst)
	}
	return nil
}

// reduceScatter sets dst to this rank's part of the op over all ranks' src.
func (e *Engine) reduceScatter(ctx context.Context, w *collective.Work) error {
	op := summed(w.Call.Op)
	e.measure(w.Dst.Count, nil)
	rails, src := e.rails(len(w.Src.Data)), w.Src
	if rails > 1 || !e.ordered {
		src = e.arrange(src, rails)
	}
	counts := e.here[0]
	for i := range counts {
		counts[i] = 0
		for _, n := range e.blocks {
			counts[i] += slice(n, rails, i).count()
		}
	}
	all := e.tmp[1].Buffer(src.Type, counts[e.Local])
	if err := e.reduceInNode(ctx, all, src, op, counts, rails, 0); err != nil {
		return err
	}
	aligned := e.isEven() && rails == e.Rails // my slice of my node's part is my part
	mine := w.Dst
	if !aligned {
		mine = all.Slice(0, 0)
	}
	if e.Local < rails {
		e.slicesOfBlocks(rails)
		if !aligned {
			from := 0
			for _, n := range e.sliced[:e.Node] {
				from += n
			}
			mine = all.Slice(from, from+e.sliced[e.Node])
		}
		if err := e.onRail(ctx, collective.ReduceScatterV(mine, e.sliced, all, op)); err != nil {
			return err
		}
		e.finish(w.Call.Op, mine)
	}
	if aligned {
		return nil
	}
	return e.scatterSlices(ctx, w.Dst, mine, rails)
}

// arrange returns src, which has a part for each rank, ordered by rail: slice i of what each
// node's ranks get, node by node.
func (e *Engine) arrange(src collective.Buffer, rails int) collective.Buffer {
	arranged := e.tmp[0].Buffer(src.Type, src.Count)
	at := 0
	for i := range rails {
		for n, ranks := range e.Nodes {
			s := slice(e.blocks[n], rails, i)
			begin := 0
			for _, r := range ranks {
				p := e.parts[r]
				if c := s.overlap(span{begin, begin + p.count()}); c.count() > 0 {
					from := p.from + c.from - begin
					copy(arranged.Slice(at, at+c.count()).Data, src.Slice(from, from+c.count()).Data)
					at += c.count()
				}
				begin += p.count()
			}
		}
	}
	return arranged
}

// scatterSlices sets dst to this rank's part of what its node's ranks get, of which each has
// a slice: mine.
func (e *Engine) scatterSlices(ctx context.Context, dst, mine collective.Buffer, rails int) error {
	send, receive, n, all := e.here[0], e.here[1], dst.Count, e.blocks[e.Node]
	part := func(i int) span { return span{i * n, (i + 1) * n} }
	for i := range send {
		send[i] = slice(all, rails, e.Local).overlap(part(i)).count()
		receive[i] = slice(all, rails, i).overlap(part(e.Local)).count()
	}
	return e.inNode(ctx, collective.AllToAllV(dst, receive, mine, send))
}
