package shm

import (
	"slices"
	"unsafe"

	"github.com/gorun/gorun/worker/collective"
)

// exchange is a call that goes through lines or slots: each rank gives some parts, and
// each rank takes some of what was given. Parts that are longer than a piece are given
// and taken in several steps.
type exchange struct {
	work   *collective.Work
	giver  int    // the rank that gives; all: each
	taker  int    // the rank that takes; all: each
	parts  int    // parts that a rank gives: one for all takers, or one for each rank
	part   int    // bytes of a part; of unequal parts, of the longest that this rank gives
	piece  int    // bytes of a part that one step moves
	stride int    // bytes from a part to the next, where they lie for the others
	steps  uint32 // that this rank needs, at least 1
	flat   bool   // the parts lie in the line
}

const all = -1

// plan returns how to carry out w.
func (e *Engine) plan(w *collective.Work) exchange {
	n, size := len(e.peers), w.Call.Type.Size()
	root := int(w.Call.Root)
	x := exchange{work: w, giver: all, taker: all, parts: 1, part: int(w.Call.Count) * size}
	unequal := false
	switch w.Call.Kind {
	case collective.KindBroadcast:
		x.giver = root
	case collective.KindReduce, collective.KindGather:
		x.taker = root
	case collective.KindReduceScatter, collective.KindAllToAll:
		x.parts = n
	case collective.KindScatter:
		x.giver, x.parts = root, n
	case collective.KindAllGatherV:
		x.part = slices.Max(w.RecvCounts) * size
	case collective.KindAllToAllV:
		x.parts, x.part, unequal = n, slices.Max(w.SendCounts)*size, true
	case collective.KindReduceScatterV:
		x.parts, x.part = n, slices.Max(w.RecvCounts)*size
	}
	if x.flat = !unequal && x.parts*x.part <= inLine; x.flat {
		x.piece, x.stride, x.steps = x.part, x.part, 1
		return x
	}
	x.piece = slotSize / x.parts &^ 63
	x.stride = x.piece
	if !unequal {
		x.stride = min(x.piece, roundUp(x.part, 64))
	}
	x.steps = max(1, uint32((x.part+x.piece-1)/x.piece))
	return x
}

// exchange carries out w.
func (e *Engine) exchange(w *collective.Work) error {
	x := e.plan(w)
	e.put(&x, 0)
	unequal := w.Call.Kind == collective.KindAllToAllV
	if unequal {
		for j, n := range w.SendCounts {
			*e.count(e.rank, j) = uint64(n)
		}
	}
	if err := e.begin(w.Made(), uint64(x.steps)); err != nil {
		return err
	}
	if unequal {
		for i := range e.peers {
			if sent := *e.count(i, e.rank); sent != uint64(w.RecvCounts[i]) {
				return &collective.MismatchError{
					Rank: e.members[e.rank].World, Mine: counted(w.Call, uint64(w.RecvCounts[i])),
					Peer: e.members[i].World, Theirs: counted(w.Call, sent),
				}
			}
			x.steps = max(x.steps, uint32(e.line(i).extra))
		}
	}
	return e.run(&x)
}

// run takes what was put, and puts and takes the rest of it.
func (e *Engine) run(x *exchange) error {
	if x.steps == 1 {
		e.take(x, 0)
		return nil
	}
	for s := range x.steps {
		if s+1 < x.steps {
			e.put(x, s+1)
		}
		e.take(x, s)
		if err := e.step(); err != nil {
			return err
		}
	}
	return nil
}

// count returns where a rank says how many elements it gives another one in an all-to-all
// of unequal parts. The place is that of the call's result, which only all-reduces use.
func (e *Engine) count(from, to int) *uint64 {
	table := e.peers[from].results[e.calls%2][:]
	return (*uint64)(unsafe.Pointer(&table[8*to]))
}

// counted is a call of unequal parts with the count of one part, for errors.
func counted(c collective.Call, n uint64) collective.Call {
	c.Kind, c.Count = collective.KindAllToAll, n
	return c
}

// area returns where a rank's parts of a step lie.
func (e *Engine) area(x *exchange, rank int, step uint32) []byte {
	if x.flat {
		return e.line(rank).data[:]
	}
	return e.slot(rank, step)[:]
}

