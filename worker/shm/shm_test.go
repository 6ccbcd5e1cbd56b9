package shm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/contract"
)

// nothing is the engine below: these tests send no messages.
type nothing struct{ collective.Engine }

func (nothing) Split(context.Context, uint64, []int) (collective.Engine, error) {
	return nothing{}, nil
}
func (nothing) Break(error)  {}
func (nothing) Close() error { return nil }

// perRank is the memory of a rank in a test: its blocks and a few megabytes for Alloc.
const perRank = directorySize + 4*blockSize + 8<<20

// newBoard returns the board of a node.
func newBoard(t testing.TB, ranks, memory int) *board.Board {
	t.Helper()
	b, err := board.Create(board.Options{Ranks: ranks, Memory: ranks * memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// world runs body as each of n ranks of a node, which are goroutines here, and returns
// their errors.
func world(t testing.TB, b *board.Board, body func(ctx context.Context, n *Node, e *Engine) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	ranks := make([]Member, b.Ranks())
	for i := range ranks {
		ranks[i] = Member{i, i}
	}
	errs := make([]error, b.Ranks())
	var wg sync.WaitGroup
	for i := range ranks {
		wg.Go(func() {
			errs[i] = func() error {
				n, err := NewNode(b, i)
				if err != nil {
					return err
				}
				e, err := New(ctx, n, 0, ranks, nothing{})
				if err != nil {
					return err
				}
				return body(ctx, n, e.(*Engine))
			}()
		})
	}
	wg.Wait()
	return errs
}

func mustWorld(t testing.TB, b *board.Board, body func(ctx context.Context, n *Node, e *Engine) error) {
	t.Helper()
	for i, err := range world(t, b, body) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
}

// number is what the elements in these tests are. Their sums and products are the same in
// every order only for integers, so that floats show the order.
type number interface {
	float32 | int8 | int64 | uint16
}

// fill sets buf to what rank holds in a call: the same each time.
func fill[T number](buf []T, call, rank int) {
	x := uint64(call)<<32 + uint64(rank) + 1
	for i := range buf {
		x = x*6364136223846793005 + 1442695040888963407
		buf[i] = T(int8(x>>56)) / 3
	}
}

func operand[T number](n, call, rank int) []T {
	buf := make([]T, n)
	fill(buf, call, rank)
	return buf
}

// reduced returns the reduction of what the ranks hold, in their order.
func reduced[T number](op collective.Op, n, call, ranks int) []T {
	sum := operand[T](n, call, 0)
	for r := 1; r < ranks; r++ {
		for i, v := range operand[T](n, call, r) {
			switch op {
			case collective.Sum, collective.Avg:
				sum[i] += v
			case collective.Prod:
				sum[i] *= v
			case collective.Max:
				sum[i] = max(sum[i], v)
			case collective.Min:
				sum[i] = min(sum[i], v)
			}
		}
	}
	if op == collective.Avg {
		for i := range sum {
			sum[i] /= T(ranks)
		}
	}
	return sum
}

// trial is one call of a random program.
type trial struct {
	number int
	kind   collective.Kind
	op     collective.Op
	root   int
	count  int
	shared uint64  // ranks whose buffer comes from Alloc, as bits
	counts [][]int // all-to-all of unequal parts: from, to
}

// play makes the call of trial x as one rank, and checks the result.
func play[T number](ctx context.Context, n *Node, e *Engine, x trial) error {
	size, rank := len(e.peers), e.rank
	buffer := func(n int) []T { return make([]T, n) }
	if x.shared>>rank&1 == 1 {
		var zero T
		buffer = func(elements int) []T {
			b, err := n.Alloc(elements * int(unsafe.Sizeof(zero)))
			if err != nil || elements == 0 {
				return make([]T, elements)
			}
			return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), elements)
		}
	}
	var src, dst, want []T
	w := collective.Work{Call: collective.Call{Kind: x.kind, Op: x.op, Root: int32(x.root), Count: uint64(x.count), Seq: uint64(x.number)}}
	switch x.kind {
	case collective.KindAllReduce:
		dst = buffer(x.count)
		fill(dst, x.number, rank)
		want = reduced[T](x.op, x.count, x.number, size)
	case collective.KindBroadcast:
		dst = buffer(x.count)
		fill(dst, x.number, rank)
		want = operand[T](x.count, x.number, x.root)
	case collective.KindReduce:
		src = operand[T](x.count, x.number, rank)
		if rank == x.root {
			dst, want = buffer(x.count), reduced[T](x.op, x.count, x.number, size)
		}
	case collective.KindReduceScatter:
		src, dst = operand[T](size*x.count, x.number, rank), buffer(x.count)
		want = reduced[T](x.op, size*x.count, x.number, size)[rank*x.count:][:x.count]
	case collective.KindReduceScatterV:
		w.RecvCounts = x.counts[0]
		total, begin := sum(w.RecvCounts), sum(w.RecvCounts[:rank])
		src = buffer(total)
		fill(src, x.number, rank)
		dst = src[begin:][:w.RecvCounts[rank]]
		if x.number%2 == 0 {
			dst = make([]T, len(dst))
		}
		want = reduced[T](x.op, total, x.number, size)[begin:][:len(dst)]
		w.Call.Count = uint64(total)
	case collective.KindAllGather, collective.KindGather:
		src = operand[T](x.count, x.number, rank)
		if x.kind == collective.KindAllGather || rank == x.root {
			dst = buffer(size * x.count)
			for r := range size {
				want = append(want, operand[T](x.count, x.number, r)...)
			}
		}
	case collective.KindScatter:
		dst = buffer(x.count)
		if rank == x.root {
			src = operand[T](size*x.count, x.number, rank)
		}
		want = operand[T](size*x.count, x.number, x.root)[rank*x.count:][:x.count]
	case collective.KindAllToAll:
		src, dst = operand[T](size*x.count, x.number, rank), buffer(size*x.count)
		for r := range size {
			want = append(want, operand[T](size*x.count, x.number, r)[rank*x.count:][:x.count]...)
		}
	case collective.KindAllGatherV:
		w.RecvCounts = x.counts[0]
		src = operand[T](x.counts[0][rank], x.number, rank)
		for r := range size {
			want = append(want, operand[T](x.counts[0][r], x.number, r)...)
		}
		dst = buffer(len(want))
		w.Call.Count = uint64(len(want))
	case collective.KindAllToAllV:
		w.Call.Count = 0
		w.SendCounts = x.counts[rank]
		src = operand[T](sum(w.SendCounts), x.number, rank)
		for r := range size {
			w.RecvCounts = append(w.RecvCounts, x.counts[r][rank])
			from := operand[T](sum(x.counts[r]), x.number, r)
			want = append(want, from[sum(x.counts[r][:rank]):][:x.counts[r][rank]]...)
		}
		dst = buffer(len(want))
	}
	w.Src, w.Dst = collective.Of(src), collective.Of(dst)
	w.Call.Type = w.Dst.Type
	err := e.Do(ctx, &w)
	if err == nil && !slices.Equal(dst, want) {
		i := 0
		for dst[i] == want[i] {
			i++
		}
		err = fmt.Errorf("%v: element %d of %d is %v, want %v", w.Call, i, len(dst), dst[i], want[i])
	}
	for _, b := range [][]T{dst, src} {
		if x.shared>>rank&1 == 1 && len(b) > 0 {
			_ = n.Free(unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), 1)) // a buffer of the heap, if there was no memory
		}
	}
	return err
}

