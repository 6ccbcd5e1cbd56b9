package collective_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

// TestMessagesGoBesideCollectives sends a message, waits at a barrier, and receives only
// after it: the message must not be taken for one of the barrier's.
func TestMessagesGoBesideCollectives(t *testing.T) {
	ctx := t.Context()
	for _, n := range []int{1, 1 << 20} { // sent at once, and when the receiver is ready
		noErrors(t, each(t, groups(t, 2), func(r int, g *collective.Group) error {
			buf := make([]byte, n)
			if r == 0 {
				sent := g.Isend(collective.Of(buf), 1, 0)
				if err := g.Do(ctx, collective.Barrier()); err != nil {
					return err
				}
				return sent.Wait(ctx)
			}
			if err := g.Do(ctx, collective.Barrier()); err != nil {
				return err
			}
			return g.Recv(ctx, collective.Of(buf), 0, 0)
		}))
	}
}

// TestBothSendFirst checks ranks that send big messages to each other before they receive.
func TestBothSendFirst(t *testing.T) {
	ctx := t.Context()
	noErrors(t, each(t, groups(t, 2), func(r int, g *collective.Group) error {
		out, in := make([]float64, 1<<20), make([]float64, 1<<20)
		sent := g.Isend(collective.Of(out), 1-r, 3)
		if err := g.Recv(ctx, collective.Of(in), 1-r, 3); err != nil {
			return err
		}
		return sent.Wait(ctx)
	}))
}

// TestAllSendFirst lets ranks wait in sends of long messages in a ring before they receive.
func TestAllSendFirst(t *testing.T) {
	for _, ranks := range []int{2, 3, 5} {
		noErrors(t, each(t, groups(t, ranks), func(r int, g *collective.Group) error {
			next, last := (r+1)%ranks, (r+ranks-1)%ranks
			for i := range 2 {
				out, in := filled(collective.Uint8, 3<<20, r, i), make([]byte, 3<<20)
				if err := g.Send(t.Context(), out, next, 1); err != nil {
					return err
				}
				if err := g.Recv(t.Context(), collective.Of(in), last, 1); err != nil {
					return err
				}
				if !bytes.Equal(in, filled(collective.Uint8, len(in), last, i).Data) {
					return errWrong
				}
			}
			return g.Close()
		}))
	}
}

// TestNoMessageIsLostInSilence sends a message that nobody receives. Whichever rank closes
// first, and however soon, one of the two says so.
func TestNoMessageIsLostInSilence(t *testing.T) {
	for _, size := range []int{1, 1 << 20} {
		for _, first := range []int{0, 1, 2} { // 2: both at once
			for range 5 {
				closed := make(chan struct{})
				errs := each(t, groups(t, 2), func(r int, g *collective.Group) error {
					if r == 0 {
						g.Isend(collective.Of(make([]byte, size)), 1, 0)
					}
					if r == first {
						defer close(closed)
					} else if first < 2 {
						<-closed
					}
					return g.Close()
				})
				if errs[0] == nil && errs[1] == nil {
					t.Errorf("%d bytes, rank %d closes first: no error", size, first)
				}
			}
		}
	}
}

// TestAsynchronousCollectivesKeepTheirOrder starts many collectives of different kinds and
// waits for them in reverse. One that waits comes after them.
func TestAsynchronousCollectivesKeepTheirOrder(t *testing.T) {
	ctx := t.Context()
	const ranks, calls = 3, 20
	noErrors(t, each(t, groups(t, ranks), func(r int, g *collective.Group) error {
		var requests []*collective.Request
		bufs := make([][]int64, calls)
		for i := range calls {
			bufs[i] = []int64{int64(r * i)}
			w := collective.AllReduce(collective.Of(bufs[i]), collective.Sum)
			if i%2 == 1 {
				w = collective.Broadcast(collective.Of(bufs[i]), i%ranks)
			}
			requests = append(requests, g.Start(w))
		}
		if err := g.Do(ctx, collective.Barrier()); err != nil {
			return err
		}
		for i, req := range slices.Backward(requests) {
			if err := req.Wait(ctx); err != nil {
				return err
			}
			want := int64(i * ranks * (ranks - 1) / 2)
			if i%2 == 1 {
				want = int64(i % ranks * i)
			}
			if bufs[i][0] != want {
				t.Errorf("call %d: rank %d has %d, want %d", i, r, bufs[i][0], want)
			}
		}
		return nil
	}))
}

