package collective

import (
	"fmt"
	"math"
)

// The functions below describe collectives for Group.Do and Group.Start, which check
// their arguments. The buffers are those of the table at Work.

// AllReduce replaces b on every rank by the op over all ranks' b.
func AllReduce(b Buffer, op Op) *Work {
	return &Work{Call: Call{Kind: KindAllReduce, Type: b.Type, Op: op, Count: uint64(b.Count)}, Dst: b}
}

// Reduce sets root's dst to the op over all ranks' src.
func Reduce(dst, src Buffer, op Op, root int) *Work {
	return &Work{Call: Call{Kind: KindReduce, Type: src.Type, Op: op, Root: int32(root), Count: uint64(src.Count)}, Dst: dst, Src: src}
}

// Broadcast replaces b on every rank by root's b.
func Broadcast(b Buffer, root int) *Work {
	return &Work{Call: Call{Kind: KindBroadcast, Type: b.Type, Root: int32(root), Count: uint64(b.Count)}, Dst: b}
}

// Barrier waits for every rank.
func Barrier() *Work { return &Work{Call: Call{Kind: KindBarrier}} }

// AllGather sets dst to all ranks' src, in rank order.
func AllGather(dst, src Buffer) *Work {
	return &Work{Call: Call{Kind: KindAllGather, Type: src.Type, Count: uint64(src.Count)}, Dst: dst, Src: src}
}

// AllGatherV sets dst to all ranks' src, of which rank i's has counts[i] elements.
func AllGatherV(dst Buffer, counts []int, src Buffer) *Work {
	return &Work{Call: Call{Kind: KindAllGatherV, Type: src.Type, Count: uint64(dst.Count)}, Dst: dst, Src: src, RecvCounts: counts}
}

// ReduceScatter sets dst to this rank's part of the op over all ranks' src.
func ReduceScatter(dst, src Buffer, op Op) *Work {
	return &Work{Call: Call{Kind: KindReduceScatter, Type: dst.Type, Op: op, Count: uint64(dst.Count)}, Dst: dst, Src: src}
}

// ReduceScatterV is ReduceScatter of parts with different lengths: rank i's has counts[i]
// elements. All ranks give the same counts.
func ReduceScatterV(dst Buffer, counts []int, src Buffer, op Op) *Work {
	return &Work{Call: Call{Kind: KindReduceScatterV, Type: src.Type, Op: op, Count: uint64(src.Count)}, Dst: dst, Src: src, RecvCounts: counts}
}

// Gather sets root's dst to all ranks' src, in rank order.
func Gather(dst, src Buffer, root int) *Work {
	return &Work{Call: Call{Kind: KindGather, Type: src.Type, Root: int32(root), Count: uint64(src.Count)}, Dst: dst, Src: src}
}

// Scatter sets dst to this rank's part of root's src.
func Scatter(dst, src Buffer, root int) *Work {
	return &Work{Call: Call{Kind: KindScatter, Type: dst.Type, Root: int32(root), Count: uint64(dst.Count)}, Dst: dst, Src: src}
}

// AllToAll sends part i of src to rank i and sets part i of dst to what rank i sends.
func AllToAll(dst, src Buffer, ranks int) *Work {
	return &Work{Call: Call{Kind: KindAllToAll, Type: src.Type, Count: uint64(src.Count / max(ranks, 1))}, Dst: dst, Src: src}
}

// AllToAllV is AllToAll with parts of different lengths.
func AllToAllV(dst Buffer, recvCounts []int, src Buffer, sendCounts []int) *Work {
	return &Work{Call: Call{Kind: KindAllToAllV, Type: src.Type}, Dst: dst, Src: src, SendCounts: sendCounts, RecvCounts: recvCounts}
}

// maxCount bounds the elements of a buffer.
const maxCount = min(1<<56, math.MaxInt)

// Check says what is wrong with the arguments of w at a rank of n.
func (w *Work) Check(rank, n int) error {
	c := &w.Call
	count := int(min(c.Count, maxCount))
	if r := int(c.Root); r < 0 || r >= n {
		return fmt.Errorf("there is no rank %d: the communicator has ranks 0 to %d", r, n-1)
	}
	switch c.Kind {
	case KindAllReduce, KindReduce, KindReduceScatter, KindReduceScatterV:
		if err := c.Op.check(c.Type); err != nil {
			return err
		}
	}
	root := rank == int(c.Root)
	var err error
	switch c.Kind {
	case KindReduce:
		if root {
			err = wantLength("the result", &w.Dst, count)
		}
	case KindAllGather:
		err = wantLength("the result", &w.Dst, n*count)
	case KindReduceScatter:
		err = wantLength("the source", &w.Src, n*count)
	case KindReduceScatterV:
		if err = checkCounts("the source", &w.Src, w.RecvCounts, n); err == nil {
			err = wantLength("the result", &w.Dst, w.RecvCounts[rank])
		}
	case KindGather:
		if root {
			err = wantLength("the result", &w.Dst, n*count)
		}
	case KindScatter:
		if root {
			err = wantLength("the source", &w.Src, n*count)
		}
	case KindAllToAll:
		if err = wantLength("the source", &w.Src, n*count); err == nil {
			err = wantLength("the result", &w.Dst, n*count)
		}
	case KindAllGatherV:
		if err = checkCounts("the result", &w.Dst, w.RecvCounts, n); err == nil {
			err = wantLength("the source", &w.Src, w.RecvCounts[rank])
		}
	case KindAllToAllV:
		if err = checkCounts("the source", &w.Src, w.SendCounts, n); err == nil {
			err = checkCounts("the result", &w.Dst, w.RecvCounts, n)
		}
		if err == nil && w.SendCounts[rank] != w.RecvCounts[rank] {
			err = fmt.Errorf("this rank sends %d elements to itself and receives %d", w.SendCounts[rank], w.RecvCounts[rank])
		}
	}
	if err == nil && w.Dst.overlaps(&w.Src) {
		err = fmt.Errorf("the source and the result share memory")
	}
	return err
}

func wantLength(what string, b *Buffer, count int) error {
	if b.Count != count {
		return fmt.Errorf("%s has %d elements instead of %d", what, b.Count, count)
	}
	return nil
}

func checkCounts(what string, b *Buffer, counts []int, n int) error {
	if len(counts) != n {
		return fmt.Errorf("there are %d counts for %s instead of %d, one for each rank", len(counts), what, n)
	}
	sum := 0
	for rank, c := range counts {
		if c < 0 || c > maxCount {
			return fmt.Errorf("the count of %d for rank %d of %s is impossible", c, rank, what)
		}
		sum += c
	}
	return wantLength(what, b, sum)
}

// alone carries out w in a communicator of one rank.
func (w *Work) alone() { copy(w.Dst.Data, w.Src.Data) }
