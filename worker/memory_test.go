package worker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/internal/stall"
	"github.com/gorun/gorun/worker/shm"
)

// node runs f as every rank of a world whose ranks are all on this node and have no
// agent, so that they make a board of their own. lonely has a board that no other has.
func node(t *testing.T, size, lonely int, f func(w *World, c *Comm) error) []error {
	t.Helper()
	addr := serveStore(t)
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			w := start(t, Settings{Rank: r, Size: size, LocalRank: r, LocalSize: size, Store: addr, Token: "t"})
			if r == lonely {
				b, _ := makeBoard(size)
				w.joinBoard(b)
			}
			c, err := w.Comm(t.Context())
			if err == nil {
				err = f(w, c)
			}
			errs[r] = err
		})
	}
	wg.Wait()
	return errs
}

// sharesMemory reports whether collectives of the world's communicator go through memory.
func sharesMemory(w *World) bool {
	e, ok := w.links.engine.(*engine)
	if !ok {
		return false
	}
	_, ok = e.chosen.(*shm.Engine)
	return ok
}

// TestRanksOfOneNodeShareMemory goes through collectives, a Split and messages of ranks
// that share a board, and of ranks of which one does not.
func TestRanksOfOneNodeShareMemory(t *testing.T) {
	for _, lonely := range []int{-1, 1} {
		errs := node(t, 4, lonely, func(w *World, c *Comm) error {
			if err := checkSums(t, c, w.Rank(), 4); err != nil {
				return err
			}
			if sharesMemory(w) != (lonely < 0) {
				return fmt.Errorf("shares memory: %v", sharesMemory(w))
			}
			sub, err := c.Split(t.Context(), w.Rank()%2, -w.Rank())
			if err != nil {
				return err
			}
			got := []int64{int64(w.Rank())}
			if err := AllReduce(t.Context(), sub, got, Sum); err != nil {
				return err
			}
			if want := int64(2 + 2*(w.Rank()%2)); got[0] != want {
				return fmt.Errorf("the sum of a part is %d, want %d", got[0], want)
			}
			next, before := (w.Rank()+1)%4, (w.Rank()+3)%4
			out, in := []int64{int64(w.Rank())}, []int64{-1}
			if err := SendRecv(t.Context(), c, out, next, in, before); err != nil {
				return err
			}
			if in[0] != int64(before) {
				return fmt.Errorf("got %d of rank %d", in[0], before)
			}
			return Barrier(t.Context(), c)
		})
		for r, err := range errs {
			if err != nil {
				t.Errorf("lonely %d, rank %d: %v", lonely, r, err)
			}
		}
	}
}

// nodes runs f as every rank of a world of nodes with so many ranks each.
func nodes(t *testing.T, perNode []int, f func(w *World, c *Comm) error) []error {
	t.Helper()
	addr := serveStore(t)
	size := 0
	for _, n := range perNode {
		size += n
	}
	errs := make([]error, size)
	var wg sync.WaitGroup
	rank := 0
	for node, n := range perNode {
		for local := range n {
			s := Settings{Rank: rank, Size: size, LocalRank: local, LocalSize: n, Node: node, Store: addr, Token: "t"}
			rank++
			wg.Go(func() {
				w := start(t, s)
				c, err := w.Comm(t.Context())
				if err == nil {
					err = f(w, c)
				}
				errs[s.Rank] = err
			})
		}
	}
	wg.Wait()
	return errs
}

// TestTwoLevels goes through collectives of nodes with equal and unequal numbers of ranks,
// and of communicators that are parts of them.
func TestTwoLevels(t *testing.T) {
	for _, perNode := range [][]int{{2, 2}, {3, 2}, {3, 1, 2}} {
		errs := nodes(t, perNode, func(w *World, c *Comm) error {
			if err := checkSums(t, c, w.Rank(), w.Size()); err != nil {
				return err
			}
			if watched, ok := w.links.engine.(*engine).chosen.(*stall.Engine); !ok {
				return fmt.Errorf("the engine is a %T", w.links.engine.(*engine).chosen)
			} else if _, ok := watched.Engine.(*levels); !ok {
				return fmt.Errorf("the engine is a %T", watched.Engine)
			}
			average := make([]float64, 50_000)
			for i := range average {
				average[i] = float64(w.Rank())
			}
			if err := AllReduce(t.Context(), c, average, Avg); err != nil {
				return err
			}
			for i, v := range average {
				if want := float64(w.Size()-1) / 2; v != want {
					return fmt.Errorf("average %d is %v, want %v", i, v, want)
				}
			}
			for _, n := range []int{1, 3_001} {
				if err := checkParts(t.Context(), c, n); err != nil {
					return fmt.Errorf("parts of %d: %w", n, err)
				}
			}
			for _, color := range []int{w.Rank() % 2, w.Node()} { // across nodes, and each node
				sub, err := c.Split(t.Context(), color, w.Rank())
				if err != nil {
					return err
				}
				if err := checkSums(t, sub, sub.Rank(), sub.Size()); err != nil {
					return fmt.Errorf("part %d: %w", color, err)
				}
			}
			return Barrier(t.Context(), c)
		})
		for r, err := range errs {
			if err != nil {
				t.Errorf("nodes of %v, rank %d: %v", perNode, r, err)
			}
		}
	}
}

