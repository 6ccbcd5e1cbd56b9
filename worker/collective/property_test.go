package collective_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/half"
)

// dtypes and ops are all that a buffer and a reduction can have.
var (
	dtypes = []collective.DType{
		collective.Float32, collective.Float64, collective.Float16, collective.BFloat16,
		collective.Int8, collective.Int16, collective.Int32, collective.Int64,
		collective.Uint8, collective.Uint16, collective.Uint32, collective.Uint64,
	}
	ops = []collective.Op{
		collective.Sum, collective.Prod, collective.Min, collective.Max,
		collective.Avg, collective.And, collective.Or, collective.Xor,
	}
)

// allows reports whether op combines elements of type d.
func allows(d collective.DType, op collective.Op) bool {
	switch d {
	case collective.Float32, collective.Float64, collective.Float16, collective.BFloat16:
		return op < collective.And
	}
	return true
}

// reduces reports whether a call has an operation.
func reduces(k collective.Kind) bool {
	return k == collective.KindAllReduce || k == collective.KindReduce || k == collective.KindReduceScatter || k == collective.KindReduceScatterV
}

// filled returns a buffer whose values are small and whole, so that every order of
// operations is exact in every type. They depend on rank and salt.
func filled(d collective.DType, count, rank, salt int) collective.Buffer {
	switch d {
	case collective.Float32:
		return filledAs(count, rank, salt, func(v int) float32 { return float32(v) })
	case collective.Float64:
		return filledAs(count, rank, salt, func(v int) float64 { return float64(v) })
	case collective.Float16:
		return filledAs(count, rank, salt, func(v int) half.Float16 { return half.ToFloat16(float32(v)) })
	case collective.BFloat16:
		return filledAs(count, rank, salt, func(v int) half.BFloat16 { return half.ToBFloat16(float32(v)) })
	case collective.Int8:
		return filledAs(count, rank, salt, func(v int) int8 { return int8(v) })
	case collective.Int16:
		return filledAs(count, rank, salt, func(v int) int16 { return int16(v) })
	case collective.Int32:
		return filledAs(count, rank, salt, func(v int) int32 { return int32(v) })
	case collective.Int64:
		return filledAs(count, rank, salt, func(v int) int64 { return int64(v) })
	case collective.Uint8:
		return filledAs(count, rank, salt, func(v int) uint8 { return uint8(v) })
	case collective.Uint16:
		return filledAs(count, rank, salt, func(v int) uint16 { return uint16(v) })
	case collective.Uint32:
		return filledAs(count, rank, salt, func(v int) uint32 { return uint32(v) })
	}
	return filledAs(count, rank, salt, func(v int) uint64 { return uint64(v) })
}

func filledAs[T collective.Element](count, rank, salt int, of func(int) T) collective.Buffer {
	buf := make([]T, count)
	for i := range buf {
		buf[i] = of(value(rank+salt, i+salt))
	}
	return collective.Of(buf)
}

// step is one call that all ranks of a communicator make, with what each has afterwards.
type step struct {
	kind  collective.Kind
	dtype collective.DType
	op    collective.Op
	root  int
	count int // elements of one rank's part
	salt  int
}

func (s step) String() string {
	return fmt.Sprintf("%v of %v x %d, %v, root %d", s.kind, s.dtype, s.count, s.op, s.root)
}

// counts returns how many elements rank from has for rank to, in calls with unequal parts.
func (s step) counts(from, to int) int { return (s.count + 3*from + to) % (s.count + 2) }

