package collective_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/tcp"
)

// memoryDirectory is a tcp.Directory in memory.
type memoryDirectory struct {
	addrs []string
	known []chan struct{}
}

func (b *memoryDirectory) Publish(_ context.Context, rank int, addr string) error {
	b.addrs[rank] = addr
	close(b.known[rank])
	return nil
}

func (b *memoryDirectory) Lookup(ctx context.Context, rank int) (string, error) {
	select {
	case <-b.known[rank]:
		return b.addrs[rank], nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func groups(t testing.TB, size int) []*collective.Group {
	t.Helper()
	b := &memoryDirectory{addrs: make([]string, size), known: make([]chan struct{}, size)}
	gs := make([]*collective.Group, size)
	for r := range gs {
		b.known[r] = make(chan struct{})
		m, err := tcp.Open(t.Context(), tcp.Config{Rank: r, Size: size, Token: "t", Listen: tcp.Listen{Addr: "127.0.0.1"}, Directory: b})
		if err != nil {
			t.Fatal(err)
		}
		gs[r] = overTCP(m, r, size)
		t.Cleanup(func() { gs[r].Close() })
	}
	return gs
}

func overTCP(m *tcp.Mesh, rank, size int) *collective.Group {
	return collective.New(collective.NewMessages(m.World(), rank, size), rank, size, collective.Options{})
}

// each runs f as every rank at once, and fails the test if that takes too long.
func each(t testing.TB, gs []*collective.Group, f func(rank int, g *collective.Group) error) []error {
	t.Helper()
	errs := make([]error, len(gs))
	var wg sync.WaitGroup
	for r, g := range gs {
		wg.Go(func() { errs[r] = f(r, g) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatal("a rank hangs")
	}
	return errs
}

func noErrors(t testing.TB, errs []error) {
	t.Helper()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// sizes has 20011, which goes round the ring in parts of different lengths.
var sizes = []int{0, 1, 2, 3, 7, 1000, 20011}

// value is small and whole, so that every order of operations is exact.
func value(rank, i int) int { return []int{1, -2, 2, -1, 1, 1, 2}[(rank*5+i*3+i/1000)%7] }

func allReduce[T collective.Number](t *testing.T, gs []*collective.Group, n int, op collective.Op) {
	t.Helper()
	bufs := make([][]T, len(gs))
	want := make([]T, n)
	for r := range bufs {
		bufs[r] = make([]T, n)
		for i := range bufs[r] {
			v := T(value(r, i))
			bufs[r][i] = v
			switch {
			case r == 0:
				want[i] = v
			case op == collective.Sum:
				want[i] += v
			case op == collective.Prod:
				want[i] *= v
			case op == collective.Max:
				want[i] = max(want[i], v)
			case op == collective.Min:
				want[i] = min(want[i], v)
			}
		}
	}
	noErrors(t, each(t, gs, func(r int, g *collective.Group) error {
		return g.Do(t.Context(), collective.AllReduce(collective.Of(bufs[r]), op))
	}))
	for r := range bufs {
		for i := range want {
			if bufs[r][i] != want[i] {
				t.Fatalf("%v of %T x %d: rank %d has %v at %d, want %v", op, want, n, r, bufs[r][i], i, want[i])
			}
		}
	}
}

func TestAllReduceEqualsTheSequentialResult(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4, 8} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			gs := groups(t, ranks)
			for _, n := range sizes {
				for op := collective.Sum; op <= collective.Prod; op++ {
					allReduce[float32](t, gs, n, op)
					allReduce[float64](t, gs, n, op)
					allReduce[int64](t, gs, n, op)
				}
			}
			allReduce[float32](t, gs, 1<<20, collective.Sum)
			allReduce[float64](t, gs, 1<<20, collective.Max)
			allReduce[int64](t, gs, 1<<20, collective.Prod)
		})
	}
}

// TestAllRanksHaveTheSameBits checks sums of arbitrary floats, which depend on the order
// of operations. A NaN with a payload shows that even the operands' order is the same.
func TestAllRanksHaveTheSameBits(t *testing.T) {
	for _, ranks := range []int{2, 3, 4, 7, 8} {
		for _, n := range []int{9, 1000, 50_000} {
			gs := groups(t, ranks)
			bufs, sum := make([][]float32, ranks), make([]float64, n)
			for r := range bufs {
				rng := rand.New(rand.NewPCG(uint64(r), uint64(n)))
				bufs[r] = make([]float32, n)
				for i := range bufs[r] {
					bufs[r][i] = float32(rng.NormFloat64() * math.Pow(10, float64(i%7)))
					sum[i] += float64(bufs[r][i])
				}
				bufs[r][5] = math.Float32frombits(0x7fc00000 + uint32(r) + 1)
			}
			noErrors(t, each(t, gs, func(r int, g *collective.Group) error {
				return g.Do(t.Context(), collective.AllReduce(collective.Of(bufs[r]), collective.Sum))
			}))
			for i, s := range sum {
				got := bufs[0][i]
				if i != 5 && math.Abs(float64(got)-s) > 1e-5*float64(ranks)*math.Pow(10, float64(i%7)) {
					t.Fatalf("%d ranks: sum at %d is %v, want %v", ranks, i, got, s)
				}
				for r := range bufs {
					if a, b := math.Float32bits(got), math.Float32bits(bufs[r][i]); a != b {
						t.Fatalf("%d ranks, %d elements: at %d rank 0 has %x, rank %d has %x", ranks, n, i, a, r, b)
					}
				}
			}
		}
	}
}

func TestBroadcastFromEveryRoot(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4, 5, 8} {
		gs := groups(t, ranks)
		for root := range ranks {
			for _, n := range []int{0, 1, 1000, 100_000} {
				bufs := make([][]int64, ranks)
				noErrors(t, each(t, gs, func(r int, g *collective.Group) error {
					bufs[r] = make([]int64, n)
					for i := range bufs[r] {
						bufs[r][i] = int64(r*n + i)
					}
					return g.Do(t.Context(), collective.Broadcast(collective.Of(bufs[r]), root))
				}))
				for r := range bufs {
					for i, v := range bufs[r] {
						if v != int64(root*n+i) {
							t.Fatalf("root %d, rank %d has %d at %d", root, r, v, i)
						}
					}
				}
			}
		}
	}
}

