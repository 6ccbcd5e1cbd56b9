package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/gorun/gorun/worker/collective"
)

// do carries out one collective.
func (e *Engine) do(w *collective.Work) error {
	e.calls++
	e.plan(w)
	switch {
	case e.now.flat || len(e.peers) == 1:
		return e.exchange(w)
	case w.Call.Kind == collective.KindAllReduce:
		return e.allReduce(w)
	case w.Call.Kind == collective.KindReduceScatterV:
		return e.reduceScatter(w)
	}
	return e.exchange(w)
}

// oneShot is the number of bytes up to which each of n ranks reduces everything itself.
// Above that the ranks share the work, which costs steps.
func oneShot(n int) int { return min(slotSize, max(8<<10, 512<<10/n)) }

// allReduce carries out an all-reduce of more than a line. An operand in shared memory is
// not put; if another rank's is not there, it is put after all.
func (e *Engine) allReduce(w *collective.Work) error {
	pipelined := len(w.Dst.Data) > oneShot(len(e.peers))
	direct, err := e.beginInPlace(w, w.Dst.Data, func() { e.putFirst(pipelined) })
	switch {
	case err != nil:
		return err
	case direct:
		return e.reduceInPlace(w)
	case pipelined:
		return e.pipeline(w)
	}
	e.take(0)
	return nil
}

// beginInPlace begins a call that is not flat and whose operands may lie in shared memory,
// and reports whether all do. Otherwise all have been put.
func (e *Engine) beginInPlace(w *collective.Work, operand []byte, put func()) (direct bool, err error) {
	place := uint64(0)
	if at, ok := e.node.offset(operand); ok && at%8 == 0 {
		place = uint64(at) + 1
	} else {
		put()
	}
	*e.line(e.rank).extra() = place
	if err := e.begin(w.Made()); err != nil {
		return false, err
	}
	direct, mixed := true, false
	for i := range e.peers {
		p := &e.peers[i]
		p.operand = atomic.LoadUint64(e.line(i).extra()) // once: what was checked is what is used
		if p.operand == 0 {
			direct = false
		} else {
			mixed = true
		}
	}
	if direct {
		return true, e.checkPlaces(len(operand))
	}
	if mixed {
		if place != 0 {
			put()
		}
		return false, e.step()
	}
	return false, nil
}

// checkPlaces returns an error if an operand of size bytes lies where there is no memory.
func (e *Engine) checkPlaces(size int) error {
	memory := e.node.board.Memory()
	for i := range e.peers {
		if at := e.peers[i].operand - 1; at > uint64(len(memory)) || uint64(size) > uint64(len(memory))-at || at%8 != 0 {
			return fmt.Errorf("rank %d says that its buffer is where there is no memory: its part of the board is damaged", e.members[i].World)
		}
	}
	return nil
}

// reduceScatter sets this rank's part to the reduction of all ranks' operands, which it reads
// where they are if all lie in shared memory.
func (e *Engine) reduceScatter(w *collective.Work) error {
	direct, err := e.beginInPlace(w, w.Src.Data, func() { e.put(0) })
	if err != nil {
		return err
	}
	if !direct {
		return e.run()
	}
	return e.scatterInPlace(w)
}

// scatterInPlace reduces this rank's part of the operands, which all lie in shared memory.
func (e *Engine) scatterInPlace(w *collective.Work) error {
	memory, at := e.node.board.Memory(), 0
	for _, n := range w.RecvCounts[:e.rank] {
		at += n * w.Src.Type.Size()
	}
	dst := w.Dst.Data
	for lo := 0; lo < len(dst); lo += reduceBlock {
		d := dst[lo:min(len(dst), lo+reduceBlock)]
		// The result may lie where an operand is that is not the first.
		result := e.peers[e.rank].results[e.calls%2][:len(d)]
		e.reduceBlocks(&w.Call, result, func(rank int) []byte {
			return memory[e.peers[rank].operand-1:][at+lo:][:len(d)]
		}, nil)
		copy(d, result)
	}
	return e.step()
}

func (e *Engine) putFirst(pipelined bool) {
	if pipelined {
		e.putSlices(e.now.work, 0)
	} else {
		e.put(0)
	}
}

// reduceInPlace reduces this rank's slice of the operands, which all lie in shared
// memory, and writes the result to all of them.
func (e *Engine) reduceInPlace(w *collective.Work) error {
	n, size := len(e.peers), len(w.Dst.Data)
	memory := e.node.board.Memory()
	slice := roundUp((size+n-1)/n, 64)
	lo, hi := min(size, e.rank*slice), min(size, (e.rank+1)*slice)
	operand := func(rank int) []byte { return memory[e.peers[rank].operand-1:][lo:hi] }
	result := operand(0)
	e.reduceBlocks(&w.Call, result, operand, func(lo, hi int) {
		for i := 1; i < n; i++ {
			copy(operand(i)[lo:hi], result[lo:hi])
		}
	})
	return e.step()
}

// pipeline carries out an all-reduce chunk by chunk. The first chunk has been put. A chunk
// has a slice for each rank.
func (e *Engine) pipeline(w *collective.Work) error {
	chunk := sliceSize(len(e.peers)) * len(e.peers)
	chunks := uint32((len(w.Dst.Data) + chunk - 1) / chunk)
	for s := uint32(1); s < chunks+2; s++ {
		if s < chunks {
			e.putSlices(w, s)
		}
		if s <= chunks {
			e.reduceSlice(w, s-1)
		}
		if s >= 2 {
			e.takeSlices(w, s-2)
		}
		if err := e.step(); err != nil {
			return err
		}
	}
	return nil
}

// sliceSize is the number of bytes of each of n slices of a whole chunk.
func sliceSize(n int) int { return min(resultSize, slotSize/n&^63) }

// slice returns the bytes of dst that a rank reduces in a chunk.
func (e *Engine) slice(dst []byte, chunk uint32, rank int) []byte {
	n := len(e.peers)
	whole := sliceSize(n)
	begin := int(chunk) * whole * n
	end := min(len(dst), begin+whole*n)
	part := roundUp((end-begin+n-1)/n, 64)
	return dst[min(end, begin+rank*part):min(end, begin+(rank+1)*part)]
}

// putSlices copies the slices of a chunk that other ranks reduce.
func (e *Engine) putSlices(w *collective.Work, chunk uint32) {
	area, whole := e.slot(e.rank, chunk), sliceSize(len(e.peers))
	for i := range e.peers {
		if i != e.rank {
			copy(area[i*whole:], e.slice(w.Dst.Data, chunk, i))
		}
	}
}

// reduceSlice reduces this rank's slice of a chunk, into its result and its buffer.
func (e *Engine) reduceSlice(w *collective.Work, chunk uint32) {
	mine := e.slice(w.Dst.Data, chunk, e.rank)
	result := e.peers[e.rank].results[chunk%2][:len(mine)]
	at := e.rank * sliceSize(len(e.peers))
	e.reduceBlocks(&w.Call, result, func(rank int) []byte {
		if rank == e.rank {
			return mine
		}
		return e.slot(rank, chunk)[at:][:len(mine)]
	}, func(lo, hi int) { copy(mine[lo:hi], result[lo:hi]) })
}

// takeSlices copies the others' results of a chunk.
func (e *Engine) takeSlices(w *collective.Work, chunk uint32) {
	for i := range e.peers {
		if i != e.rank {
			copy(e.slice(w.Dst.Data, chunk, i), e.peers[i].results[chunk%2][:])
		}
	}
}
