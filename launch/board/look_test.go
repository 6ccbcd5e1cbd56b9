package board

import (
	"testing"
	"time"

	"github.com/gorun/gorun/launch/hang"
	"github.com/gorun/gorun/worker/board"
	"github.com/gorun/gorun/worker/collective"
)

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

// TestRanks checks what the agent reads of a rank's communicators: its open call and the
// last collective that it entered, which is not known after very many messages.
func TestRanks(t *testing.T) {
	n := NewNode()
	t.Cleanup(n.Close)
	n.Begin(Round{Number: 1, FirstRank: 4, Ranks: 2})
	b := take(t, n, 1)
	if got := n.Ranks(time.Now()); len(got) != 0 {
		t.Errorf("%+v before a worker joined", got)
	}
	b.Join(1, 5, 77)
	b.SetStep(1, 9)
	line := b.OpenLine(1, board.Comm{ID: 8, Rank: 1, Size: 2})
	line.Enter(board.Call{Kind: uint8(collective.KindBarrier), Seq: 3, Site: b.Site(1, "main.go:7")})
	line.Leave()
	now := time.Now()
	n.Ranks(now)
	line.Enter(board.Call{Kind: uint8(collective.KindSend), Type: uint8(collective.Float32), Waits: board.WaitsForReceiver, Peer: 0, Tag: 2, Seq: 1, Count: 10, Site: b.Site(1, "main.go:8")})
	n.Ranks(now.Add(time.Second))
	got := n.Ranks(now.Add(5 * time.Second))[5]
	if len(got.Lines) != 1 || got.Step != 9 || got.Entered != 3 {
		t.Fatalf("%+v", got)
	}
	l := got.Lines[0]
	want := hang.Call{Text: "send #1 with tag 2 (float32 x 10) of communicator 0 to rank 0", Where: "main.go:8", Waits: hang.ForReceiver, Tag: 2, Number: 2, Age: 4 * time.Second}
	if l.Comm != 8 || l.Me != 1 || l.Size != 2 || l.Seq != 0 || l.Last != "main.go:8" || l.Open == nil || *l.Open != want {
		t.Errorf("%+v, %+v", l, l.Open)
	}
	if l := got.Lines[0]; l.Open.Waits != hang.ForReceiver {
		t.Errorf("%+v", l)
	}
}
