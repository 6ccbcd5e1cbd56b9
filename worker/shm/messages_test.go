package shm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/contract"
)

// messaging is the engine of a node's ranks for messages only.
type messaging struct {
	nothing
	*Messages
}

func (e messaging) Post(m *collective.Message) { e.Messages.Post(m, m.Peer) }
func (e messaging) Wait(ctx context.Context, m *collective.Message) error {
	return e.Messages.Wait(ctx, m)
}
func (e messaging) Break(why error) { e.node.Break(why) }
func (e messaging) Close() error    { return e.Messages.Close() }

// manyBytes is the memory of a rank in the tests of messages: it costs nothing until it is
// used.
const manyBytes = 64 << 20

// correspond runs body as each of n ranks of a node, which are goroutines here, and returns
// their errors. It closes what a body leaves open and waits for Run.
func correspond(t testing.TB, b *board.Board, body func(m *Messages, g *collective.Group) error) []error {
	t.Helper()
	errs := make([]error, b.Ranks())
	var all []*Messages
	for i := range errs {
		n, err := NewNode(b, i)
		if err != nil {
			t.Fatal(err)
		}
		m := n.NewMessages()
		if m == nil {
			t.Fatal("no rings")
		}
		m.Open()
		all = append(all, m)
	}
	var wg, running sync.WaitGroup
	for i, m := range all {
		running.Go(m.Run)
		wg.Go(func() { errs[i] = body(m, collective.New(messaging{Messages: m}, i, len(errs), collective.Options{})) })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(100 * time.Second):
		t.Fatal("a rank hangs")
	}
	for _, m := range all {
		m.Close()
	}
	running.Wait()
	return errs
}

func mustCorrespond(t testing.TB, b *board.Board, body func(m *Messages, g *collective.Group) error) {
	t.Helper()
	for i, err := range correspond(t, b, body) {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
}

// content is what the message number i from one rank to another has.
func content(from, to, i, size int) []byte {
	b := make([]byte, size)
	x := uint64(from)<<40 + uint64(to)<<32 + uint64(i)*7 + 1
	for j := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[j] = byte(x >> 56)
	}
	return b
}

// TestRandomMessages lets all ranks send to all, with several tags, short and long
// messages, from the heap and from shared memory, in an order of their own.
func TestRandomMessages(t *testing.T) {
	for _, n := range []int{2, 3, 5, 9} {
		t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(n), 9))
			const each = 6
			size := func() int {
				return []int{0, 1, 40, rng.IntN(5000), eagerMost - 1, eagerMost, eagerMost + 1, rng.IntN(3 * ringMost)}[rng.IntN(8)]
			}
			sizes := make([][][]int, n) // from, to, message
			for i := range sizes {
				sizes[i] = make([][]int, n)
				for j := range sizes[i] {
					for range each {
						sizes[i][j] = append(sizes[i][j], size())
					}
				}
			}
			mustCorrespond(t, newBoard(t, n, manyBytes), func(m *Messages, g *collective.Group) error {
				r := rand.New(rand.NewPCG(uint64(g.Rank()), 3))
				type transfer struct {
					req  *collective.Request
					got  []byte
					from int
					i    int
				}
				var open []transfer
				wait := func(k int) error {
					x := open[k]
					open = append(open[:k], open[k+1:]...)
					if err := x.req.Wait(t.Context()); err != nil {
						return err
					}
					if x.got != nil && !bytes.Equal(x.got, content(x.from, g.Rank(), x.i, len(x.got))) {
						return fmt.Errorf("message %d of rank %d has other bytes", x.i, x.from)
					}
					return nil
				}
				var steps [][3]int // send, peer, message; each peer's messages in order
				for i := range each {
					for peer := range n {
						if peer != g.Rank() {
							steps = append(steps, [3]int{0, peer, i}, [3]int{1, peer, i})
						}
					}
				}
				for i := range steps { // exchange neighbours of different streams
					if k := r.IntN(len(steps)); k > i && steps[i][2] == steps[k][2] {
						steps[i], steps[k] = steps[k], steps[i]
					}
				}
				for _, s := range steps {
					peer, i := s[1], s[2]
					if s[0] == 1 {
						buf := content(g.Rank(), peer, i, sizes[g.Rank()][peer][i])
						if shared, err := m.node.Alloc(len(buf)); err == nil && r.IntN(3) == 0 {
							copy(shared, buf)
							buf = shared
						}
						open = append(open, transfer{req: g.Isend(collective.Of(buf), peer, int32(i%3))})
					} else {
						got := make([]byte, sizes[peer][g.Rank()][i])
						open = append(open, transfer{g.Irecv(collective.Of(got), peer, int32(i%3)), got, peer, i})
					}
					for len(open) > 0 && r.IntN(4) == 0 && len(open) > 3*n {
						if err := wait(r.IntN(len(open))); err != nil {
							return err
						}
					}
				}
				for len(open) > 0 {
					if err := wait(len(open) - 1); err != nil {
						return err
					}
				}
				return g.Close()
			})
		})
	}
}