func sum(n []int) (s int) {
	for _, v := range n {
		s += v
	}
	return s
}

// sizes returns lengths in bytes at which an operation of n ranks changes its way, and
// one less and more.
func sizes(n int) []int {
	var all []int
	for _, s := range []int{0, inLine, inLine / n, 4096, oneShot(n), slotSize / n &^ 63, slotSize, 3 * sliceSize(n) * n, 2*slotSize + 100} {
		all = append(all, max(0, s-8), s, s+8)
	}
	return append(all, 1, 3, 999)
}

// randomTrial returns call number i of a program.
func randomTrial(r *rand.Rand, i, n int) trial {
	kinds := []collective.Kind{
		collective.KindAllReduce, collective.KindAllReduce, collective.KindAllReduce, collective.KindBroadcast, collective.KindBarrier,
		collective.KindReduce, collective.KindAllGather, collective.KindAllGatherV, collective.KindReduceScatter, collective.KindReduceScatterV,
		collective.KindGather, collective.KindScatter, collective.KindAllToAll, collective.KindAllToAllV,
	}
	x := trial{number: i + 1, kind: kinds[r.IntN(len(kinds))], root: r.IntN(n)}
	x.op = []collective.Op{collective.Sum, collective.Prod, collective.Max, collective.Min, collective.Avg}[r.IntN(5)]
	s := sizes(n)
	x.count = s[r.IntN(len(s))]
	switch r.IntN(3) {
	case 0:
		x.shared = 1<<n - 1
	case 1:
		x.shared = r.Uint64()
	}
	for range n {
		row := make([]int, n)
		for j := range row {
			if r.IntN(3) > 0 {
				row[j] = s[r.IntN(len(s))] / n
			}
		}
		x.counts = append(x.counts, row)
	}
	return x
}