// TestMismatchBetweenNodes checks that every rank gets an error if one node makes another
// call than the other one. In the last of these calls each rank waits for one that waits
// too, and none reads what would show that.
func TestMismatchBetweenNodes(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, w *World, c *Comm) error{
		"small average and sum": func(ctx context.Context, w *World, c *Comm) error {
			return AllReduce(ctx, c, make([]float32, 1), []Op{Sum, Avg}[w.Node()])
		},
		"big average and sum": func(ctx context.Context, w *World, c *Comm) error {
			return AllReduce(ctx, c, make([]float32, 100_000), []Op{Sum, Avg}[w.Node()])
		},
		"broadcast and sum": func(ctx context.Context, w *World, c *Comm) error {
			if w.Node() == 1 {
				return Broadcast(ctx, c, make([]float32, 100_000), 0)
			}
			return AllReduce(ctx, c, make([]float32, 100_000), Sum)
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		errs := nodes(t, []int{2, 2}, func(w *World, c *Comm) error {
			if err := Barrier(ctx, c); err != nil {
				return fmt.Errorf("the barrier: %v", err)
			}
			return call(ctx, w, c)
		})
		mismatches, average := 0, false
		for r, err := range errs {
			var m *MismatchError
			var p *PeerError
			switch {
			case errors.As(err, &m):
				mismatches++
				average = average || strings.Contains(err.Error(), "average")
			case !errors.As(err, &p):
				t.Errorf("%s, rank %d: %v", name, r, err)
			}
		}
		if mismatches == 0 {
			t.Errorf("%s: no rank says what does not match: %v", name, errs)
		}
		if strings.Contains(name, "average") && !average {
			t.Errorf("%s: no rank names the average: %v", name, errs)
		}
	}
}

// checkParts makes calls in which each rank has a part of n elements, or root has all.
func checkParts(ctx context.Context, c *Comm, n int) error {
	rank, size := c.Rank(), c.Size()
	want := func(what string, got []int64, of func(i int) int) error {
		for i, v := range got {
			if v != int64(of(i)) {
				return fmt.Errorf("%s: element %d is %d, want %d", what, i, v, of(i))
			}
		}
		return nil
	}
	mine, all, got := make([]int64, n), make([]int64, size*n), make([]int64, size*n)
	sum := func(i int) int { return size*(size-1)/2 + size*i }
	fill := func() {
		for i := range mine {
			mine[i] = int64(rank*n + i)
		}
		for i := range all {
			all[i] = int64(rank + i)
		}
	}
	fill()
	if err := errors.Join(AllGather(ctx, c, got, mine), want("all-gather", got, func(i int) int { return i })); err != nil {
		return err
	}
	if err := errors.Join(ReduceScatter(ctx, c, mine, all, Sum), want("reduce-scatter", mine, func(i int) int { return sum(rank*n + i) })); err != nil {
		return err
	}
	for root := range size {
		clear(got)
		if err := Reduce(ctx, c, got, all, Sum, root); err != nil {
			return err
		}
		if err := want("reduce", got, func(i int) int {
			if rank == root {
				return sum(i)
			}
			return 0
		}); err != nil {
			return err
		}
		fill()
		if err := errors.Join(Broadcast(ctx, c, all, root), want("broadcast", all, func(i int) int { return root + i })); err != nil {
			return err
		}
		fill()
	}
	return nil
}

func checkSums(t *testing.T, c *Comm, rank, size int) error {
	for _, n := range []int{1, 100, 70_000, 300_000} {
		buf := make([]float32, n)
		for i := range buf {
			buf[i] = float32(rank + i%10)
		}
		if err := AllReduce(t.Context(), c, buf, Sum); err != nil {
			return err
		}
		for i, v := range buf {
			if want := float32(size*(size-1)/2 + size*(i%10)); v != want {
				return fmt.Errorf("element %d of %d is %v, want %v", i, n, v, want)
			}
		}
	}
	return nil
}

