package worker

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/contract"
)

// newBoard makes a board of two ranks, as an agent does.
func newBoard(t testing.TB) *board.Board {
	t.Helper()
	b, err := board.Create(board.Options{Ranks: 2, Memory: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// welcomeWith answers the first hello on a socket with a welcome of a version of the board
// and with descriptors.
func welcomeWith(t *testing.T, version int, fds ...int) (path string, hello func() contract.Frame) {
	t.Helper()
	return answerWith(t, contract.Frame{Type: contract.TypeWelcome, Version: 1, Board: version}, fds...)
}

// answerWith answers the first hello on a socket with a frame and with descriptors.
func answerWith(t *testing.T, answer contract.Frame, fds ...int) (path string, hello func() contract.Frame) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	got := make(chan contract.Frame, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { conn.Close() })
		var f contract.Frame
		_ = json.NewDecoder(conn).Decode(&f)
		line, _ := json.Marshal(answer)
		var oob []byte
		if len(fds) > 0 {
			oob = syscall.UnixRights(fds...)
		}
		_, _, _ = conn.(*net.UnixConn).WriteMsgUnix(append(line, '\n'), oob, nil)
		got <- f
	}()
	return path, func() contract.Frame { return <-got }
}

func TestWorkerTakesTheBoard(t *testing.T) {
	b := newBoard(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd, other := int(b.File().Fd()), int(null.Fd())
	for name, tc := range map[string]struct {
		version, local int
		fds            []int
		want           bool
	}{
		"board":            {contract.BoardVersion, 1, []int{fd}, true},
		"and more":         {contract.BoardVersion, 1, []int{fd, other, fd}, true},
		"none":             {0, 1, nil, false},
		"promised only":    {contract.BoardVersion, 1, nil, false},
		"later version":    {contract.BoardVersion + 1, 1, []int{fd}, false},
		"no board":         {contract.BoardVersion, 1, []int{other}, false},
		"no such rank":     {contract.BoardVersion, 2, []int{fd}, false},
		"not promised":     {0, 1, []int{fd}, false},
		"first is strange": {contract.BoardVersion, 1, []int{other, fd}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path, hello := welcomeWith(t, tc.version, tc.fds...)
			w := start(t, Settings{Rank: 5, Size: 6, LocalRank: tc.local, Socket: path})
			if f := hello(); f.Board != contract.BoardVersion {
				t.Errorf("hello %+v", f)
			}
			if (w.board() != nil) != tc.want {
				t.Fatalf("board %v", w.board())
			}
			if m := b.Member(1); tc.want && (m.Rank != 5 || m.PID != os.Getpid()) {
				t.Errorf("on the board: %+v", m)
			}
		})
	}
}

// TestAbortComesFromTheBoard checks a call that fails before the agent's frame is there.
func TestAbortComesFromTheBoard(t *testing.T) {
	b := newBoard(t)
	path, hello := welcomeWith(t, contract.BoardVersion, int(b.File().Fd()))
	w := start(t, Settings{Size: 1, Socket: path})
	hello()
	c, err := w.Comm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.outcome(errors.New("x")); err == nil || err.Error() != "gorun: x" {
		t.Errorf("before the abort: %v", err)
	}
	b.Abort(contract.Cause{Kind: "exit", Rank: 3, ExitCode: 7, Text: "rank 3 exited with code 7"})
	err = c.outcome(board.ErrAborted)
	if abort, ok := errors.AsType[*AbortError](err); !ok || abort.Cause.ExitCode != 7 || err.Error() != "gorun: aborted: rank 3 exited with code 7" {
		t.Errorf("error %v", err)
	}
	if !errors.Is(err, ErrAborted) {
		t.Errorf("%v is not ErrAborted", err)
	}
	if cause := context.Cause(w.Context()); cause != err {
		t.Errorf("the world ended with %v", cause)
	}
}

// TestPositionsOnTheBoard checks what one rank learns of another without asking it.
func TestPositionsOnTheBoard(t *testing.T) {
	b := newBoard(t)
	at := func(rank int) *positions {
		w := start(t, Settings{Rank: rank, Size: 2, LocalRank: rank})
		w.joinBoard(b)
		return w.positions(9, rank, 2, nil).(*positions)
	}
	mine, theirs := at(0), at(1)
	sum := func(seq uint64) *collective.Call {
		return &collective.Call{Comm: 9, Kind: collective.KindAllReduce, Type: collective.Float32, Op: collective.Sum, Seq: seq, Count: 10}
	}
	third := sum(3)
	mine.Enter(third, -1, false)
	ask := func() collective.Position {
		t.Helper()
		all := mine.Others(third, -1)
		if len(all) != 1 || all[0].Rank != 1 {
			t.Fatalf("%+v", all)
		}
		return all[0]
	}
	if p := ask(); p.Call.Kind != 0 || p.Inside || p.Arrived {
		t.Errorf("before its first call: %+v", p)
	}
	second := sum(2)
	theirs.Enter(second, -1, false)
	if p := ask(); p.Call != *second || !p.Inside || p.Arrived || !strings.HasPrefix(p.Caller, "worker/shared_test.go:") {
		t.Errorf("one call behind: %+v", p)
	}
	theirs.Leave(second, -1)
	for rank, want := range map[int]bool{1: true, 0: false} {
		if at := mine.w.callerOf(second, rank); strings.HasPrefix(at, "worker/shared_test.go:") != want {
			t.Errorf("rank %d called at %q", rank, at)
		}
	}
	if p := ask(); p.Call != *second || p.Inside || p.Arrived {
		t.Errorf("between two calls: %+v", p)
	}
	message := &collective.Call{Comm: 9, Kind: collective.KindSend, Type: collective.Uint8, Tag: 4, Seq: 1, Count: 2}
	theirs.Enter(message, 0, false)
	if p := ask(); p.Call != *message || !p.Inside || p.Arrived {
		t.Errorf("in a message: %+v", p)
	}
	same := sum(3)
	theirs.Enter(same, -1, false)
	if p := ask(); p.Call != *same || !p.Inside || !p.Arrived {
		t.Errorf("in the same call: %+v", p)
	}
	theirs.Leave(same, -1)
	theirs.Leave(message, 0)
	if p := ask(); p.Inside || !p.Arrived {
		t.Errorf("past it: %+v", p)
	}
	for range 2 * maxMessages { // the lines for messages are used again, and bounded
		var open []*collective.Call
		for range 2 * maxMessages {
			c := *message
			theirs.Enter(&c, 0, false)
			open = append(open, &c)
		}
		for _, c := range open {
			theirs.Leave(c, 0)
		}
	}
	if len(theirs.messages) != maxMessages || !ask().Arrived {
		t.Errorf("%d lines", len(theirs.messages))
	}
}

// TestRanksShareABoardWithoutAnAgent checks who shares memory when only a store joins the
// ranks.
func TestRanksShareABoardWithoutAnAgent(t *testing.T) {
	addr := serveStore(t)
	share := func(prefix string, s Settings) *World {
		t.Helper()
		s.Store = addr
		w := start(t, s)
		if err := w.shareBoard(t.Context(), prefix); err != nil {
			t.Fatal(err)
		}
		return w
	}
	var worlds []*World
	for local := range 3 {
		worlds = append(worlds, share("a/", Settings{Rank: local, Size: 5, LocalRank: local, LocalSize: 3}))
	}
	for local := range 2 {
		worlds = append(worlds, share("a/", Settings{Rank: 3 + local, Size: 5, LocalRank: local, LocalSize: 2, Node: 1}))
	}
	for rank, w := range worlds {
		if w.boardID() == "" || w.boardID() != worlds[rank/3*3].boardID() {
			t.Errorf("rank %d has the board %q", rank, w.boardID())
		}
		for local := range w.board().Ranks() {
			if m := w.board().Member(local); m.Rank != rank/3*3+local {
				t.Errorf("rank %d sees %+v", rank, m)
			}
		}
	}
	if worlds[0].boardID() == worlds[3].boardID() {
		t.Error("two nodes share a board")
	}
	for name, s := range map[string]Settings{"alone": {Size: 1, LocalSize: 1}, "no such rank": {Rank: 2, Size: 3, LocalRank: 2, LocalSize: 2}} {
		if w := share("b/", s); w.board() != nil {
			t.Errorf("%s: a board", name)
		}
	}
	// A second process that is the first local rank gets no board of its own, nor does the
	// node's board stay that has no page for a rank.
	before := mappedBoards(t)
	if w := share("a/", Settings{Rank: 0, Size: 5, LocalRank: 0, LocalSize: 3}); w.board() != nil {
		t.Error("two processes are the first of a node")
	}
	if w := share("a/", Settings{Rank: 4, Size: 5, LocalRank: 3, LocalSize: 4}); w.board() != nil {
		t.Error("a rank has the board of a smaller node")
	}
	b, err := board.MapAddress(worldAddress(t, worlds[0]))
	if err != nil {
		t.Fatal(err)
	}
	if b, address := announced(b); b != nil || address != "none" { // only the process that made it has its address
		t.Errorf("announced %q", address)
	}
	if after := mappedBoards(t); after != before {
		t.Errorf("%d boards stay mapped that nobody uses", after-before)
	}
}

func worldAddress(t *testing.T, w *World) string {
	t.Helper()
	address, err := w.board().Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// mappedBoards returns the number of boards that this process has mapped.
func mappedBoards(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "/memfd:gorun-board")
}

// TestStepWhileCommJoins finds, with the race detector, what Step reads and Comm writes.
func TestStepWhileCommJoins(t *testing.T) {
	b := newBoard(t)
	w := start(t, Settings{Rank: 1, Size: 2, LocalRank: 1})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 100 {
			w.Step(7)
		}
	})
	w.joinBoard(b)
	wg.Wait()
	if w.Step(8); b.Member(1).Step != 8 {
		t.Errorf("the board says step %d", b.Member(1).Step)
	}
}

