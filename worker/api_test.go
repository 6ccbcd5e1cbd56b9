package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
)

func TestNilCommIsAnError(t *testing.T) {
	ctx, buf := t.Context(), []float32{1}
	var c *Comm
	_, split := c.Split(ctx, 0, 0)
	for name, err := range map[string]error{
		"split":      split,
		"all-reduce": AllReduce(ctx, c, buf, Sum),
		"all-to-all": AllToAll(ctx, c, buf, buf),
		"send":       Send(ctx, c, buf, 0),
		"receive":    Recv(ctx, c, buf, 0),
		"both":       SendRecv(ctx, c, buf, 0, buf, 0),
		"value":      BroadcastValue(ctx, c, &buf, 0),
		"requests":   WaitAll(ctx, Isend(c, buf, 0), IAllReduce(c, buf, Sum)),
	} {
		if !errors.Is(err, errNoComm) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c.Rank() != -1 || c.Size() != 0 {
		t.Errorf("rank %d of %d", c.Rank(), c.Size())
	}
	if err := WaitAll(ctx, nil, nil); !errors.Is(err, errNoRequest) {
		t.Errorf("nil requests: %v", err)
	}
}

func TestCallsAfterCloseFail(t *testing.T) {
	for _, size := range []int{1, 2} {
		for r, err := range ranks(t, size, func(w *World, c *Comm) error {
			ctx, buf := t.Context(), []float32{1}
			if err := AllReduce(ctx, c, buf, Sum); err != nil {
				return err
			}
			if err := w.Close(); err != nil {
				return err
			}
			late := map[string]error{
				"all-reduce": AllReduce(ctx, c, buf, Sum),
				"request":    IAllReduce(c, buf, Sum).Wait(ctx),
			}
			if size > 1 {
				late["send"] = Send(ctx, c, buf, 1-c.Rank())
			}
			for name, err := range late {
				if err == nil || !strings.Contains(err.Error(), "closed the communicator") {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("rank %d of %d: %v", r, size, err)
			}
		}
	}
}

func TestBroadcastValue(t *testing.T) {
	type config struct {
		Name   string
		Layers []int
	}
	want := config{"model", []int{3, 4}}
	for r, err := range ranks(t, 3, func(w *World, c *Comm) error {
		got := config{Name: "none", Layers: []int{1, 2, 3}}
		if w.Rank() == 1 {
			got = want
		}
		if err := BroadcastValue(t.Context(), c, &got, 1); err != nil {
			return err
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got %v", got)
		}
		// Gob refuses a function: every rank must hear of it.
		bad := struct{ F func() }{}
		if err := BroadcastValue(t.Context(), c, &bad, 0); err == nil || !strings.Contains(err.Error(), "encode") {
			return fmt.Errorf("a value that gob refuses: %w", err)
		}
		if err := BroadcastValue[config](t.Context(), c, nil, 0); err == nil || !strings.Contains(err.Error(), "nil") {
			return fmt.Errorf("a nil pointer: %w", err)
		}
		return Barrier(t.Context(), c)
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestStoreOfTheJob(t *testing.T) {
	ctx := t.Context()
	for r, err := range ranks(t, 2, func(w *World, c *Comm) error {
		s, err := w.Store(ctx)
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			// Another goroutine of this process waits for what this one sets.
			got := make(chan error, 1)
			go func() {
				v, err := s.Get(ctx, "mine")
				if err == nil && string(v) != "1" {
					err = fmt.Errorf("got %q", v)
				}
				got <- err
			}()
			if err := s.Set(ctx, "mine", []byte("1")); err != nil {
				return err
			}
			if err := <-got; err != nil {
				return err
			}
		}
		if _, err := s.Add(ctx, "count", int64(w.Rank())+1); err != nil {
			return err
		}
		if err := s.Set(ctx, fmt.Sprint("rank", w.Rank()), nil); err != nil {
			return err
		}
		if err := s.Wait(ctx, "rank0", "rank1"); err != nil {
			return err
		}
		if n, err := s.Add(ctx, "count", 0); n != 3 || err != nil {
			return fmt.Errorf("count %d, %w", n, err)
		}
		if err := Barrier(ctx, c); err != nil { // both have seen the keys that now go
			return err
		}
		mine := fmt.Sprint("rank", w.Rank())
		for _, want := range []bool{true, false} {
			if existed, err := s.Delete(ctx, mine); existed != want || err != nil {
				return fmt.Errorf("%s existed: %v, %w", mine, existed, err)
			}
		}
		return Barrier(ctx, c)
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if _, err := start(t, Settings{Size: 2}).Store(ctx); err == nil || !strings.Contains(err.Error(), "MASTER_ADDR") {
		t.Errorf("without a store: %v", err)
	}
	alone, err := start(t, Settings{Size: 1}).Store(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := alone.Add(ctx, "count", 2); n != 2 || err != nil {
		t.Errorf("alone: count %d, %v", n, err)
	}
}

// TestRankZeroServesTheStore checks that ranks meet whose launcher serves no store, that
// the others wait for rank 0, and that rank 0's store outlives its Close.
func TestRankZeroServesTheStore(t *testing.T) {
	ctx := t.Context()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(porttest.Free(t, "127.0.0.1")))
	const size = 3
	errs := make(chan error, size)
	closing := make(chan struct{})
	for rank := size - 1; rank >= 0; rank-- {
		w := start(t, Settings{Rank: rank, Size: size, Store: addr, OwnStore: true})
		go func() {
			errs <- func() error {
				c, err := w.Comm(ctx)
				if err != nil {
					return err
				}
				if err := Barrier(ctx, c); err != nil {
					return err
				}
				s, err := w.Store(ctx)
				if err != nil {
					return err
				}
				if rank == 0 {
					close(closing)
					return w.Close()
				}
				<-closing
				if err := s.Set(ctx, fmt.Sprint(rank), nil); err != nil {
					return err
				}
				if err := s.Wait(ctx, "1", "2"); err != nil {
					return err
				}
				return w.Close()
			}()
		}()
	}
	for range size {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestMainReturnsTheExitCode(t *testing.T) {
	for _, name := range []string{"RANK", "WORLD_SIZE", "GORUN_WORKER_SOCKET"} {
		t.Setenv(name, "")
	}
	for name, tc := range map[string]struct {
		f    func(context.Context, *World) error
		want int
	}{
		"success": {func(context.Context, *World) error { return nil }, 0},
		"failure": {func(context.Context, *World) error {
			return errors.New("(this error and the next are part of the test)")
		}, 1},
		"SIGTERM": {func(ctx context.Context, _ *World) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, 143},
	} {
		if got := Main(tc.f); got != tc.want {
			t.Errorf("%s: exit code %d, want %d", name, got, tc.want)
		}
	}
}

// TestDeadlineOption checks a call without a context of its own that another rank never
// makes.
func TestDeadlineOption(t *testing.T) {
	addr := serveStore(t)
	var cs []*Comm
	for r := range 2 {
		w, err := Start(t.Context(), Settings{Rank: r, Size: 2, Store: addr, Token: "t"}, WithDeadline(100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		c, err := w.Comm(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
	}
	err := Barrier(t.Context(), cs[0])
	hang, ok := errors.AsType[*HangError](err)
	if !ok || !errors.Is(err, context.DeadlineExceeded) || len(hang.Others) != 1 || hang.Others[0].Rank != 1 {
		t.Fatalf("error %v", err)
	}
	for _, words := range []string{"barrier #1", "not done after 100ms", "rank 1 has not arrived", "worker/api_test.go:"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
	// The communicator is broken, and not in silence.
	if _, err := cs[0].w.Comm(t.Context()); err == nil || !strings.Contains(err.Error(), "broken until the next round") {
		t.Errorf("Comm after the failure: %v", err)
	}
}

// TestOneRankThatLeavesEndsTheOthersCalls closes one rank's world while the others go on
// on communicators of their own, of which some do not have that rank.
func TestOneRankThatLeavesEndsTheOthersCalls(t *testing.T) {
	ctx := t.Context()
	errs := ranks(t, 4, func(w *World, c *Comm) error {
		row, err := c.Split(ctx, w.Rank()/2, 0)
		if err != nil {
			return err
		}
		column, err := c.Split(ctx, w.Rank()%2, 0)
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			if i == 20 && w.Rank() == 3 {
				return w.Close()
			}
			if err := AllReduce(ctx, row, make([]float64, 10), Sum); err != nil {
				return err
			}
			if err := AllReduce(ctx, column, make([]float64, 10), Sum); err != nil {
				return err
			}
		}
	})
	for r, err := range errs {
		if (r == 3) != (err == nil) {
			t.Errorf("rank %d: %v", r, err)
		}
		if r < 3 && !strings.Contains(err.Error(), "rank 3 has closed its communicator") {
			t.Errorf("rank %d does not name rank 3: %v", r, err)
		}
	}
}

// TestRequestsOfUnequalParts starts calls that gather and scatter, all before the first
// has ended, and checks what each rank has after WaitAll. A program may use its counts
// again at once.
func TestRequestsOfUnequalParts(t *testing.T) {
	const size = 3
	for r, err := range ranks(t, size, func(w *World, c *Comm) error {
		rank := c.Rank()
		// Rank i has i+1 elements of the value i, and i+1 elements 10*i+j for rank j.
		counts, all := []int{1, 2, 3}, make([]int32, 6)
		mine := slices.Repeat([]int32{int32(rank)}, rank+1)
		gathered, scattered := make([]int32, size), make([]int32, 2)
		var parts []int32
		for i := range int32(size) {
			parts = append(parts, 10*i, 10*i+1)
		}
		var out []int32
		for to := range int32(size) {
			out = append(out, slices.Repeat([]int32{10*int32(rank) + to}, rank+1)...)
		}
		send, receive, in := slices.Repeat([]int{rank + 1}, size), []int{1, 2, 3}, make([]int32, 6)
		requests := []*Request{
			IAllGatherV(c, all, counts, mine),
			IGather(c, gathered, mine[:1], 1),
			IScatter(c, scattered, parts, 2),
			IAllToAllV(c, in, receive, out, send),
		}
		for _, n := range [][]int{counts, send, receive} {
			clear(n)
		}
		if err := WaitAll(t.Context(), requests...); err != nil {
			return err
		}
		if rank != 1 {
			copy(gathered, []int32{0, 1, 2}) // only root has the result
		}
		r := int32(rank)
		for _, got := range []struct{ got, want []int32 }{
			{all, []int32{0, 1, 1, 2, 2, 2}},
			{gathered, []int32{0, 1, 2}},
			{scattered, []int32{10 * r, 10*r + 1}},
			{in, []int32{r, 10 + r, 10 + r, 20 + r, 20 + r, 20 + r}},
		} {
			if !slices.Equal(got.got, got.want) {
				return fmt.Errorf("got %v, want %v", got.got, got.want)
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestErrorsHaveOneVoice checks that the errors of exported functions say that they are
// gorun's, and that those of messages say which end of which message failed.
func TestErrorsHaveOneVoice(t *testing.T) {
	ctx := t.Context()
	_, badEnv := FromEnv(func(name string) (string, bool) { return "x", name == "RANK" })
	_, badSettings := Start(ctx, Settings{Rank: 3, Size: 2})
	_, noAgent := Start(ctx, Settings{Size: 1, Socket: "/nowhere"})
	alone := start(t, Settings{Size: 1})
	c, err := alone.Comm(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, badAlloc := Alloc[int8](c, -1)
	all := map[string]error{
		"environment": badEnv, "settings": badSettings, "agent": noAgent, "alloc": badAlloc,
		"no such rank":      Send(ctx, c, []int8{1}, 4),
		"receive of itself": Recv(ctx, c, []int8{1}, 0),
		"both":              SendRecv(ctx, c, []int8{1}, 3, []int8{1}, 0),
		"root":              Broadcast(ctx, c, []int8{1}, 9),
		"request":           Isend(c, []int8{1}, 9).Wait(ctx),
	}
	for rank, err := range ranks(t, 2, func(w *World, c *Comm) error {
		if w.Rank() == 1 {
			_ = Isend(c, []int8{1, 2}, 0, 5)
			return w.Close()
		}
		return Recv(ctx, c, []int8{1}, 1)
	}) {
		all[[]string{"receive", "close"}[rank]] = err
	}
	if err := all["receive"]; err == nil || !strings.Contains(err.Error(), "gorun: receive #1 (int8 x 1) from rank 1 failed: rank 1 ") {
		t.Errorf("receive: %v", err)
	}
	delete(all, "close") // rank 0 has the error if the message arrived first
	for name, err := range all {
		if err == nil || !strings.HasPrefix(err.Error(), "gorun: ") || strings.Count(err.Error(), "gorun: ") > 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
