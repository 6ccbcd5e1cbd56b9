package socket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/launch/numa"
	"github.com/gorun/gorun/rendezvous"
	shared "github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/contract"
	"golang.org/x/sys/unix"
)

// openTestSocket serves a socket and collects what workers report.
func openTestSocket(t *testing.T) (s *Server, reported func() []string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	ctx, cancel := context.WithCancel(t.Context())
	note := func(r Report) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("round %d rank %d: %s", r.Round, r.Rank, r.Message))
	}
	lost := func(r Report) {
		r.Message = "lost"
		note(r)
	}
	s, err := Open(ctx, Options{Path: filepath.Join(t.TempDir(), "s"), Failed: note, Lost: lost})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Serve does not end")
		}
	})
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), got...)
	}
}

// client is a worker's end of the socket.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Scanner
}

func connect(t *testing.T, s *Server, say string) *client {
	t.Helper()
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	p := &client{t, c, bufio.NewScanner(c)}
	p.lines.Buffer(nil, contract.MaxFrame)
	_, _ = c.Write([]byte(say)) // the server may have closed the connection of a hostile client
	return p
}

const hello = `{"type":"hello","rank":3,"pid":77,"version":1}` + "\n"

// next returns the next frame, an empty one at the end of the connection.
func (p *client) next() contract.Frame {
	p.t.Helper()
	var f contract.Frame
	if p.lines.Scan() {
		if err := json.Unmarshal(p.lines.Bytes(), &f); err != nil {
			p.t.Fatalf("%v: %s", err, p.lines.Bytes())
		}
	}
	return f
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestWorkerReportsAndIsAborted(t *testing.T) {
	s, reported := openTestSocket(t)
	p := connect(t, s, hello)
	if f := p.next(); f.Type != contract.TypeWelcome || f.Version != contract.Version {
		t.Fatalf("%+v", f)
	}
	fmt.Fprintln(p, `{"type":"progress","step":1}`) // a frame of a later version
	fmt.Fprintln(p, `{"type":"fail","message":"loss is NaN"}`)
	poll(t, "no report", func() bool { return len(reported()) > 0 })
	if got := reported(); got[0] != "round 0 rank 3: loss is NaN" {
		t.Errorf("%q", got)
	}
	s.Abort(rendezvous.Cause{Kind: rendezvous.KindExit, Host: "n1", Rank: 1, ExitCode: 9, Message: "boom"})
	if f := p.next(); f.Type != contract.TypeAbort || f.Cause == nil || f.Cause.Rank != 1 || f.Cause.ExitCode != 9 || !strings.Contains(f.Cause.Text, "boom") {
		t.Fatalf("%+v", f)
	}
	late := connect(t, s, hello)
	if a, b := late.next(), late.next(); a.Type != contract.TypeWelcome || b.Type != contract.TypeAbort {
		t.Errorf("a worker that connects late gets %q and %q", a.Type, b.Type)
	}
	s.Begin(board.Round{Number: 1, Ranks: 4})
	fresh := connect(t, s, hello+`{"type":"bye"}`+"\n")
	if a, b := fresh.next(), fresh.next(); a.Type != contract.TypeWelcome || b.Type != "" {
		t.Errorf("in the next round a worker gets %q and %q", a.Type, b.Type)
	}
}

// TestReportsBelongToTheirRound checks that a late report of a worker of an earlier
// round never counts for a worker of the present round.
func TestReportsBelongToTheirRound(t *testing.T) {
	s, reported := openTestSocket(t)
	s.Begin(board.Round{Number: 4, Ranks: 4})
	old := connect(t, s, hello)
	old.next()
	s.Begin(board.Round{Number: 5, Ranks: 4})
	fmt.Fprintln(old, `{"type":"fail","message":"late"}`)
	poll(t, "no report", func() bool { return len(reported()) > 0 })
	if got := reported(); got[0] != "round 4 rank 3: late" {
		t.Errorf("%q", got)
	}
	helloOf := func(round int) string {
		return fmt.Sprintf(`{"type":"hello","rank":3,"version":1,"round":%d}`+"\n"+`{"type":"fail","message":"of %d"}`+"\n", round, round)
	}
	if f := connect(t, s, helloOf(4)).next(); f.Type != "" {
		t.Errorf("a worker of an earlier round gets %+v", f)
	}
	if f := connect(t, s, helloOf(5)).next(); f.Type != contract.TypeWelcome {
		t.Errorf("a worker of this round gets %+v", f)
	}
	poll(t, "no report", func() bool { return len(reported()) > 1 })
	if got := reported(); len(got) != 2 || got[1] != "round 5 rank 3: of 5" {
		t.Errorf("%q", got)
	}
}

// TestLostConnection checks that the end of a worker's connection is told with its rank and
// round, unless the worker has said goodbye, or has never said which one it is.
func TestLostConnection(t *testing.T) {
	s, reported := openTestSocket(t)
	s.Begin(board.Round{Number: 4, Ranks: 4})
	for _, say := range []string{"", hello + `{"type":"bye"}` + "\n", hello} {
		c := connect(t, s, say)
		if say != "" {
			c.next()
		}
		c.Close()
	}
	poll(t, "the end is not told", func() bool { return len(reported()) > 0 })
	poll(t, "connections are left", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 0 })
	if got := reported(); len(got) != 1 || got[0] != "round 4 rank 3: lost" {
		t.Errorf("%q", got)
	}
}

