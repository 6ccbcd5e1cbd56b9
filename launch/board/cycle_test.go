package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
	"github.com/gorun/gorun/worker/contract"
)

// TestFindCycle checks which ranks wait for each other. A call is written as
// "0>1" (rank 0 sends to rank 1), "0<1" (it receives), "0*3" (collective number 3), "0&3"
// (the same, asynchronous), "0.3" (it has left that), with a tag or the number of a
// communicator after a colon and ? for a call that is new. All ranks are members of all
// communicators.
func TestFindCycle(t *testing.T) {
	for calls, want := range map[string]string{
		"":                     "",
		"0>1 1>0":              "0 1",
		"0<1 1<0":              "0 1",
		"0>1 1>2 2>0":          "0 1 2",
		"0>1 1>2 2>1":          "1 2", // rank 0 waits for the cycle
		"0>1 1<0":              "",    // a message
		"0>1:5 1<0:6":          "0 1", // another tag
		"0>1 1>0?":             "",
		"0>1":                  "",    // rank 1 computes
		"0>1 1*1":              "0 1", // rank 1 waits for rank 0
		"0<1 1*1":              "0 1",
		"0<1 1*1?":             "",
		"0<1 1&1":              "", // rank 1 goes on
		"0<1 1*1 2*1":          "0 1",
		"0<1 1*1 0.1":          "",    // rank 0 has left that already
		"0*1 1*2":              "",    // no other call is in the way
		"0*1:5 1*1:6":          "0 1", // each in a collective of another communicator
		"0*1:5 1*1:5":          "",
		"0*1 1<2 2*1":          "1 2", // rank 0 waits for the cycle
		"0*1 1<2":              "",    // rank 2 computes
		"0<2 1*1 2*1":          "0 2",
		"0<2 1*1 2>1 1>9":      "",
		"0>1 1>0 0&1":          "", // another goroutine
		"0>1 1>0 0*1":          "0 1",
		"0>1 1>0 1<0":          "",
		"0>1 1>0 0>2":          "", // rank 2 may receive
		"0>1 1>0 0>2 2>1":      "0 1",
		"0>9 9>0":              "0 9",
		"0>0":                  "0",
		"0>1 1>0 2>3 3>2":      "0 1",
		"0>1 1>2 2>3 3>1 0<7?": "1 2 3",
	} {
		now := time.Now()
		v := view{members: map[uint64][]member{}}
		var all []Call
		for i, text := range strings.Fields(calls) {
			c := Call{Since: now.Add(-time.Minute), key: callKey{entered: uint64(i + 1)}, comm: board.Comm{ID: 4}}
			if text, isNew := strings.CutSuffix(text, "?"); isNew {
				c.Since = now
				c.parse(t, text)
			} else {
				c.parse(t, text)
			}
			all = append(all, c)
			if !strings.Contains(text, ".") {
				v.open = append(v.open, c)
			}
		}
		slices.SortStableFunc(all, func(a, b Call) int { return a.Local - b.Local })
		for _, c := range all {
			for comm := range uint64(8) {
				last := board.Call{Waits: c.waits}
				if comm == c.comm.ID {
					last.Seq = c.seq
				}
				v.join(&board.Position{Local: c.Local, Comm: board.Comm{ID: comm, Rank: c.Local}}, &board.Visit{Call: last})
			}
		}
		var got []string
		for _, c := range v.findCycle(now) {
			got = append(got, fmt.Sprint(c.Rank))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: cycle %q, want %q", calls, got, want)
		}
	}
}

// parse reads a call as TestFindCycle writes it.
func (c *Call) parse(t *testing.T, text string) {
	t.Helper()
	text, after, _ := strings.Cut(text, ":")
	var what string
	if _, err := fmt.Sscanf(text, "%1d%1s%d", &c.Local, &what, &c.peer); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	c.Rank, c.comm.Rank = c.Local, c.Local
	c.waits = map[string]board.Waits{">": board.WaitsForReceiver, "<": board.WaitsForSender, "&": board.WaitsAside}[what]
	if isMessage(c) {
		_, _ = fmt.Sscan(after, &c.tag)
	} else {
		c.seq = uint64(c.peer)
		_, _ = fmt.Sscan(after, &c.comm.ID)
	}
}

// TestWatchTellsOfACycle lets two ranks send to each other first, on a real board.
func TestWatchTellsOfACycle(t *testing.T) {
	n := NewNode()
	t.Cleanup(n.Close)
	ctx, cancel := context.WithCancel(t.Context())
	said, ended := make(chan string, 10), make(chan struct{})
	go func() {
		n.Watch(ctx, func(format string, args ...any) { said <- fmt.Sprintf(format, args...) })
		close(ended)
	}()
	n.Begin(Round{Number: 1, FirstRank: 4, Ranks: 2})
	b := take(t, n, 1)
	for local := range 2 {
		line := b.OpenLine(local, board.Comm{Rank: local, Size: 2})
		line.Enter(board.Call{
			Kind: uint8(collective.KindSend), Type: uint8(collective.Float32), Waits: board.WaitsForReceiver,
			Site: b.Site(local, fmt.Sprintf("train/main.go:%d", local)), Peer: int32(1 - local), Seq: 1, Count: 10,
		})
	}
	select {
	case text := <-said:
		for _, part := range []string{
			"rank 4 is in send #1 (float32 x 10) to rank 1 at train/main.go:0", "rank 5 is in send #1 (float32 x 10) to rank 0 at train/main.go:1",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in %q", part, text)
			}
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was said")
	}
	if calls := n.Calls(); len(calls) != 2 || calls[1].Rank != 5 || time.Since(calls[1].Since) < cycleTime {
		t.Errorf("%+v", calls)
	}
	n.Abort(contract.Cause{Text: "x"})
	if cycle, running := n.cycle(time.Now()); len(cycle) > 0 || running {
		t.Error("an aborted round is watched")
	}
	cancel()
	<-ended
	if len(said) > 0 {
		t.Errorf("said twice: %q", <-said)
	}
}

func TestCallsAreThoseOfTheRound(t *testing.T) {
	n := NewNode()
	t.Cleanup(n.Close)
	n.Begin(Round{Number: 1, Ranks: 1})
	b := take(t, n, 1)
	b.SetStep(0, 12)
	if steps := n.Steps(); len(steps) != 1 || steps[0] != 12 {
		t.Errorf("steps %v", steps)
	}
	line := b.OpenLine(0, board.Comm{Size: 1})
	line.Enter(board.Call{Kind: uint8(collective.KindBarrier), Seq: 7})
	if c := n.Calls(); len(c) != 1 || c[0].Text != "barrier #7" {
		t.Errorf("%+v", c)
	}
	line.Leave()
	if c := n.Calls(); len(c) != 0 {
		t.Errorf("%+v", c)
	}
	line.Enter(board.Call{Kind: 200, Type: 200, Site: 60000, Waits: 77, Peer: -5})
	if c := n.Calls(); len(c) != 1 {
		t.Errorf("%+v", c)
	}
	n.Begin(Round{Number: 2, Ranks: 1})
	if c, steps := n.Calls(), n.Steps(); len(c) != 0 || len(steps) != 0 {
		t.Errorf("%+v, steps %v", c, steps)
	}
}