// TestDeadlineNamesTheRankThatHasNotArrived ends the context of two ranks that wait for
// the third.
func TestDeadlineNamesTheRankThatHasNotArrived(t *testing.T) {
	gs := groups(t, 3)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	arrived := make(chan struct{}, 2)
	errs := each(t, gs, func(r int, g *collective.Group) error {
		if err := g.Do(ctx, collective.Barrier()); err != nil {
			return err
		}
		if r == 2 {
			<-arrived
			<-arrived
			time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
			<-ctx.Done()
			return nil
		}
		arrived <- struct{}{}
		return g.Do(ctx, collective.AllReduce(collective.Of([]float32{1}), collective.Sum))
	})
	named := false
	for r, err := range errs[:2] {
		if err == nil {
			t.Fatalf("rank %d has no error", r)
		}
		hang, ok := errors.AsType[*collective.HangError](err)
		named = named || ok && errors.Is(err, enough) && len(hang.Others) == 2
		if want := "rank 2 has not arrived, it has left barrier #1"; !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v, want %q in it", r, err, want)
		}
	}
	if !named {
		t.Errorf("no HangError: %v", errs)
	}
}

// TestSplit makes communicators of rows and columns and uses them at once.
func TestSplit(t *testing.T) {
	ctx := t.Context()
	noErrors(t, each(t, groups(t, 6), func(r int, g *collective.Group) error {
		row, err := g.Split(ctx, r/3, -r) // in reverse order
		if err != nil {
			return err
		}
		column, err := g.Split(ctx, r%3, 0)
		if err != nil {
			return err
		}
		if row.Size() != 3 || row.Rank() != 2-r%3 || column.Size() != 2 || column.Rank() != r/3 {
			t.Errorf("rank %d: %d of %d in its row, %d of %d in its column", r, row.Rank(), row.Size(), column.Rank(), column.Size())
		}
		a, b := []int64{int64(r)}, []int64{int64(r)}
		first := row.Start(collective.AllReduce(collective.Of(a), collective.Sum))
		if err := column.Do(ctx, collective.AllReduce(collective.Of(b), collective.Sum)); err != nil {
			return err
		}
		if err := first.Wait(ctx); err != nil {
			return err
		}
		if a[0] != int64(r/3*9+3) || b[0] != int64(2*(r%3)+3) {
			t.Errorf("rank %d: sums %d and %d", r, a[0], b[0])
		}
		if none, err := g.Split(ctx, -1, 0); none != nil || err != nil {
			t.Errorf("a negative color: %v, %v", none, err)
		}
		alone, err := g.Split(ctx, r, 0)
		if err != nil {
			return err
		}
		return alone.Do(ctx, collective.AllReduce(collective.Of(a), collective.Sum))
	}))
}

// TestHangErrorWhenNoRankIsMissing checks what a call says that has ended too early, while
// all ranks are there.
func TestHangErrorWhenNoRankIsMissing(t *testing.T) {
	call := collective.Call{Kind: collective.KindAllReduce, Type: collective.Float32, Op: collective.Sum, Seq: 7, Count: 4}
	later := collective.Call{Kind: collective.KindBarrier, Seq: 8}
	err := &collective.HangError{Call: call, Err: context.DeadlineExceeded, Others: []collective.Position{
		{World: 0, Arrived: true, Inside: true, Call: call, Caller: "train.go:5"},
		{World: 2, Arrived: true, Inside: true, Call: later, Caller: "train.go:9"},
		{World: 3, Arrived: true, Call: call},
	}}
	for _, want := range []string{
		"no rank is missing", "rank 0 is in this call too at train.go:5", "rank 2 has left it and is in barrier #8 at train.go:9",
		"rank 3 has left it:", "look at the network",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
	for range 100 {
		err.Others = append(err.Others, err.Others[0])
	}
	if text := err.Error(); len(text) > 1000 || !strings.Contains(text, "95 more") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
	err.Others[1].Arrived = false
	if text := err.Error(); strings.Contains(text, "no rank is missing") || !strings.Contains(text, "rank 2 has not arrived, it is in barrier #8") {
		t.Error(text)
	}
	err.Others = nil // nobody was asked
	if err.Error() != context.DeadlineExceeded.Error() {
		t.Error(err)
	}
}