// TestAbortArrivesOnce checks that a worker, whenever it connects, gets its welcome
// first and then one abort.
func TestAbortArrivesOnce(t *testing.T) {
	s, _ := openTestSocket(t)
	var peers []*client
	var wg sync.WaitGroup
	wg.Go(func() { s.Abort(rendezvous.Cause{Kind: rendezvous.KindExit, Rank: -1}) })
	for range 50 {
		peers = append(peers, connect(t, s, hello+`{"type":"bye"}`+"\n"))
	}
	wg.Wait()
	for _, p := range peers {
		var types []string
		for f := p.next(); f.Type != ""; f = p.next() {
			types = append(types, f.Type)
		}
		if got := strings.Join(types, " "); got != "welcome abort" && got != "welcome" { // a worker that left first
			t.Fatalf("got %q", got)
		}
	}
	silent := connect(t, s, "")
	s.Abort(rendezvous.Cause{Kind: rendezvous.KindExit, Rank: -1})
	fmt.Fprint(silent, hello)
	if a, b := silent.next(), silent.next(); a.Type != contract.TypeWelcome || b.Type != contract.TypeAbort {
		t.Errorf("%q, then %q", a.Type, b.Type)
	}
}

// TestWorkersShareTheBoard checks which workers get the descriptor of the round's board
// with their welcome.
func TestWorkersShareTheBoard(t *testing.T) {
	s, _ := openTestSocket(t)
	base := 7000 + os.Getpid()%1000*1000 // no CPU that another test or a job claims
	s.Begin(board.Round{Number: 1, FirstRank: 2, Ranks: 2, Divide: func() []numa.Set { return []numa.Set{{base}, {base + 1}} }})
	first, cpus := takeBoard(t, connect(t, s, fmt.Sprintf(`{"type":"hello","rank":3,"board":%d}`+"\n", contract.BoardVersion)))
	if len(cpus) != 1 || cpus[0] != base+1 {
		t.Errorf("rank 3 has CPUs %v", cpus)
	}
	if first == nil || first.Ranks() != 2 {
		t.Fatalf("board %+v", first)
	}
	for _, say := range []string{hello, fmt.Sprintf(`{"type":"hello","board":%d}`+"\n", contract.BoardVersion+1), `{"type":"hello","board":-1}` + "\n"} {
		if b, cpus := takeBoard(t, connect(t, s, say)); b != nil || cpus != nil {
			t.Errorf("%s got a board, CPUs %v", say, cpus)
		}
	}
	s.Abort(rendezvous.Cause{Kind: rendezvous.KindExit, Host: "n1", Rank: 1, ExitCode: 9, Message: "boom"})
	if c := first.Cause(); c == nil || c.Rank != 1 || c.ExitCode != 9 || !strings.Contains(c.Text, "boom") {
		t.Errorf("cause %+v", c)
	}
	s.Begin(board.Round{Number: 2, Ranks: 2})
	if next, cpus := takeBoard(t, connect(t, s, fmt.Sprintf(`{"type":"hello","board":%d,"round":2}`+"\n", contract.BoardVersion))); next == nil || next.Aborted() || cpus != nil {
		t.Errorf("board %+v, CPUs %v", next, cpus)
	}
}