// TestFailureInSharedMemory checks that a rank that gives up ends the others' calls.
func TestFailureInSharedMemory(t *testing.T) {
	errs := node(t, 3, -1, func(w *World, c *Comm) error {
		if err := Barrier(t.Context(), c); err != nil {
			return err
		}
		if w.Rank() == 2 {
			return Broadcast(t.Context(), c, []float64{1}, 0)
		}
		return AllReduce(t.Context(), c, []float64{1}, Sum)
	})
	for r, err := range errs {
		var m *MismatchError
		var p *PeerError
		if !errors.As(err, &m) && !errors.As(err, &p) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestMismatchInAPart checks that an error of a part of the world names the lines of the
// ranks that it names, whose numbers in the part are others.
func TestMismatchInAPart(t *testing.T) {
	errs := node(t, 3, -1, func(w *World, c *Comm) error {
		part, err := c.Split(t.Context(), min(w.Rank(), 1), -w.Rank())
		if err != nil || w.Rank() == 0 {
			return err
		}
		if w.Rank() == 2 {
			return Broadcast(t.Context(), part, []float64{1}, 0)
		}
		return AllReduce(t.Context(), part, []float64{1}, Sum)
	})
	found := 0
	for r, err := range errs {
		m, ok := errors.AsType[*MismatchError](err)
		if !ok {
			continue
		}
		found++
		peer := regexp.MustCompile(fmt.Sprintf(`this rank called at \S*memory_test.go:\d+, rank %d at \S*memory_test.go:\d+$`, 3-r))
		if m.Rank != r || m.Peer != 3-r || !peer.MatchString(err.Error()) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if found == 0 {
		t.Errorf("no rank says what does not match: %v", errs)
	}
}

// TestMessagesGoThroughMemory sends messages before the first collective, among ranks that
// share a board, ranks that do not, and ranks that do not want to.
func TestMessagesGoThroughMemory(t *testing.T) {
	exchange := func(w *World, c *Comm, peer int) error {
		for _, n := range []int{1, 200_000} {
			out, in := make([]int32, n), make([]int32, n)
			for i := range out {
				out[i] = int32(w.Rank() + i)
			}
			if err := SendRecv(t.Context(), c, out, peer, in, peer); err != nil {
				return err
			}
			for i, v := range in {
				if v != int32(peer+i) {
					return fmt.Errorf("element %d of rank %d is %d", i, peer, v)
				}
			}
		}
		return nil
	}
	type body = func(w *World, c *Comm) error
	for name, tc := range map[string]struct {
		run    func(body) []error
		memory func(a, b int) bool
	}{
		"one node":    {func(f body) []error { return node(t, 3, -1, f) }, func(int, int) bool { return true }},
		"two nodes":   {func(f body) []error { return nodes(t, []int{2, 2}, f) }, func(a, b int) bool { return a/2 == b/2 }},
		"one without": {func(f body) []error { return node(t, 3, 1, f) }, func(a, b int) bool { return a != 1 && b != 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			errs := tc.run(func(w *World, c *Comm) error {
				for peer := range w.Size() {
					if peer == w.Rank() {
						continue
					}
					if err := exchange(w, c, peer); err != nil {
						return err
					}
					got := w.links.engine.(*engine).routes.InMemory(peer)
					if got != tc.memory(w.Rank(), peer) {
						return fmt.Errorf("messages to rank %d go through memory: %v", peer, got)
					}
				}
				sub, err := c.Split(t.Context(), w.Rank()%2, -w.Rank())
				if err != nil || sub.Size() < 2 || sub.Rank() > 1 {
					return err
				}
				got := []int64{-1}
				if err := SendRecv(t.Context(), sub, []int64{int64(sub.Rank())}, 1-sub.Rank(), got, 1-sub.Rank()); err != nil {
					return err
				}
				if got[0] != int64(1-sub.Rank()) {
					return fmt.Errorf("in a part: %d", got[0])
				}
				return nil
			})
			for r, err := range errs {
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}

// TestCloseEndsWhatStillRuns closes the world of a rank while a collective that it started
// waits for another rank, in memory that both share and over TCP, in the world's
// communicator and in one that was split off, and while the other rank splits. The closing
// rank gets an error, and the other one the reason.
func TestCloseEndsWhatStillRuns(t *testing.T) {
	for _, lonely := range []int{-1, 1} {
		for name, split := range map[string]bool{"the world's": false, "split": true} {
			closed := make(chan struct{})
			errs := node(t, 2, lonely, func(w *World, c *Comm) error {
				ctx, own := t.Context(), c
				if split {
					var err error
					if own, err = c.Split(ctx, 0, 0); err != nil {
						return err
					}
				}
				if err := Barrier(ctx, own); err != nil {
					return err
				}
				if w.Rank() == 1 {
					<-closed
					return AllReduce(ctx, own, make([]float32, 1<<20), Sum)
				}
				r := IAllReduce(own, make([]float32, 1<<20), Sum)
				err := within(t, w.Close)
				if waited := within(t, func() error { return r.Wait(ctx) }); waited == nil {
					t.Error("the collective that nobody else made has ended well")
				}
				close(closed)
				return err
			})
			for r, err := range errs {
				if err == nil || !strings.Contains(err.Error(), "while a collective of its own still ran") {
					t.Errorf("lonely %d, %s, rank %d: %v", lonely, name, r, err)
				}
			}
		}
	}
}

// TestCloseEndsASplit closes the world of a rank that waits for another one in a Split.
func TestCloseEndsASplit(t *testing.T) {
	closed := make(chan struct{})
	errs := node(t, 2, -1, func(w *World, c *Comm) error {
		if err := Barrier(t.Context(), c); err != nil {
			return err
		}
		if w.Rank() == 1 {
			<-closed
			return nil
		}
		defer close(closed)
		split := make(chan error, 1)
		go func() {
			_, err := c.Split(t.Context(), 0, 0)
			split <- err
		}()
		inside := func() bool {
			return slices.ContainsFunc(w.board().Positions(0, 1), func(p board.Position) bool { return p.Open() })
		}
		for !inside() {
			runtime.Gosched()
		}
		if err := within(t, w.Close); err == nil {
			t.Error("Close says nothing of the Split")
		}
		return within(t, func() error { return <-split })
	})
	if errs[0] == nil || errs[1] != nil {
		t.Errorf("%v", errs)
	}
}

// within returns what f returns, and fails the test if f takes very long.
func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
		return nil
	}
}

// TestHangErrorNamesRanksOfTheWorld lets rank 2 of the world, which is rank 0 of a
// communicator of the ranks 1 and 2, not come to a call: on one node and on two.
func TestHangErrorNamesRanksOfTheWorld(t *testing.T) {
	for name, perNode := range map[string][]int{"one node": {3}, "two nodes": {2, 1}, "three nodes": {1, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			errs := nodes(t, perNode, func(w *World, c *Comm) error {
				part, err := c.Split(t.Context(), min(w.Rank(), 1), -w.Rank())
				switch {
				case err != nil || w.Rank() == 0:
					return err
				case w.Rank() == 2:
					<-left
					return nil
				}
				defer close(left)
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				return Barrier(ctx, part)
			})
			hang, ok := errors.AsType[*HangError](errs[1])
			if !ok || len(hang.Others) != 1 || hang.Others[0].Rank != 0 || hang.Others[0].World != 2 || !strings.Contains(hang.Error(), "rank 2 has not arrived") {
				t.Errorf("rank 1: %v", errs[1])
			}
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("ranks 0 and 2: %v, %v", errs[0], errs[2])
			}
		})
	}
}

// TestAttachedCommunicatorsAreGivenBack attaches to more communicators, one after the other,
// than a node has memory for.
func TestAttachedCommunicatorsAreGivenBack(t *testing.T) {
	for name, perNode := range map[string][]int{"one node": {2}, "two nodes": {2, 1}, "three nodes": {1, 1, 1}} {
		t.Run(name, func(t *testing.T) {
			for r, err := range nodes(t, perNode, func(w *World, c *Comm) error {
				for i := range 70 {
					a, err := c.Attach(t.Context())
					if err == nil {
						err = a.Host.Do(t.Context(), collective.Barrier())
					}
					if err == nil {
						err = a.Leave()
					}
					if err != nil {
						return fmt.Errorf("communicator %d: %w", i, err)
					}
					if err := a.Leave(); err != nil { // again
						return err
					}
				}
				if n := len(w.links.split); n != 0 {
					return fmt.Errorf("%d groups are left", n)
				}
				return Barrier(t.Context(), c)
			}) {
				if err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}