// BenchmarkPositions measures what a call costs to be seen.
func BenchmarkPositions(b *testing.B) {
	w, err := Start(b.Context(), Settings{Size: 1})
	if err != nil {
		b.Fatal(err)
	}
	w.joinBoard(newBoard(b))
	p := w.positions(0, 0, 2, nil)
	call := &collective.Call{Kind: collective.KindBarrier}
	b.ReportAllocs()
	for b.Loop() {
		call.Seq++
		p.Enter(call, -1, false)
		p.Leave(call, -1)
	}
}

// nothing is an engine whose collectives have ended before they begin.
type nothing struct{ collective.Engine }

func (nothing) Do(context.Context, *collective.Work) error { return nil }

// BenchmarkCall measures what a collective costs beside its engine, with and without a
// context that may end.
func BenchmarkCall(b *testing.B) {
	w, err := Start(b.Context(), Settings{Size: 2, Store: "127.0.0.1:1"})
	if err != nil {
		b.Fatal(err)
	}
	w.joinBoard(newBoard(b))
	c := &Comm{w: w, g: collective.New(nothing{}, 0, 2, collective.Options{Positions: w.positions})}
	for name, ctx := range map[string]context.Context{"endless": context.Background(), "context": b.Context()} {
		b.Run(name, func(b *testing.B) {
			buf := make([]float32, 2)
			b.ReportAllocs()
			for b.Loop() {
				if err := AllReduce(ctx, c, buf, Sum); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