func TestBarrierWaitsForAll(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 8} {
		gs := groups(t, ranks)
		for late := range ranks {
			var mu sync.Mutex
			arrived := 0
			noErrors(t, each(t, gs, func(r int, g *collective.Group) error {
				if r == late {
					time.Sleep(2 * time.Millisecond) // sleep: lets a barrier that does not wait show
				}
				mu.Lock()
				arrived++
				mu.Unlock()
				if err := g.Do(t.Context(), collective.Barrier()); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				if arrived != ranks {
					return fmt.Errorf("left the barrier when %d of %d had come", arrived, ranks)
				}
				return nil
			}))
		}
	}
}

func TestSendAndReceiveRoundTheRing(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4} {
		for _, n := range []int{0, 1, 1 << 20} {
			gs := groups(t, ranks)
			noErrors(t, each(t, gs, func(r int, g *collective.Group) error {
				out, in := make([]float64, n), make([]float64, n)
				for i := range out {
					out[i] = float64(r + i)
				}
				prev := (r + ranks - 1) % ranks
				if err := g.SendRecv(t.Context(), collective.Of(out), (r+1)%ranks, collective.Of(in), prev, 0); err != nil {
					return err
				}
				for i := range in {
					if in[i] != float64(prev+i) {
						return fmt.Errorf("%v at %d", in[i], i)
					}
				}
				return nil
			}))
		}
	}
}

