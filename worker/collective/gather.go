package collective

import "math/bits"

// broadcast replaces b by root's b: small buffers go down a binomial tree, big ones along
// a chain, segment by segment.
func (e *Messages) broadcast(b Buffer, root int) error {
	v := e.at(-root) // this rank, counted from the root
	if len(b.Data) > treeMax {
		for i := range segments(b) {
			seg := segment(b, i)
			if v != 0 {
				if err := e.take(seg); err != nil {
					return err
				}
			}
			if v == e.size-1 {
				continue
			}
			if err := e.pass(seg); err != nil {
				return err
			}
		}
		return nil
	}
	low := 1 << bits.Len(uint(e.size-1)) // lowest set bit of v: the parent is v without it
	if v != 0 {
		low = v & -v
		if err := e.get((v-low+root)%e.size, 0, b); err != nil {
			return err
		}
	}
	for bit := low >> 1; bit > 0; bit >>= 1 {
		if v+bit < e.size {
			if err := e.put((v+bit+root)%e.size, 0, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// allGather sets dst to all ranks' src: small buffers in log2 n steps, big ones round the
// ring.
func (e *Messages) allGather(dst, src Buffer) error {
	if len(dst.Data) > smallSize {
		return e.gatherRing(dst, src)
	}
	// all has the buffers from this rank's on: after step k those of 2^(k+1) ranks.
	n := src.Count
	all := e.temp(0, src.Type, dst.Count)
	copy(all.Data, src.Data)
	for step, have := 0, 1; have < e.size; step, have = step+1, have<<1 {
		more := min(have, e.size-have)
		if err := e.exchange(step, e.at(-have), all.Slice(0, more*n), e.at(have), all.Slice(have*n, (have+more)*n)); err != nil {
			return err
		}
	}
	for i := range e.size {
		r := (e.rank + i) % e.size
		copy(dst.Slice(r*n, (r+1)*n).Data, all.Slice(i*n, (i+1)*n).Data)
	}
	return nil
}

// gatherRing sets dst to all ranks' src, which may have different lengths. Each rank passes
// on what it receives, segment by segment.
func (e *Messages) gatherRing(dst, src Buffer) error {
	mine := e.received(dst, e.rank)
	copy(mine.Data, src.Data)
	for i := range segments(mine) {
		if err := e.pass(segment(mine, i)); err != nil {
			return err
		}
	}
	for s := 1; s < e.size; s++ {
		in := e.received(dst, e.at(-s))
		for i := range segments(in) {
			seg := segment(in, i)
			if err := e.take(seg); err != nil {
				return err
			}
			if s == e.size-1 {
				continue
			}
			if err := e.pass(seg); err != nil {
				return err
			}
		}
	}
	return nil
}

// received returns part r of b: of rank r, or for it, by the call's RecvCounts.
func (e *Messages) received(b Buffer, r int) Buffer {
	return divided(b, e.work.RecvCounts, int(e.work.Call.Count), r)
}

// divided returns part r of b: each has count elements, or those of counts if it is not nil.
func divided(b Buffer, counts []int, count, r int) Buffer {
	if counts == nil {
		return b.Slice(r*count, (r+1)*count)
	}
	from := 0
	for _, c := range counts[:r] {
		from += c
	}
	return b.Slice(from, from+counts[r])
}

// gather sets root's dst to all ranks' src.
func (e *Messages) gather(dst, src Buffer, root int) error {
	if e.rank != root {
		return e.put(root, 0, src)
	}
	n := src.Count
	copy(dst.Slice(root*n, (root+1)*n).Data, src.Data)
	for i := range e.size - 1 {
		from := e.at(i + 1)
		if err := e.get(from, 0, dst.Slice(from*n, (from+1)*n)); err != nil {
			return err
		}
	}
	return nil
}

// scatter sets dst to this rank's part of root's src.
func (e *Messages) scatter(dst, src Buffer, root int) error {
	if e.rank != root {
		return e.get(root, 0, dst)
	}
	n := dst.Count
	copy(dst.Data, src.Slice(root*n, (root+1)*n).Data)
	for i := range e.size - 1 {
		to := e.at(i + 1)
		if err := e.put(to, 0, src.Slice(to*n, (to+1)*n)); err != nil {
			return err
		}
	}
	return nil
}

// allToAll sends part i of src to rank i and receives part i of dst from it. In step s it
// sends to the rank s after this one.
func (e *Messages) allToAll(dst, src Buffer) error {
	count := int(e.work.Call.Count)
	part := func(r int) Buffer { return divided(src, e.work.SendCounts, count, r) }
	for s := 1; s < e.size; s++ {
		if err := e.put(e.at(s), 0, part(e.at(s))); err != nil {
			return err
		}
	}
	copy(e.received(dst, e.rank).Data, part(e.rank).Data)
	for s := 1; s < e.size; s++ {
		if err := e.get(e.at(-s), 0, e.received(dst, e.at(-s))); err != nil {
			return err
		}
	}
	return nil
}