// TestRandomPrograms plays the same seeded sequence of calls as each rank of worlds of one
// to nine, and checks each result against the operands of all.
func TestRandomPrograms(t *testing.T) {
	for n := 1; n <= 9; n++ {
		t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) {
			calls := 300 / n
			if raceEnabled { // which slows the check of the results most
				calls /= 5
			}
			mustWorld(t, newBoard(t, n, perRank), func(ctx context.Context, node *Node, e *Engine) error {
				r := rand.New(rand.NewPCG(uint64(n), 1))
				for i := range calls {
					x := randomTrial(r, i, n)
					if x.kind == collective.KindBarrier {
						if err := e.Do(ctx, &collective.Work{Call: collective.Call{Kind: x.kind}}); err != nil {
							return err
						}
						continue
					}
					var err error
					switch r.IntN(4) { // 8-byte elements only where that is little
					case 0:
						x.count /= 4
						err = play[float32](ctx, node, e, x)
					case 1:
						err = play[int8](ctx, node, e, x)
					case 2:
						x.count /= 8
						err = play[int64](ctx, node, e, x)
					case 3:
						x.count /= 2
						err = play[uint16](ctx, node, e, x)
					}
					if err != nil {
						err = fmt.Errorf("call %d (%+v): %w", i, x, err)
						e.Break(err) // the others must not wait for this rank
						return err
					}
				}
				return nil
			})
		})
	}
}