// TestOtherBoardsAreSaidOnce checks that workers of another build are named, with both
// versions and what to rebuild.
func TestOtherBoardsAreSaidOnce(t *testing.T) {
	for _, c := range []struct {
		board int
		want  string // ""; nothing
	}{
		{contract.BoardVersion, ""},
		{0, ""}, // it can map none
		{-1, ""},
		{contract.BoardVersion - 1, "rebuild the program"},
		{contract.BoardVersion + 1, "rebuild gorun"},
	} {
		said := make(chan string, 10)
		s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "s"), Warn: func(text string) { said <- text }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var served sync.WaitGroup
		served.Go(func() { _ = s.Serve(ctx) })
		s.Begin(board.Round{Number: 1, Ranks: 4})
		for rank := range 3 {
			connect(t, s, fmt.Sprintf(`{"type":"hello","rank":%d,"board":%d}`+"\n"+`{"type":"bye"}`+"\n", rank, c.board)).next()
		}
		cancel()
		served.Wait() // also for what is said after the welcome
		close(said)
		var texts []string
		for text := range said {
			texts = append(texts, text)
		}
		if c.want == "" {
			if len(texts) != 0 {
				t.Errorf("board %d: %q", c.board, texts)
			}
			continue
		}
		text := strings.Join(texts, "\n")
		versions := fmt.Sprintf("version %d of the board, gorun has version %d", c.board, contract.BoardVersion)
		if len(texts) != 1 || !strings.Contains(text, versions) || !strings.Contains(text, c.want) || !strings.HasPrefix(text, "rank ") {
			t.Errorf("board %d: %q", c.board, texts)
		}
	}
}

