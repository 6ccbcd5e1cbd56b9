package collective

import "math/bits"

// allReduce replaces b by the op over all ranks' b.
func (e *Messages) allReduce(b Buffer) error {
	if len(b.Data) > mediumMax {
		return e.ring(b)
	}
	run := e.doubling
	if len(b.Data) > smallSize && b.Count >= e.size {
		run = e.halving
	}
	// With core the largest power of two up to the size, a rank from core on sends its
	// buffer to a partner first and gets the result last.
	core := 1 << (bits.Len(uint(e.size)) - 1)
	const first, last = 0, 1 << 16
	if e.rank >= core {
		if err := e.put(e.rank-core, first, b); err != nil {
			return err
		}
		if err := e.t.Flush(); err != nil {
			return err
		}
		return e.get(e.rank-core, last, b)
	}
	extra := e.rank + core
	if extra < e.size {
		tmp := e.temp(0, b.Type, b.Count)
		if err := e.get(extra, first, tmp); err != nil {
			return err
		}
		e.combine(b, b, tmp)
	}
	if err := run(b, core); err != nil {
		return err
	}
	e.finish(b)
	if extra < e.size {
		return e.put(extra, last, b)
	}
	return nil
}

// doubling exchanges the whole buffer with ranks at distance 1, 2, 4 and so on. Both
// sides compute lower op higher, so both get the same bits.
func (e *Messages) doubling(b Buffer, core int) error {
	tmp := e.temp(0, b.Type, b.Count)
	for step, bit := 1, 1; bit < core; step, bit = step+1, bit<<1 {
		peer := e.rank ^ bit
		if err := e.exchange(step, peer, b, peer, tmp); err != nil {
			return err
		}
		e.combineWith(peer, b, tmp)
	}
	return nil
}

// combineWith adds peer's operand to b: lower op higher, as peer does.
func (e *Messages) combineWith(peer int, b, theirs Buffer) {
	if e.rank < peer {
		e.combine(b, b, theirs)
	} else {
		e.combine(b, theirs, b)
	}
}

func (e *Messages) combine(dst, a, b Buffer) {
	Combine(e.work.Call.Op, dst.Type, dst.Data, a.Data, b.Data)
}

func (e *Messages) finish(b Buffer) { Finish(e.work.Call.Op, b.Type, b.Data, e.size) }

// halving exchanges half of what is left with ranks at distance core/2, core/4 and so on,
// until each rank has the result of one part. The parts come back by the same exchanges
// in reverse.
func (e *Messages) halving(b Buffer, core int) error {
	var spans [64]span // what was left before each exchange
	left, step := span{0, b.Count}, 1
	tmp := e.temp(0, b.Type, b.Count/2+1)
	for bit := core >> 1; bit > 0; step, bit = step+1, bit>>1 {
		spans[step] = left
		mine, theirs := left.halves(e.rank&bit != 0)
		in := tmp.Slice(0, mine.to-mine.from)
		if err := e.exchange(step, e.rank^bit, b.Slice(theirs.from, theirs.to), e.rank^bit, in); err != nil {
			return err
		}
		e.combineWith(e.rank^bit, b.Slice(mine.from, mine.to), in)
		left = mine
	}
	for bit := 1; bit < core; bit <<= 1 {
		step--
		mine, theirs := spans[step].halves(e.rank&bit != 0)
		err := e.exchange(core+step, e.rank^bit, b.Slice(mine.from, mine.to), e.rank^bit, b.Slice(theirs.from, theirs.to))
		if err != nil {
			return err
		}
	}
	return nil
}

// span is the elements from index from up to, but without, index to.
type span struct{ from, to int }

// halves returns the lower and the upper half of s, or, swapped, the upper and the lower.
func (s span) halves(swapped bool) (mine, theirs span) {
	mid := (s.from + s.to) / 2
	if swapped {
		return span{mid, s.to}, span{s.from, mid}
	}
	return span{s.from, mid}, span{mid, s.to}
}

