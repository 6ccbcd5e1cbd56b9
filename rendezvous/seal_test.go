package rendezvous

import (
	"fmt"
	"testing"
	"time"
)

// TestOneAcceptanceARound checks that a member accepts one world a round, whatever is
// proposed, in whatever order.
func TestOneAcceptanceARound(t *testing.T) {
	tests := []struct {
		name        string
		term, round int
		accept      bool
	}{
		{"the same round again", 3, 5, false},
		{"the same round of a later term", 4, 5, false},
		{"an earlier round", 3, 4, false},
		{"a later round of an earlier term", 2, 6, false},
		{"the next round", 3, 6, true},
		{"a later term", 4, 9, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, c := states()["member"]()
			if n := len(sent(m.Step(m.now, Received{c, Message{Type: MsgPropose, World: worldOf(m, 3, 5, "a")}}), MsgAccept)); n != 1 {
				t.Fatalf("%d acceptances of the first proposal", n)
			}
			got := sent(m.Step(m.now, Received{c, Message{Type: MsgPropose, World: worldOf(m, tt.term, tt.round, "b")}}), MsgAccept)
			if (len(got) == 1) != tt.accept {
				t.Errorf("accepted: %+v", got)
			}
		})
	}
}

func TestOnlyTheAcceptedWorldStarts(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Message)
	}{
		{"another digest", func(m *Message) { m.Digest = "x" }},
		{"another round", func(m *Message) { m.Round++ }},
		{"another term", func(m *Message) { m.Term++ }},
		{"", func(*Message) {}},
	}
	for _, tt := range tests {
		m, c := states()["member"]()
		w := worldOf(m, 1, 0, "a")
		m.Step(m.now, Received{c, Message{Type: MsgPropose, World: w}})
		msg := Message{Type: MsgCommit, Term: 1, Digest: w.Digest()}
		tt.edit(&msg)
		starts := 0
		for range 2 { // the second one is a repetition
			for _, cmd := range m.Step(m.now, Received{c, msg}) {
				if _, ok := cmd.(Start); ok {
					starts++
				}
			}
		}
		if want := map[bool]int{true: 1, false: 0}[tt.name == ""]; starts != want {
			t.Errorf("a commit of %q: %d starts, want %d", tt.name, starts, want)
		}
	}
}

func TestBurntRoundsAreNotUsedAgain(t *testing.T) {
	m := coordinating(t, 2, 3)
	hello(m, 1, 2, 3, nil)
	first := sent(hello(m, 2, 2, 3, nil), MsgPropose)
	m.Step(m.now, Closed{Conn: 2, Text: "ended"})
	second := sent(hello(m, 3, 2, 3, nil), MsgPropose) // a newcomer that has promised nothing
	if len(second) == 0 || second[0].World.Round <= first[0].World.Round {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// TestProposalExceedsAcceptedRounds checks that a proposal is above all that its
// members have accepted elsewhere.
func TestProposalExceedsAcceptedRounds(t *testing.T) {
	m := coordinating(t, 1, 2)
	old := newWorld([]Node{seatNode(1, 1, 2)}, World{Term: 7, Round: 12})
	got := sent(hello(m, 1, 1, 2, &Last{World: &old, Over: true}), MsgPropose)
	if len(got) != 1 || got[0].World.Round <= 12 || got[0].World.Term < 7 {
		t.Errorf("%+v", got)
	}
}

// TestBusyMembersAreWaitedFor checks that no proposal includes a node where workers
// live.
func TestBusyMembersAreWaitedFor(t *testing.T) {
	m := coordinating(t, 1, 2)
	old := newWorld([]Node{seatNode(1, 1, 2)}, World{Term: 1})
	cmds := hello(m, 1, 1, 2, &Last{World: &old, Started: true})
	if got := sent(cmds, MsgPropose); len(got) != 0 {
		t.Fatalf("proposed while workers run: %+v", got)
	}
	if got := sent(cmds, MsgAbort); len(got) != 1 || got[0].Round != old.Round || got[0].Cause == nil {
		t.Errorf("no agent stops the workers: %+v", got)
	}
	got := sent(m.Step(m.now, Received{1, Message{Type: MsgOver, Round: old.Round, Store: "fresh"}}), MsgPropose)
	if len(got) != 1 || got[0].World.Members[1].ID != "id1" {
		t.Fatalf("%+v", got)
	}
}

// TestInvalidProposalIsRefused checks that nothing that is not valid is accepted or
// seated.
func TestInvalidProposalIsRefused(t *testing.T) {
	for _, msg := range hostile() {
		switch {
		case msg.World != nil:
			m, c := states()["member"]()
			if got := sent(m.Step(m.now, Received{c, msg}), MsgAccept); len(got) != 0 {
				t.Errorf("accepted %.300s", fmt.Sprint(*msg.World))
			}
		case msg.Type == MsgHello && msg.Node != nil && (msg.Last != nil && msg.Last.World != nil || msg.Last == nil && msg.Node.Min == 2):
			m := coordinating(t, 3, 2)
			node := *msg.Node
			node.Min, node.Max = m.self.Min, m.self.Max
			if node.ID == "id00" {
				node.ID = m.self.ID
			}
			msg.Node = &node
			sane := node.ID == "x" && msg.Last == nil && node.Workers == 1 && node.NodeRank < 0 && node.Endpoint < 0 && node.Host == "" && node.RunID == "r"
			if got := sent(m.Step(m.now, Received{7, msg}), MsgRefuse); (len(got) != 1) != sane || len(got) == 1 && len(got[0].Text) > 4096 {
				t.Errorf("%.300s: refused with %.300s", fmt.Sprintf("%+v", node), fmt.Sprint(got))
			}
		}
	}
}

// TestStoppedCoordinatorCommitsNothing checks that acceptances that waited while its
// process was stopped count no more.
func TestStoppedCoordinatorCommitsNothing(t *testing.T) {
	for absence, starts := range map[time.Duration]bool{time.Second: true, 10 * time.Second: false} {
		m := coordinating(t, 2, 3)
		hello(m, 1, 2, 3, nil)
		cmds := hello(m, 2, 2, 3, nil)
		m.now = m.now.Add(statusEvery)
		m.Step(m.now, Tick{})
		at := m.now.Add(absence)
		for i, msg := range sent(cmds, MsgPropose) {
			w := msg.World
			m.Step(at, Received{Conn(1 + i), Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()}})
		}
		if got := m.World() != nil; got != starts {
			t.Errorf("after %v away: started %v", absence, got)
		}
	}
}