// takeBoard reads a welcome and maps the board that comes with it, nil if none does. It
// also returns the worker's own CPUs.
func takeBoard(t *testing.T, p *client) (*shared.Board, []int) {
	t.Helper()
	line, oob := make([]byte, contract.MaxFrame), make([]byte, 64)
	n, oobn, _, _, err := p.Conn.(*net.UnixConn).ReadMsgUnix(line, oob)
	if err != nil {
		t.Fatal(err)
	}
	var f contract.Frame
	if err := json.Unmarshal(line[:n], &f); err != nil || f.Type != contract.TypeWelcome || (f.Board != 0) != (oobn > 0) {
		t.Fatalf("%s with %d bytes beside it: %v", line[:n], oobn, err)
	}
	if oobn == 0 {
		return nil, f.CPUs
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages: %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("%d descriptors: %v", len(fds), err)
	}
	b, err := shared.Map(os.NewFile(uintptr(fds[0]), "board"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, f.CPUs
}

func TestBadFramesEndTheConnection(t *testing.T) {
	s, reported := openTestSocket(t)
	for _, junk := range []string{
		"nonsense\n", "\x00\x01\x02\n", `{"type":"hello"` + "\n", `[]` + "\n", `{"type":5}` + "\n",
		strings.Repeat("x", contract.MaxFrame+1) + "\n", strings.Repeat("x", 1<<20),
		`{"type":"hello","rank":1e99}` + "\n",
	} {
		p := connect(t, s, junk)
		if f := p.next(); f.Type != "" {
			t.Errorf("%.40q was answered with %+v", junk, f)
		}
	}
	connect(t, s, `{"type":"fail","message":"before hello"}`+"\n"+hello).next()
	if got := reported(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	connect(t, s, "half a fra").Close()
	if f := connect(t, s, hello).next(); f.Type != contract.TypeWelcome {
		t.Errorf("%+v", f)
	}
}

// TestLongCauseFitsAFrame checks that causes fit into a frame whatever they hold.
func TestLongCauseFitsAFrame(t *testing.T) {
	s, _ := openTestSocket(t)
	p := connect(t, s, hello)
	p.next()
	s.Abort(rendezvous.Cause{Kind: rendezvous.KindStart, Rank: -1, Host: strings.Repeat("h", 1<<20), Message: strings.Repeat("<\x01", 1<<20)})
	if f := p.next(); f.Type != contract.TypeAbort || f.Cause == nil {
		t.Errorf("%+v", f)
	}
}

// TestReportedFailure checks that a failure that a worker reported before its end
// is not lost.
func TestReportedFailure(t *testing.T) {
	s, _ := openTestSocket(t)
	connect(t, s, hello+`{"type":"fail","message":"the end"}`+"\n").Close()
	poll(t, "the report is lost", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.ReportedFailure(ctx, 3) == "the end"
	})
	if got := s.ReportedFailure(t.Context(), 4); got != "" {
		t.Errorf("of a rank that never connected: %q", got)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := Open(ctx, Options{Path: filepath.Join(t.TempDir(), "s"), Failed: func(Report) {}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.Path())
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v, %v; want only this user to connect", info.Mode(), err)
	}
	cancel()
	if err := s.Serve(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Path()); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestStacks(t *testing.T) {
	s, _ := openTestSocket(t)
	s.Begin(board.Round{Number: 1, FirstRank: 3, Ranks: 2})
	if _, err := s.Stacks(t.Context(), 3); err == nil {
		t.Error("a worker that never connected answered")
	}
	c := connect(t, s, hello)
	for _, want := range []string{"first", "second"} {
		got := make(chan string, 1)
		go func() {
			text, err := s.Stacks(t.Context(), 3)
			for errors.Is(err, ErrNotConnected) && t.Context().Err() == nil { // the server has not read the hello
				text, err = s.Stacks(t.Context(), 3)
			}
			if err != nil {
				text = err.Error()
			}
			got <- text
		}()
		for {
			if !c.lines.Scan() {
				t.Fatal("no question came")
			}
			var f contract.Frame
			if err := json.Unmarshal(c.lines.Bytes(), &f); err != nil {
				t.Fatal(err)
			}
			if f.Type == contract.TypeStacks {
				break
			}
		}
		fmt.Fprintf(c, `{"type":"stacks","message":%q}`+"\n", want)
		if text := <-got; text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
	c.Close()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := s.Stacks(t.Context(), 3); errors.Is(err, ErrNotConnected) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("after the end of the connection: %v", err)
		}
	}
}

func TestStepOnTheSocket(t *testing.T) {
	s, _ := openTestSocket(t)
	s.Begin(board.Round{Number: 1, FirstRank: 3, Ranks: 2})
	connect(t, s, hello+`{"type":"step","rank":3,"step":12}`+"\n")
	for deadline := time.Now().Add(20 * time.Second); s.Steps()[3] != 12; {
		if time.Now().After(deadline) {
			t.Fatalf("steps %v", s.Steps())
		}
	}
	s.Begin(board.Round{Number: 2, FirstRank: 3, Ranks: 2})
	if steps := s.Steps(); len(steps) != 0 {
		t.Errorf("steps %v of the round before", steps)
	}
}