// ring is an all-reduce in which each rank sends to the next rank only: first the parts
// are reduced, then the results go round.
func (e *Messages) ring(b Buffer) error {
	if err := e.reduceRing(b, true); err != nil {
		return err
	}
	// What comes now replaces partial results that were sent before.
	if err := e.t.Flush(); err != nil {
		return err
	}
	for s := range e.size - 1 {
		in := e.part(b, e.rank-s)
		for i := range segments(in) {
			seg := segment(in, i)
			if err := e.take(seg); err != nil {
				return err
			}
			if s == e.size-2 {
				continue
			}
			if err := e.pass(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// reduceRing reduces the parts of b: rank r has the result of part r+1 afterwards, and
// passes it on if passOn is true. The parts go round the ring, and each rank adds its own
// operands. A rank passes on each segment as soon as it has it.
func (e *Messages) reduceRing(b Buffer, passOn bool) error {
	out := e.part(b, e.rank)
	for i := range segments(out) {
		if err := e.pass(segment(out, i)); err != nil {
			return err
		}
	}
	tmp := e.temp(0, b.Type, segmentSize/b.Type.Size())
	for s := range e.size - 1 {
		in := e.part(b, e.rank-s-1)
		for i := range segments(in) {
			seg := segment(in, i)
			theirs := tmp.Slice(0, seg.Count)
			if err := e.take(theirs); err != nil {
				return err
			}
			e.combine(seg, theirs, seg)
			if s == e.size-2 {
				e.finish(seg)
				if !passOn {
					continue
				}
			}
			if err := e.pass(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// reduce sets root's dst to the op over all ranks' src: small buffers go up a binomial
// tree, big ones round the ring and then to root.
func (e *Messages) reduce(dst, src Buffer, root int) error {
	acc := dst
	if e.rank != root {
		acc = e.temp(1, src.Type, src.Count)
	}
	copy(acc.Data, src.Data)
	if len(src.Data) > treeMax {
		if err := e.reduceRing(acc, false); err != nil {
			return err
		}
		if e.rank != root {
			return e.put(root, 0, e.part(acc, e.rank+1))
		}
		if err := e.t.Flush(); err != nil {
			return err
		}
		for i := range e.size - 1 {
			from := e.at(i + 1)
			if err := e.get(from, 0, e.part(acc, from+1)); err != nil {
				return err
			}
		}
		return nil
	}
	v := e.at(-root) // this rank, counted from the root
	tmp := e.temp(0, src.Type, src.Count)
	for bit := 1; bit < e.size; bit <<= 1 {
		if v&bit != 0 {
			return e.put((v-bit+root)%e.size, 0, acc)
		}
		if v+bit < e.size {
			if err := e.get((v+bit+root)%e.size, 0, tmp); err != nil {
				return err
			}
			e.combine(acc, acc, tmp)
		}
	}
	e.finish(acc)
	return nil
}

// reduceScatter sets dst to this rank's part of the op over all ranks' src. dst may be that
// part of src.
func (e *Messages) reduceScatter(dst, src Buffer) error {
	if len(src.Data) <= smallSize {
		return e.reduceParts(dst, src)
	}
	// Part r of the ring is part r-1 of src, so that this rank ends with its own part. The
	// partial results are in one of two buffers while the other is on its way.
	part := func(s int) Buffer { return e.received(src, e.at(-s-1)) }
	for i := range segments(part(0)) {
		if err := e.pass(segment(part(0), i)); err != nil {
			return err
		}
	}
	for s := 1; s < e.size; s++ {
		mine, last := part(s), s == e.size-1
		acc := dst
		if !last {
			acc = e.temp(s%2, dst.Type, mine.Count)
		}
		if err := e.t.Flush(); err != nil {
			return err
		}
		for i := range segments(acc) {
			seg := segment(acc, i)
			theirs := seg
			if last { // which may be mine as well
				theirs = e.temp(s%2, dst.Type, segmentSize/dst.Type.Size()).Slice(0, seg.Count)
			}
			if err := e.take(theirs); err != nil {
				return err
			}
			e.combine(seg, theirs, segment(mine, i))
			if last {
				e.finish(seg)
			} else if err := e.pass(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// reduceParts is reduceScatter in which each rank gets its part of all ranks.
func (e *Messages) reduceParts(dst, src Buffer) error {
	for i := range e.size - 1 {
		to := e.at(i + 1)
		if err := e.put(to, 0, e.received(src, to)); err != nil {
			return err
		}
	}
	tmp, own := e.temp(0, dst.Type, dst.Count), e.temp(1, dst.Type, dst.Count)
	copy(own.Data, e.received(src, e.rank).Data)
	for from := range e.size { // in rank order
		next := own
		if from != e.rank {
			next = tmp
			if err := e.get(from, 0, next); err != nil {
				return err
			}
		}
		if from == 0 {
			copy(dst.Data, next.Data)
		} else {
			e.combine(dst, dst, next)
		}
	}
	e.finish(dst)
	return nil
}

// barrier returns when every rank has called it. In step k a rank receives a message from
// the rank 2^k before it. After step k it knows that the 2^(k+1)-1 ranks before it have
// called.
func (e *Messages) barrier() error {
	for step, d := 0, 1; d < e.size; step, d = step+1, d<<1 {
		if err := e.exchange(step, e.at(d), Buffer{}, e.at(-d), Buffer{}); err != nil {
			return err
		}
	}
	return nil
}