// TestMismatchEndsAllRanks checks that ranks with different calls all get an error, and
// that at least one error names both calls.
func TestMismatchEndsAllRanks(t *testing.T) {
	ctx := t.Context()
	type call = func(*collective.Group) error
	f32 := func(n int, op collective.Op) call {
		return func(g *collective.Group) error {
			return g.Do(ctx, collective.AllReduce(collective.Of(make([]float32, n)), op))
		}
	}
	f64 := func(n int, op collective.Op) call {
		return func(g *collective.Group) error {
			return g.Do(ctx, collective.AllReduce(collective.Of(make([]float64, n)), op))
		}
	}
	for _, tc := range []struct {
		name                string
		most, odd           call
		mostWords, oddWords string
	}{
		{"count", f32(1000, collective.Sum), f32(999, collective.Sum), "float32 x 1000", "float32 x 999"},
		{"count zero", f32(5, collective.Sum), f32(0, collective.Sum), "float32 x 5", "float32 x 0"},
		{"small and big", f32(1000, collective.Sum), f32(1<<18, collective.Sum), "float32 x 1000", "float32 x 262144"},
		{"both big", f32(1<<18, collective.Sum), f32(1<<18+1, collective.Sum), "float32 x 262144", "float32 x 262145"},
		{"dtype", f32(1000, collective.Sum), f64(1000, collective.Sum), "float32 x 1000", "float64 x 1000"},
		{"op", f32(10, collective.Sum), f32(10, collective.Max), "sum of", "max of"},
		{"kind", f32(10, collective.Sum), func(g *collective.Group) error { return g.Do(ctx, collective.Barrier()) }, "all-reduce #1", "barrier #1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, ranks := range []int{2, 3, 4, 8} {
				for odd := range ranks {
					errs := each(t, groups(t, ranks), func(r int, g *collective.Group) error {
						if r == odd {
							return tc.odd(g)
						}
						return tc.most(g)
					})
					named := false
					for r, err := range errs {
						if err == nil {
							t.Fatalf("%d ranks, %d is odd: rank %d has no error", ranks, odd, r)
						}
						mm, ok := errors.AsType[*collective.MismatchError](err)
						named = named || ok && strings.Contains(mm.Error(), tc.oddWords) && strings.Contains(mm.Error(), tc.mostWords)
					}
					if !named {
						t.Errorf("%d ranks, %d is odd: no rank names both: %v", ranks, odd, errs)
					}
				}
			}
		})
	}
}

func TestBadArgumentsAreRefused(t *testing.T) {
	gs := groups(t, 2)
	b := collective.Of([]int64{1})
	for name, err := range map[string]error{
		"send to rank 2":     gs[0].Send(t.Context(), b, 2, 0),
		"receive from -1":    gs[0].Recv(t.Context(), b, -1, 0),
		"send to itself":     gs[0].Send(t.Context(), b, 0, 0),
		"broadcast from 2":   gs[0].Do(t.Context(), collective.Broadcast(b, 2)),
		"unknown operation":  gs[0].Do(t.Context(), collective.AllReduce(b, 9)),
		"half a circle of 1": gs[0].SendRecv(t.Context(), b, 0, b, 1, 0),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// None of them broke anything.
	noErrors(t, each(t, gs, func(_ int, g *collective.Group) error { return g.Do(t.Context(), collective.Barrier()) }))
}

func BenchmarkAllReduce(b *testing.B) {
	for _, n := range []int{2, 1 << 10, 1 << 18, 1 << 22} { // 8 B to 16 MiB
		b.Run(fmt.Sprintf("%dB", 4*n), func(b *testing.B) {
			gs := groups(b, 4)
			b.SetBytes(int64(4 * n))
			b.ReportAllocs()
			noErrors(b, each(b, gs, func(_ int, g *collective.Group) error {
				buf := collective.Of(make([]float32, n))
				for range b.N {
					if err := g.Do(context.Background(), collective.AllReduce(buf, collective.Sum)); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}