// TestSplit makes communicators of the odd and the even ranks again and again, so that
// their blocks are used again.
func TestSplit(t *testing.T) {
	const ranks = 5
	mustWorld(t, newBoard(t, ranks, directorySize+4*blockSize), func(ctx context.Context, node *Node, e *Engine) error {
		for round := range 20 {
			var members []int
			for r := e.rank % 2; r < ranks; r += 2 {
				members = append(members, r)
			}
			s, err := e.Split(ctx, uint64(10*round+1+e.rank%2), members)
			if err != nil {
				return err
			}
			sub, ok := s.(*Engine)
			if !ok {
				return errors.New("there is no memory left")
			}
			for i := range 3 {
				if err := play[int64](ctx, node, sub, trial{number: round*3 + i + 1, kind: collective.KindAllReduce, op: collective.Sum, count: 1 << (4 * i)}); err != nil {
					return err
				}
			}
			if err := sub.Close(); err != nil {
				return err
			}
			// The others have closed theirs too when all have come here.
			if err := e.Do(ctx, &collective.Work{Call: collective.Call{Kind: collective.KindBarrier}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestSplitWithoutMemory checks that all ranks take the engine below if one has no memory.
func TestSplitWithoutMemory(t *testing.T) {
	mustWorld(t, newBoard(t, 3, directorySize+4*blockSize), func(ctx context.Context, n *Node, e *Engine) error {
		if e.rank == 1 {
			for { // all that there is
				if _, err := n.Alloc(blockSize); err != nil {
					break
				}
			}
		}
		s, err := e.Split(ctx, 7, []int{0, 1, 2})
		if err != nil {
			return err
		}
		if s != collective.Engine(nothing{}) {
			return fmt.Errorf("got %T", s)
		}
		return nil
	})
}

func TestMismatchNamesBothCalls(t *testing.T) {
	errs := world(t, newBoard(t, 3, perRank), func(ctx context.Context, _ *Node, e *Engine) error {
		w := collective.Work{Call: collective.Call{Kind: collective.KindAllReduce, Op: collective.Sum, Seq: 1, Count: 3, Type: collective.Float64}, Dst: collective.Of(make([]float64, 3))}
		if e.rank == 2 {
			w = collective.Work{Call: collective.Call{Kind: collective.KindBroadcast, Seq: 1, Count: 2, Type: collective.Int64}, Dst: collective.Of(make([]int64, 2))}
		}
		err := e.Do(ctx, &w)
		if again := e.Do(ctx, &w); again == nil {
			return errors.New("the broken communicator goes on")
		}
		return err
	})
	for r, err := range errs {
		var m *collective.MismatchError
		var p *collective.PeerError
		switch {
		case errors.As(err, &m):
			if m.Rank != r || (m.Rank == 2) == (m.Peer == 2) || m.Mine == m.Theirs || m.Theirs.Count == m.Mine.Count {
				t.Errorf("rank %d: %+v", r, m)
			}
		case errors.As(err, &p): // another rank saw it first
		default:
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestUnequalPartsMustAgree checks that a rank that expects less than another gives says so.
func TestUnequalPartsMustAgree(t *testing.T) {
	errs := world(t, newBoard(t, 2, perRank), func(ctx context.Context, _ *Node, e *Engine) error {
		send, recv := []int{0, 3}, []int{0, 1}
		if e.rank == 1 {
			send, recv = []int{1, 0}, []int{2, 0}
		}
		return e.Do(ctx, &collective.Work{
			Call:       collective.Call{Kind: collective.KindAllToAllV, Type: collective.Int64},
			Src:        collective.Of(make([]int64, sum(send))),
			Dst:        collective.Of(make([]int64, sum(recv))),
			SendCounts: send, RecvCounts: recv,
		})
	})
	var m *collective.MismatchError
	if !errors.As(errs[1], &m) || m.Mine.Count != 2 || m.Theirs.Count != 3 {
		t.Errorf("rank 1: %v", errs[1])
	}
}

// TestDamagedNumberOfSteps checks that a rank does not believe in steps that do not follow
// from what the other one gives, and names that rank.
func TestDamagedNumberOfSteps(t *testing.T) {
	for name, damage := range map[string]func(e *Engine){
		"steps":        func(e *Engine) { *e.line(e.rank).extra() = 1 << 32 },
		"many steps":   func(e *Engine) { *e.line(e.rank).extra() = 1<<32 - 1 },
		"steps and n":  func(e *Engine) { *e.count(1, 1), *e.line(e.rank).extra() = 1<<63, 1<<32-1 },
		"overflow":     func(e *Engine) { *e.count(1, 1), *e.line(e.rank).extra() = 1<<61+1, 2 },
		"no such part": func(e *Engine) { *e.count(1, 1), *e.line(e.rank).extra() = 1<<30, 1<<31 },
	} {
		t.Run(name, func(t *testing.T) {
			errs := world(t, newBoard(t, 2, perRank), func(ctx context.Context, _ *Node, e *Engine) error {
				counts := []int{1, 1}
				w := &collective.Work{
					Call:       collective.Call{Kind: collective.KindAllToAllV, Type: collective.Int64},
					Src:        collective.Of(make([]int64, 2)),
					Dst:        collective.Of(make([]int64, 2)),
					SendCounts: counts, RecvCounts: counts,
				}
				if e.rank == 0 {
					return e.Do(ctx, w)
				}
				e.calls++
				e.plan(w)
				*e.count(1, 0), *e.count(1, 1) = 1, 1
				damage(e)
				return e.begin(&w.Call)
			})
			var p *collective.PeerError
			if !errors.As(errs[0], &p) || p.Rank != 1 {
				t.Errorf("rank 0: %v", errs[0])
			}
		})
	}
}

// TestEachEndOfACall ends a call in which rank 0 waits for the others, each way.
func TestEachEndOfACall(t *testing.T) {
	why := errors.New("out of patience")
	for _, big := range []bool{false, true} {
		for name, tc := range map[string]struct {
			end  func(b *board.Board, other *Engine, breakMine func(error))
			want func(error) bool
		}{
			"abort": {
				func(b *board.Board, _ *Engine, _ func(error)) { b.Abort(contract.Cause{Text: "over"}) },
				func(err error) bool { return errors.Is(err, board.ErrAborted) },
			},
			"break": {
				func(_ *board.Board, e *Engine, _ func(error)) { e.Break(why) },
				func(err error) bool {
					var p *collective.PeerError
					return errors.As(err, &p) && p.Rank == 1 && err.Error() == "rank 1 gave up: out of patience"
				},
			},
			"own break": { // as a Group does when a call's context ends
				func(_ *board.Board, _ *Engine, breakMine func(error)) { breakMine(why) },
				func(err error) bool { return err == why },
			},
			"close": {
				func(_ *board.Board, e *Engine, _ func(error)) { _ = e.Close() },
				func(err error) bool { return err.Error() == "rank 1 has closed its communicator" },
			},
		} {
			if big && name == "close" { // no rank closes inside a call
				continue
			}
			t.Run(fmt.Sprintf("%s/big=%v", name, big), func(t *testing.T) {
				b := newBoard(t, 2, perRank)
				engines, ended := make(chan *Engine, 1), make(chan error, 1)
				errs := world(t, b, func(_ context.Context, _ *Node, e *Engine) error {
					count := 2
					if big {
						count = 1 << 20
					}
					w := collective.Work{Call: collective.Call{Kind: collective.KindAllReduce, Op: collective.Sum, Type: collective.Int64, Count: uint64(count)}, Dst: collective.Of(make([]int64, count))}
					if e.rank == 0 {
						engines <- e
						err := e.Do(context.Background(), &w)
						ended <- err
						return err
					}
					if big { // enters, and goes no further than the first step
						e.calls++
						e.putSlices(&w, 0)
						*e.line(e.rank).extra() = 0
						if err := e.begin(&w.Call); err != nil {
							return err
						}
					}
					tc.end(b, e, (<-engines).Break)
					<-ended
					return nil
				})
				if errs[0] == nil || !tc.want(errs[0]) || errs[1] != nil {
					t.Errorf("got %v and %v", errs[0], errs[1])
				}
			})
		}
	}
}

// TestDamagedOffset checks that a rank survives an offset that another wrote.
func TestDamagedOffset(t *testing.T) {
	errs := world(t, newBoard(t, 2, perRank), func(ctx context.Context, n *Node, e *Engine) error {
		b, err := n.Alloc(4096)
		if err != nil {
			return err
		}
		w := collective.Work{Call: collective.Call{Kind: collective.KindAllReduce, Op: collective.Sum, Type: collective.Uint8, Count: 4096}, Dst: collective.Of(b)}
		if e.rank == 0 {
			return e.Do(ctx, &w)
		}
		e.calls++
		*e.line(e.rank).extra() = 1 << 63
		return e.begin(&w.Call)
	})
	if errs[0] == nil {
		t.Error("rank 0 read outside of the memory")
	}
}

// TestOffsetChangesAfterTheCheck checks that a rank uses the offset that it has checked, not
// what the other rank writes there later.
func TestOffsetChangesAfterTheCheck(t *testing.T) {
	scatter := func(b []byte) *collective.Work {
		return collective.ReduceScatter(collective.Of(make([]byte, len(b)/2)), collective.Of(b), collective.Sum)
	}
	reduce := func(b []byte) *collective.Work { return collective.AllReduce(collective.Of(b), collective.Sum) }
	for name, tc := range map[string]struct {
		work func(b []byte) *collective.Work
		do   func(e *Engine, w *collective.Work) error
	}{
		"all-reduce": {reduce, (*Engine).reduceInPlace},
		"reduce-scatter": {scatter, func(e *Engine, w *collective.Work) error {
			w.RecvCounts = []int{w.Dst.Count, w.Dst.Count}
			return e.scatterInPlace(w)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			mustWorld(t, newBoard(t, 2, perRank), func(_ context.Context, n *Node, e *Engine) error {
				b, err := n.Alloc(4096)
				if err != nil {
					return err
				}
				b[0] = 1
				w := tc.work(b)
				e.calls++
				e.plan(w)
				direct, err := e.beginInPlace(w, b, func() {})
				if err != nil || !direct {
					return fmt.Errorf("direct %v, error %v", direct, err)
				}
				if err := e.step(); err != nil {
					return err
				}
				*e.line(e.rank).extra() = 1 << 63
				if err := e.step(); err != nil {
					return err
				}
				if err := tc.do(e, w); err != nil {
					return err
				}
				if got := w.Dst.Data[0]; e.rank == 0 && got != 2 {
					return fmt.Errorf("the sum is %d", got)
				}
				return nil
			})
		})
	}
}

// TestDamagedDirectory checks that a rank makes blocks where it has memory, whatever others
// wrote into its directory.
func TestDamagedDirectory(t *testing.T) {
	n, err := NewNode(newBoard(t, 1, perRank), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.open(1, 1); err != nil {
		t.Fatal(err)
	}
	e := &n.directory(0).entries[0]
	e.place.Store(1 << 40)
	e.left.Store(0)
	for comm := range uint64(3) {
		if err := n.open(2+comm, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range n.free {
		if s.at < directorySize || s.at+s.size > n.inboxAt() {
			t.Errorf("%+v is not free memory", s)
		}
	}
}

func TestAllocAndFree(t *testing.T) {
	n, err := NewNode(newBoard(t, 1, directorySize+blockSize+32<<10), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	var pieces [][]byte
	for i := range 2000 {
		if r.IntN(2) == 0 && len(pieces) > 0 {
			k := r.IntN(len(pieces))
			for _, v := range pieces[k] {
				if v != pieces[k][0] {
					t.Fatal("two pieces overlap")
				}
			}
			if err := n.Free(pieces[k]); err != nil {
				t.Fatal(err)
			}
			if n.Free(pieces[k]) == nil {
				t.Fatal("freed twice")
			}
			pieces = slices.Delete(pieces, k, k+1)
			continue
		}
		b, err := n.Alloc(1 + r.IntN(200<<10))
		if err != nil {
			continue
		}
		for j := range b {
			if b[j] != 0 {
				t.Fatal("not zero")
			}
			b[j] = byte(i)
		}
		pieces = append(pieces, b)
	}
	for _, b := range pieces {
		if err := n.Free(b); err != nil {
			t.Fatal(err)
		}
	}
	if want := []span{{directorySize, n.inboxAt() - directorySize}}; !slices.Equal(n.free, want) {
		t.Errorf("free are %v, want %v", n.free, want)
	}
	if _, err := n.Alloc(n.size); err == nil {
		t.Error("allocated more than there is")
	}
	if n.Free(make([]byte, 1)) == nil {
		t.Error("freed memory of the heap")
	}
}

// TestRingSize checks how much memory the rings of a rank take.
func TestRingSize(t *testing.T) {
	const arena = 256 << 20
	for ranks, want := range map[int]int{2: 1 << 20, 4: 1 << 20, 8: 1 << 20, 16: 512 << 10, 64: 256 << 10, 1024: 64 << 10, 4096: 16 << 10} {
		if got := ringSize(arena, ranks); got != want {
			t.Errorf("%d ranks: %d", ranks, got)
		}
	}
	if got := ringSize(1<<20, 4); got != 64<<10 {
		t.Errorf("a small arena: %d", got)
	}
	if got := ringSize(64<<10, 2); got != 0 {
		t.Errorf("too small an arena: %d", got)
	}
}

func TestLayout(t *testing.T) {
	if s := unsafe.Sizeof(line{}); s != 64 {
		t.Errorf("a line has %d bytes", s)
	}
	for name, at := range map[string]uintptr{
		"step":  unsafe.Offsetof(block{}.step),
		"slots": unsafe.Offsetof(block{}.slots), "results": unsafe.Offsetof(block{}.results),
	} {
		if at%64 != 0 {
			t.Errorf("%s: %d is no multiple of a cache line", name, at)
		}
	}
}

func TestDoDoesNotAllocate(t *testing.T) {
	b := newBoard(t, 2, perRank)
	const runs = 100
	mustWorld(t, b, func(ctx context.Context, _ *Node, e *Engine) error {
		works := []collective.Work{}
		for _, count := range []int{1, 1000, 1 << 17} {
			works = append(works, collective.Work{Call: collective.Call{Kind: collective.KindAllReduce, Op: collective.Sum, Type: collective.Float32, Count: uint64(count)}, Dst: collective.Of(make([]float32, count))})
		}
		all := func() {
			for i := range works {
				if err := e.Do(ctx, &works[i]); err != nil {
					panic(err)
				}
			}
		}
		if e.rank == 1 {
			for range runs + 1 { // AllocsPerRun warms up once
				all()
			}
			return nil
		}
		if n := testing.AllocsPerRun(runs, all); n != 0 && !raceEnabled {
			return fmt.Errorf("%v allocations in three calls", n)
		}
		return nil
	})
}
