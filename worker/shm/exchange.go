package shm

import (
	"math"
	"slices"
	"sync/atomic"
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

// plan finds out how to carry out w.
func (e *Engine) plan(w *collective.Work) {
	n, size := len(e.peers), w.Call.Type.Size()
	root := int(w.Call.Root)
	x := &e.now
	*x = exchange{work: w, giver: all, taker: all, parts: 1, part: int(w.Call.Count) * size}
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
		return
	}
	x.piece = slotSize / x.parts &^ 63
	x.stride = x.piece
	if !unequal {
		x.stride = min(x.piece, roundUp(x.part, 64))
	}
	x.steps = max(1, uint32((x.part+x.piece-1)/x.piece))
}

// exchange carries out w.
func (e *Engine) exchange(w *collective.Work) error {
	e.put(0)
	unequal := w.Call.Kind == collective.KindAllToAllV
	if unequal {
		for j, n := range w.SendCounts {
			*e.count(e.rank, j) = uint64(n)
		}
		*e.line(e.rank).extra() = uint64(e.now.steps)
	}
	if err := e.begin(w.Made()); err != nil {
		return err
	}
	if unequal {
		for i := range e.peers {
			if sent := atomic.LoadUint64(e.count(i, e.rank)); sent != uint64(w.RecvCounts[i]) {
				return &collective.MismatchError{
					Rank: e.members[e.rank].World, Mine: counted(w.Call, uint64(w.RecvCounts[i])),
					Peer: e.members[i].World, Theirs: counted(w.Call, sent),
				}
			}
		}
		for i := range e.peers {
			steps, err := e.stepsOf(i)
			if err != nil {
				return err
			}
			e.now.steps = max(e.now.steps, steps)
		}
	}
	return e.run()
}

// stepsOf returns how many steps a rank says that it needs in an all-to-all of unequal
// parts. A number that is above this rank's has to follow from what that rank gives, which
// each receiver compares with what it expects.
func (e *Engine) stepsOf(rank int) (uint32, error) {
	says := atomic.LoadUint64(e.line(rank).extra())
	if says <= uint64(e.now.steps) {
		return uint32(says), nil
	}
	size, piece := uint64(e.now.work.Call.Type.Size()), uint64(e.now.piece)
	longest := uint64(0)
	for to := range e.peers {
		longest = max(longest, atomic.LoadUint64(e.count(rank, to)))
	}
	if longest > maxPart/size || says != (longest*size+piece-1)/piece || says > math.MaxUint32 {
		return 0, &collective.PeerError{Rank: e.members[rank].World, Err: errDamaged}
	}
	return uint32(says), nil
}

// maxPart bounds the bytes that a rank can give another one: it has no more addresses.
const maxPart = 1 << 57

// run takes what was put, and puts and takes the rest of it.
func (e *Engine) run() error {
	steps := e.now.steps
	if steps == 1 {
		e.take(0)
		return nil
	}
	for s := range steps {
		if s+1 < steps {
			e.put(s + 1)
		}
		e.take(s)
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
func (e *Engine) area(rank int, step uint32) []byte {
	if e.now.flat {
		return e.line(rank).data[:]
	}
	return e.slot(rank, step)[:]
}

// put copies this rank's pieces of a step to where the others see them.
func (e *Engine) put(step uint32) {
	x := &e.now
	if x.giver != all && x.giver != e.rank {
		return
	}
	from := x.work.Src.Data
	if x.work.Call.Kind == collective.KindAllReduce || x.work.Call.Kind == collective.KindBroadcast {
		from = x.work.Dst.Data
	}
	area := e.area(e.rank, step)
	at := 0
	for j := range x.parts {
		part := x.part
		switch x.work.Call.Kind {
		case collective.KindAllGatherV:
			part = len(from)
		case collective.KindAllToAllV:
			part = x.work.SendCounts[j] * x.work.Call.Type.Size()
		case collective.KindReduceScatterV:
			part = x.work.RecvCounts[j] * x.work.Call.Type.Size()
		}
		if lo, hi := x.cut(part, step); lo < hi {
			copy(area[j*x.stride:], from[at+lo:at+hi])
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
func (e *Engine) take(step uint32) {
	x := &e.now
	if x.taker != all && x.taker != e.rank {
		return
	}
	w, dst := x.work, x.work.Dst.Data
	lo, hi := x.cut(x.part, step)
	mine := 0 // where this rank's part of what another gives lies
	if x.parts > 1 {
		mine = e.rank * x.stride
	}
	switch w.Call.Kind {
	case collective.KindAllReduce, collective.KindReduce, collective.KindReduceScatter, collective.KindReduceScatterV:
		lo, hi = x.cut(len(dst), step)
		e.reduce(dst[lo:hi], mine, step)
	case collective.KindBroadcast:
		if e.rank != x.giver {
			copy(dst[lo:hi], e.area(x.giver, step)[:hi-lo])
		}
	case collective.KindScatter:
		copy(dst[lo:hi], e.area(x.giver, step)[mine:][:hi-lo])
	case collective.KindAllGather, collective.KindGather, collective.KindAllToAll:
		for i := range e.peers {
			copy(dst[i*x.part+lo:i*x.part+hi], e.area(i, step)[mine:])
		}
	case collective.KindAllGatherV, collective.KindAllToAllV:
		at := 0
		for i := range e.peers {
			part := w.RecvCounts[i] * w.Call.Type.Size()
			lo, hi := x.cut(part, step)
			copy(dst[at+lo:at+hi], e.area(i, step)[mine:])
			at += part
		}
	}
}

// reduceBlock is how many bytes are reduced at a time, so that the result stays in the
// cache while the operands of further ranks are added.
const reduceBlock = 8 << 10

// reduce sets dst to the reduction of what all ranks have given, from the bytes at on. In
// an all-reduce a rank has its own operand in dst too, where it is nearer.
func (e *Engine) reduce(dst []byte, at int, step uint32) {
	c := &e.now.work.Call
	inPlace := c.Kind == collective.KindAllReduce && e.rank < 2
	e.reduceBlocks(c, dst, func(rank int) []byte {
		if inPlace && rank == e.rank {
			return dst
		}
		return e.area(rank, step)[at:][:len(dst)]
	}, nil)
}

// reduceBlocks sets dst to the reduction of the ranks' operands, in the order of ranks.
// dst may be the operand of rank 0 or 1. done, if not nil, is called after each block.
func (e *Engine) reduceBlocks(c *collective.Call, dst []byte, operand func(rank int) []byte, done func(lo, hi int)) {
	n := len(e.peers)
	if n == 1 {
		copy(dst, operand(0))
	}
	for lo := 0; lo < len(dst); lo += reduceBlock {
		hi := min(len(dst), lo+reduceBlock)
		acc := operand(0)[lo:hi]
		for i := 1; i < n; i++ {
			collective.Combine(c.Op, c.Type, dst[lo:hi], acc, operand(i)[lo:hi])
			acc = dst[lo:hi]
		}
		collective.Finish(c.Op, c.Type, dst[lo:hi], n)
		if done != nil {
			done(lo, hi)
		}
	}
}