// run makes the call as rank of g and compares the result with the plain one.
func (s step) run(t testing.TB, g *collective.Group) error {
	rank, n, root := g.Rank(), g.Size(), s.root%g.Size()
	mine := func(r, count int) collective.Buffer { return filled(s.dtype, count, r, s.salt) }
	zero := func(count int) collective.Buffer { return filled(s.dtype, count, 5, s.salt+1) }
	part := func(b collective.Buffer, i, count int) []byte {
		size := s.dtype.Size()
		return b.Data[i*count*size : (i+1)*count*size]
	}
	// reduced is the plain result: rank after rank.
	reduced := func(count int) collective.Buffer {
		acc := mine(0, count)
		for r := 1; r < n; r++ {
			collective.Combine(s.op, s.dtype, acc.Data, acc.Data, mine(r, count).Data)
		}
		if n > 1 {
			collective.Finish(s.op, s.dtype, acc.Data, n)
		}
		return acc
	}
	var w *collective.Work
	var got collective.Buffer
	var want []byte
	switch s.kind {
	case collective.KindAllReduce:
		got = mine(rank, s.count)
		w, want = collective.AllReduce(got, s.op), reduced(s.count).Data
	case collective.KindReduce:
		if rank == root {
			got = zero(s.count)
			want = reduced(s.count).Data
		}
		w = collective.Reduce(got, mine(rank, s.count), s.op, root)
	case collective.KindBroadcast:
		got = mine(rank, s.count)
		w, want = collective.Broadcast(got, root), mine(root, s.count).Data
	case collective.KindAllGather:
		got = zero(n * s.count)
		for r := range n {
			want = append(want, mine(r, s.count).Data...)
		}
		w = collective.AllGather(got, mine(rank, s.count))
	case collective.KindAllGatherV:
		counts, sum := make([]int, n), 0
		for r := range counts {
			counts[r] = s.counts(r, 0)
			sum += counts[r]
			want = append(want, mine(r, counts[r]).Data...)
		}
		got = zero(sum)
		w = collective.AllGatherV(got, counts, mine(rank, counts[rank]))
	case collective.KindReduceScatter:
		got = zero(s.count)
		w, want = collective.ReduceScatter(got, mine(rank, n*s.count), s.op), part(reduced(n*s.count), rank, s.count)
	case collective.KindReduceScatterV:
		counts, sum, before := make([]int, n), 0, 0
		for r := range counts {
			counts[r] = s.counts(r, 0)
			if r < rank {
				before += counts[r]
			}
			sum += counts[r]
		}
		got = zero(counts[rank])
		w, want = collective.ReduceScatterV(got, counts, mine(rank, sum), s.op), reduced(sum).Slice(before, before+counts[rank]).Data
	case collective.KindGather:
		if rank == root {
			got = zero(n * s.count)
			for r := range n {
				want = append(want, mine(r, s.count).Data...)
			}
		}
		w = collective.Gather(got, mine(rank, s.count), root)
	case collective.KindScatter:
		got = zero(s.count)
		var src collective.Buffer
		if rank == root {
			src = mine(root, n*s.count)
		}
		w, want = collective.Scatter(got, src, root), part(mine(root, n*s.count), rank, s.count)
	case collective.KindAllToAll:
		got = zero(n * s.count)
		for r := range n {
			want = append(want, part(mine(r, n*s.count), rank, s.count)...)
		}
		w = collective.AllToAll(got, mine(rank, n*s.count), n)
	case collective.KindAllToAllV:
		send, recv := make([]int, n), make([]int, n)
		out, in := 0, 0
		for r := range n {
			send[r], recv[r] = s.counts(rank, r), s.counts(r, rank)
			out, in = out+send[r], in+recv[r]
			before, all := 0, 0
			for to := range n {
				if to < rank {
					before += s.counts(r, to)
				}
				all += s.counts(r, to)
			}
			size := s.dtype.Size()
			want = append(want, mine(r, all).Data[before*size:(before+recv[r])*size]...)
		}
		got = zero(in)
		w = collective.AllToAllV(got, recv, mine(rank, out), send)
	default:
		w = collective.Barrier()
	}
	if err := g.Do(t.Context(), w); err != nil {
		return err
	}
	if !bytes.Equal(got.Data, want) {
		return fmt.Errorf("%w: %v: rank %d of %d has other elements than the plain result", errWrong, s, rank, n)
	}
	return nil
}

var errWrong = errors.New("wrong result")

// TestEveryCollectiveEqualsThePlainResult goes through all operations, types, sizes and
// worlds. The sizes are around those where the algorithms change.
func TestEveryCollectiveEqualsThePlainResult(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for size := 1; size <= 9; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			gs := simulate(size, 0, -1)
			var steps []step
			for kind := collective.KindAllReduce; kind <= collective.KindReduceScatterV; kind++ {
				if kind == collective.KindSend {
					continue
				}
				for _, d := range dtypes {
					for _, op := range ops {
						if allows(d, op) && (reduces(kind) || op == collective.Sum) {
							steps = append(steps, step{kind, d, op, rng.IntN(size), rng.IntN(40), rng.IntN(7)})
						}
					}
				}
				// 8192 float32 are 32 KiB, and so on.
				big := []int{0, 1, 8191, 8193}
				switch size {
				case 2, 3, 5, 8:
					big = append(big, 16385, 65537, 131073)
				}
				for _, count := range big {
					if kind != collective.KindAllReduce && kind != collective.KindReduce && kind != collective.KindBroadcast {
						count /= size // other calls have this much of each rank
					}
					steps = append(steps, step{kind, collective.Float32, collective.Sum, rng.IntN(size), count, rng.IntN(7)})
				}
			}
			noErrors(t, each(t, gs, func(r int, g *collective.Group) error {
				for _, s := range steps {
					if err := s.run(t, g); err != nil {
						return fmt.Errorf("%v: %w", s, err)
					}
				}
				return nil
			}))
		})
	}
}