// put copies this rank's pieces of a step to where the others see them.
func (e *Engine) put(x *exchange, step uint32) {
	if x.giver != all && x.giver != e.rank {
		return
	}
	from := x.work.Src
	if x.work.Call.Kind == collective.KindAllReduce || x.work.Call.Kind == collective.KindBroadcast {
		from = x.work.Dst
	}
	area := e.area(x, e.rank, step)
	at := 0
	for j := range x.parts {
		part := x.part
		switch x.work.Call.Kind {
		case collective.KindAllGatherV:
			part = len(from.Data)
		case collective.KindAllToAllV:
			part = x.work.SendCounts[j] * from.Type.Size()
		case collective.KindReduceScatterV:
			part = x.work.RecvCounts[j] * from.Type.Size()
		}
		if lo, hi := x.cut(part, step); lo < hi {
			copy(area[j*x.stride:], from.Data[at+lo:at+hi])
		}
		at += part
	}
}

// cut returns which bytes of a part a step moves.
func (x *exchange) cut(part int, step uint32) (lo, hi int) {
	lo = min(part, int(step)*x.piece)
	return lo, min(part, lo+x.piece)
}

// take computes this rank's results from the pieces of a step.
func (e *Engine) take(x *exchange, step uint32) {
	if x.taker != all && x.taker != e.rank {
		return
	}
	w, dst := x.work, x.work.Dst
	lo, hi := x.cut(x.part, step)
	mine := 0 // where this rank's part of what another gives lies
	if x.parts > 1 {
		mine = e.rank * x.stride
	}
	switch w.Call.Kind {
	case collective.KindAllReduce, collective.KindReduce, collective.KindReduceScatter, collective.KindReduceScatterV:
		lo, hi = x.cut(len(dst.Data), step)
		e.reduce(x, cutBuffer(dst, lo, hi), mine, step)
	case collective.KindBroadcast:
		if e.rank != x.giver {
			copy(dst.Data[lo:hi], e.area(x, x.giver, step)[:hi-lo])
		}
	case collective.KindScatter:
		copy(dst.Data[lo:hi], e.area(x, x.giver, step)[mine:][:hi-lo])
	case collective.KindAllGather, collective.KindGather, collective.KindAllToAll:
		for i := range e.peers {
			copy(dst.Data[i*x.part+lo:i*x.part+hi], e.area(x, i, step)[mine:])
		}
	case collective.KindAllGatherV, collective.KindAllToAllV:
		at := 0
		for i := range e.peers {
			part := w.RecvCounts[i] * dst.Type.Size()
			lo, hi := x.cut(part, step)
			copy(dst.Data[at+lo:at+hi], e.area(x, i, step)[mine:])
			at += part
		}
	}
}

// cutBuffer returns the elements of b in its bytes lo to hi.
func cutBuffer(b collective.Buffer, lo, hi int) collective.Buffer {
	return collective.Buffer{Type: b.Type, Count: (hi - lo) / max(1, b.Type.Size()), Data: b.Data[lo:hi]}
}

// reduceBlock is how many bytes are reduced at a time, so that the result stays in the
// cache while the operands of further ranks are added.
const reduceBlock = 8 << 10

// reduce sets dst to the reduction of what all ranks have given, from the bytes at on. In
// an all-reduce a rank has its own operand in dst too, where it is nearer.
func (e *Engine) reduce(x *exchange, dst collective.Buffer, at int, step uint32) {
	inPlace := x.work.Call.Kind == collective.KindAllReduce && e.rank < 2
	for lo := 0; lo < len(dst.Data); lo += reduceBlock {
		d := cutBuffer(dst, lo, min(len(dst.Data), lo+reduceBlock))
		e.reduceBlocks(x.work.Call.Op, d, func(rank int) []byte {
			if inPlace && rank == e.rank {
				return d.Data
			}
			return e.area(x, rank, step)[at+lo:][:len(d.Data)]
		})
	}
}

// reduceBlocks sets dst to the reduction of the ranks' operands, in the order of ranks.
// dst may be the operand of rank 0 or 1.
func (e *Engine) reduceBlocks(op collective.Op, dst collective.Buffer, of func(rank int) []byte) {
	operand := collective.Buffer{Type: dst.Type, Count: dst.Count, Data: of(0)}
	if len(e.peers) == 1 {
		copy(dst.Data, operand.Data)
	}
	acc := operand
	for i := 1; i < len(e.peers); i++ {
		operand.Data = of(i)
		collective.Combine(op, dst, acc, operand)
		acc = dst
	}
	collective.Finish(op, dst, len(e.peers))
}