// TestAllSendFirst lets ranks send long messages in a ring before they receive.
func TestAllSendFirst(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for _, size := range []int{eagerMost, 1 << 20} {
			mustCorrespond(t, newBoard(t, n, manyBytes), func(_ *Messages, g *collective.Group) error {
				next, last := (g.Rank()+1)%n, (g.Rank()+n-1)%n
				out, in := content(g.Rank(), next, 0, size), make([]byte, size)
				if err := g.Send(t.Context(), collective.Of(out), next, 0); err != nil {
					return err
				}
				if err := g.Recv(t.Context(), collective.Of(in), last, 0); err != nil {
					return err
				}
				if !bytes.Equal(in, content(last, g.Rank(), 0, size)) {
					return errors.New("other bytes")
				}
				return g.Close()
			})
		}
	}
}

// TestMessagesMoveWithoutTheirRank lets one end of a message do something else while the
// other end waits.
func TestMessagesMoveWithoutTheirRank(t *testing.T) {
	const size = 3 << 20
	for _, shared := range []bool{false, true} {
		for name, tc := range map[string]struct {
			start func(g *collective.Group, buf []byte) []*collective.Request
			other func(g *collective.Group, buf []byte) error
		}{
			"a send that is not waited for": {
				func(g *collective.Group, buf []byte) []*collective.Request {
					return []*collective.Request{g.Isend(collective.Of(buf), 1, 0)}
				},
				func(g *collective.Group, buf []byte) error { return g.Recv(t.Context(), collective.Of(buf), 0, 0) },
			},
			"a receive that is not waited for": {
				func(g *collective.Group, buf []byte) []*collective.Request {
					return []*collective.Request{g.Irecv(collective.Of(buf), 1, 0)}
				},
				func(g *collective.Group, buf []byte) error { return g.Send(t.Context(), collective.Of(buf), 0, 0) },
			},
			"short messages that nobody wants yet": {
				func(*collective.Group, []byte) []*collective.Request { return nil },
				func(g *collective.Group, buf []byte) error {
					for i := range 900 {
						if err := g.Send(t.Context(), collective.Of(buf[i:][:1000]), 0, 0); err != nil {
							return err
						}
					}
					return nil
				},
			},
		} {
			t.Run(fmt.Sprintf("%s, shared %v", name, shared), func(t *testing.T) {
				done, started := make(chan struct{}), make(chan struct{})
				mustCorrespond(t, newBoard(t, 2, manyBytes), func(m *Messages, g *collective.Group) error {
					buf := make([]byte, size)
					if shared {
						var err error
						if buf, err = m.node.Alloc(size); err != nil {
							return err
						}
					}
					if g.Rank() == 1 {
						<-started
						defer close(done)
						return tc.other(g, buf)
					}
					requests := tc.start(g, buf)
					close(started)
					<-done // in no call
					for _, r := range requests {
						if err := r.Wait(t.Context()); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// TestEachEndOfAMessage ends calls of rank 0 that wait for rank 1, each way.
func TestEachEndOfAMessage(t *testing.T) {
	why := errors.New("out of patience")
	for name, tc := range map[string]struct {
		end  func(b *board.Board, m *Messages)
		want func(error) bool
	}{
		"abort": {
			func(b *board.Board, _ *Messages) { b.Abort(contract.Cause{Text: "over"}) },
			func(err error) bool { return errors.Is(err, board.ErrAborted) },
		},
		"break": {
			func(_ *board.Board, m *Messages) { m.node.Break(why) },
			func(err error) bool {
				p, ok := errors.AsType[*collective.PeerError](err)
				return ok && p.Rank == 1 && strings.HasSuffix(err.Error(), "rank 1 gave up: out of patience")
			},
		},
		"break because of another rank": {
			func(_ *board.Board, m *Messages) {
				m.node.Break(&collective.PeerError{Rank: 7, Err: &collective.GaveUp{Rank: 7, Reason: "no more data"}})
			},
			func(err error) bool {
				p, ok := errors.AsType[*collective.PeerError](err)
				return ok && p.Rank == 7 && strings.HasSuffix(err.Error(), "rank 7 gave up: no more data")
			},
		},
		"close": {
			func(_ *board.Board, m *Messages) { _ = m.Close() },
			func(err error) bool {
				p, ok := errors.AsType[*collective.PeerError](err)
				return ok && p.Rank == 1 && p.Closed
			},
		},
	} {
		for kind, call := range map[string]func(g *collective.Group) error{
			"receive":   func(g *collective.Group) error { return g.Recv(t.Context(), collective.Of([]byte{1}), 1, 0) },
			"long send": func(g *collective.Group) error { return g.Send(t.Context(), collective.Of(make([]byte, 1<<20)), 1, 0) },
			"two at once": func(g *collective.Group) error {
				first := g.Irecv(collective.Of([]byte{1}), 1, 7)
				err := g.Recv(t.Context(), collective.Of([]byte{1}), 1, 0)
				if again := first.Wait(t.Context()); again == nil {
					return errors.New("the first one has no error")
				}
				return err
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				b := newBoard(t, 2, manyBytes)
				errs := correspond(t, b, func(m *Messages, g *collective.Group) error {
					if g.Rank() == 1 {
						for m.node.inbox(0).polling.Load() == 0 {
							time.Sleep(time.Millisecond) // sleep: polls for the other rank's wait
						}
						tc.end(b, m)
						return nil
					}
					return call(g)
				})
				if errs[0] == nil || !tc.want(errs[0]) {
					t.Errorf("got %v", errs[0])
				}
			})
		}
	}
}

func TestMessagesMustAgree(t *testing.T) {
	for _, size := range []int{10, 1 << 20} {
		errs := correspond(t, newBoard(t, 2, manyBytes), func(_ *Messages, g *collective.Group) error {
			if g.Rank() == 0 {
				err := g.Send(t.Context(), collective.Of(make([]int32, size)), 1, 0)
				if err == nil {
					err = g.Recv(t.Context(), collective.Of([]byte{1}), 1, 0)
				}
				return err
			}
			return g.Recv(t.Context(), collective.Of(make([]float32, size)), 0, 0)
		})
		if m, ok := errors.AsType[*collective.MismatchError](errs[1]); !ok || m.Rank != 1 || m.Peer != 0 || m.Mine.Type != collective.Float32 || m.Theirs.Type != collective.Int32 {
			t.Errorf("rank 1: %v", errs[1])
		}
		if p, ok := errors.AsType[*collective.PeerError](errs[0]); !ok || p.Rank != 1 {
			t.Errorf("rank 0: %v", errs[0])
		}
	}
}

// TestCloseNamesMessagesThatNobodyReceived closes with unpaired messages, the receiver or
// the sender first.
func TestCloseNamesMessagesThatNobodyReceived(t *testing.T) {
	for _, size := range []int{0, 1000, 1 << 20} {
		for _, first := range []int{0, 1} {
			sent, closed := make(chan struct{}), make(chan struct{})
			errs := correspond(t, newBoard(t, 2, manyBytes), func(_ *Messages, g *collective.Group) error {
				if g.Rank() == 0 {
					g.Isend(collective.Of(make([]byte, size)), 1, 0)
					close(sent)
				}
				<-sent
				if g.Rank() != first {
					<-closed
				} else {
					defer close(closed)
				}
				return g.Close()
			})
			if errs[0] == nil && errs[1] == nil {
				t.Errorf("%d bytes, rank %d closes first: no error", size, first)
			}
			for r, err := range errs {
				if err != nil && !strings.Contains(err.Error(), "rank 0") {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			if first == 1 && (errs[0] == nil || errs[1] == nil) {
				t.Errorf("%d bytes: rank 1 closes first, the errors are %v", size, errs)
			}
		}
	}
}

func TestMessagesDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const runs = 50
	mustCorrespond(t, newBoard(t, 2, manyBytes), func(m *Messages, g *collective.Group) error {
		shared, err := m.node.Alloc(1 << 20)
		if err != nil {
			return err
		}
		small, big := make([]byte, 200), make([]byte, 200_000)
		exchange := func() {
			for _, b := range [][]byte{small, big, shared} {
				in := b[:len(b)/2]
				if err := g.SendRecv(t.Context(), collective.Of(b[len(b)/2:]), 1-g.Rank(), collective.Of(in), 1-g.Rank(), 0); err != nil {
					panic(err)
				}
			}
		}
		for range 20 {
			exchange()
		}
		if g.Rank() == 1 {
			for range runs + 1 {
				exchange()
			}
			return nil
		}
		if n := testing.AllocsPerRun(runs, exchange); n > 1 {
			return fmt.Errorf("%v allocations in three exchanges", n)
		}
		return nil
	})
}

// FuzzRing lets a rank read rings and an inbox that another one filled with junk.
func FuzzRing(f *testing.F) {
	f.Add([]byte{1}, uint32(0))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0}, uint32(128))
	f.Add([]byte{64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, uint32(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint32(192))
	f.Fuzz(func(t *testing.T, junk []byte, offset uint32) {
		b := newBoard(t, 2, 8<<20)
		n, err := NewNode(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := n.NewMessages()
		m.Open()
		g := collective.New(messaging{Messages: m}, 0, 2, collective.Options{})
		first, second := make([]byte, 100), make([]byte, 200_000)
		a, c := g.Irecv(collective.Of(first), 1, 0), g.Irecv(collective.Of(second), 1, 1)
		out := g.Isend(collective.Of(make([]byte, 300_000)), 1, 0)
		for _, area := range [][]byte{n.ringOf(1, 0), n.ringOf(0, 1)[:ringHeader], n.arena(1)[n.inboxAt():][:inboxSize]} {
			for i := int(offset) % len(area); i < len(area) && len(junk) > 0; i++ {
				area[i] = junk[i%len(junk)]
			}
		}
		n.inbox(0).from[0].Store(^uint64(0))
		m.move()
		for range 3 {
			n.inbox(0).from[0].Store(2)
			m.move()
		}
		n.Break(errors.New("enough"))
		for _, r := range []*collective.Request{a, c, out} {
			_ = r.Wait(t.Context())
		}
		m.Close()
	})
}

func BenchmarkMessages(b *testing.B) {
	for _, size := range []int{8, 4 << 10, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			mustCorrespond(b, newBoard(b, 2, 256<<20), func(_ *Messages, g *collective.Group) error {
				buf := make([]byte, size)
				for range b.N { // there and back
					for from := range 2 {
						var err error
						if g.Rank() == from {
							err = g.Send(context.Background(), collective.Of(buf), 1-from, 0)
						} else {
							err = g.Recv(context.Background(), collective.Of(buf), from, 0)
						}
						if err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
}