// TestSampleOverTCP plays random calls of all kinds over loopback connections.
func TestSampleOverTCP(t *testing.T) {
	for _, size := range []int{2, 3, 5} {
		rng := rand.New(rand.NewPCG(3, uint64(size)))
		var steps []step
		for range 60 {
			steps = append(steps, randomStep(rng, 150_000))
		}
		noErrors(t, each(t, groups(t, size), func(r int, g *collective.Group) error {
			for _, s := range steps {
				if err := s.run(t, g); err != nil {
					return fmt.Errorf("%v: %w", s, err)
				}
			}
			return nil
		}))
	}
}

// randomStep returns a call of at most most elements for a rank, mostly of few.
func randomStep(rng *rand.Rand, most int) step {
	s := step{root: rng.IntN(9), salt: rng.IntN(7), count: rng.IntN(50)}
	if rng.IntN(6) == 0 {
		s.count = rng.IntN(most)
	}
	for s.kind = collective.KindSend; s.kind == collective.KindSend; {
		s.kind = 1 + collective.Kind(rng.IntN(int(collective.KindReduceScatterV)))
	}
	s.dtype = dtypes[rng.IntN(len(dtypes))]
	for s.op = ops[rng.IntN(len(ops))]; !allows(s.dtype, s.op); {
		s.op = ops[rng.IntN(len(ops))]
	}
	return s
}

// TestRandomPrograms runs the same random program on all ranks: collectives on the world
// and on communicators split from it, and messages. In most of them one rank is killed at
// a random operation. Every rank must end, the others with an error or with the whole
// program, and no rank may have a wrong result.
func TestRandomPrograms(t *testing.T) {
	const programs = 80
	killed := 0
	for seed := range uint64(programs) {
		rng := rand.New(rand.NewPCG(seed, 4))
		size := 2 + rng.IntN(8)
		victim, at := rng.IntN(size), 1+rng.IntN(120)
		if seed%4 == 0 {
			at = -1
		}
		errs := each(t, simulate(size, victim, at), func(r int, g *collective.Group) error {
			return program(t, g, rand.New(rand.NewPCG(seed, 5)), 30)
		})
		if !errors.Is(errs[victim], errKilled) {
			noErrors(t, errs) // it ended before its last operation
			continue
		}
		killed++
		for r, err := range errs {
			if errors.Is(err, errWrong) {
				t.Errorf("program %d: rank %d: %v", seed, r, err)
			}
			peer, ok := errors.AsType[*collective.PeerError](err)
			if r != victim && err != nil && (!ok || peer.Rank != victim) {
				t.Errorf("program %d: rank %d does not name rank %d, which was killed: %v", seed, r, victim, err)
			}
		}
	}
	if killed < programs/4 {
		t.Errorf("only %d of %d programs had a rank killed", killed, programs)
	}
}

// program makes n random calls; rng gives all ranks the same ones.
func program(t testing.TB, g *collective.Group, rng *rand.Rand, n int) error {
	comms := []*collective.Group{g}
	for range n {
		// Every rank draws the same numbers, whether or not it takes part.
		s, which, what, colors := randomStep(rng, 10_000), rng.IntN(3), rng.IntN(8), 1+rng.IntN(3)
		c := comms[which%len(comms)]
		switch {
		case what == 0 && len(comms) < 3:
			sub, err := g.Split(t.Context(), g.Rank()%colors, -g.Rank())
			if err != nil {
				return err
			}
			comms = append(comms, sub)
		case what == 1 && c.Size() > 1:
			next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			in := make([]byte, s.count)
			out := filled(collective.Uint8, s.count, c.Rank(), s.salt)
			if err := c.SendRecv(t.Context(), out, next, collective.Of(in), prev, int32(s.salt)); err != nil {
				return err
			}
			if !bytes.Equal(in, filled(collective.Uint8, s.count, prev, s.salt).Data) {
				return fmt.Errorf("%w: message from rank %d", errWrong, prev)
			}
		default:
			if err := s.run(t, c); err != nil {
				return err
			}
		}
	}
	return nil
}
