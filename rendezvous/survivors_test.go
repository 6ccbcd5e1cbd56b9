package rendezvous

import (
	"testing"
	"time"
)

// TestMajorityOfTheLastWorldGoesOn checks which members of the last world have no vote.
func TestMajorityOfTheLastWorldGoesOn(t *testing.T) {
	refused := func(addr string) Event { return DialFailed{Addr: addr, Refused: true, Text: "refused"} }
	tests := []struct {
		name   string
		events []Event // what happens to members 1 to 4 of 5
		goesOn bool
	}{
		{"two of five fall silent", []Event{Closed{Conn: 1, Silent: true}, Closed{Conn: 2, Silent: true}}, true},
		{"three of five fall silent", []Event{Closed{Conn: 1, Silent: true}, Closed{Conn: 2, Silent: true}, Closed{Conn: 3, Silent: true}}, false},
		{"three streams break, no process is known to have ended", []Event{Closed{Conn: 1}, Closed{Conn: 2}, Closed{Conn: 3}}, false},
		{"three break, two are lost", []Event{Closed{Conn: 1}, Closed{Conn: 2}, Closed{Conn: 3}, refused("c1"), refused("c2")}, true},
		{"three break and do not answer", []Event{Closed{Conn: 1}, Closed{Conn: 2}, Closed{Conn: 3}, DialFailed{Addr: "c1"}, DialFailed{Addr: "c2"}}, false},
		{"silence, then refusal", []Event{Closed{Conn: 1, Silent: true}, Closed{Conn: 2, Silent: true}, Closed{Conn: 3, Silent: true}, Tick{}, refused("c1"), refused("c2")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := runs(t, 4, 1)
			proposed := 0
			step := func(e Event) {
				cmds := m.Step(m.now, e)
				proposed += len(sent(cmds, MsgPropose))
				for _, c := range cmds { // every node's workers stop at once
					switch c := c.(type) {
					case Stop:
						m.Step(m.now, Over{Round: c.Round})
					case Send:
						if c.Msg.Type == MsgAbort {
							proposed += len(sent(m.Step(m.now, Received{c.Conn, Message{Type: MsgOver, Round: c.Msg.Round}}), MsgPropose))
						}
					}
				}
			}
			for _, e := range tt.events {
				if _, ok := e.(Tick); ok {
					m.now = m.now.Add(statusEvery)
				}
				step(e)
			}
			for range 3 {
				m.now = m.now.Add(time.Second)
				step(Tick{})
			}
			if got := proposed > 0 || m.coord.round.state == roundProposing || m.coord.round.state == roundRunning; got != tt.goesOn {
				t.Errorf("goes on: %v (%s; %s)", got, m.coord.round.state, m.coord.quorumProblem())
			}
		})
	}
}

// TestRefusalProvesALossOnlyAfterABreak checks that a refused connection proves a loss
// after a broken stream, but not after silence.
func TestRefusalProvesALossOnlyAfterABreak(t *testing.T) {
	for _, silent := range []bool{true, false} {
		m := secondOfThree(t, silent)
		m.Step(m.now, DialFailed{Addr: "c1", Refused: true, Text: "refused"})
		if m.coord == nil {
			t.Fatal("no agent coordinates")
		}
		for _, id := range []NodeID{"id1", "boss"} {
			if m.coord.seats.ended(id) == silent {
				t.Errorf("silent %v: %v", silent, m.coord.seats.byID)
			}
		}
	}
}

// TestSuccessorsWait checks that a successor that learns that the job is decided
// waits a moment for the nodes without it.
func TestSuccessorsWait(t *testing.T) {
	m, c := states()["working"]()
	m.Step(m.now, Done{Round: 0})
	w := newWorld([]Node{m.self, seatNode(1, 3, 1), seatNode(2, 3, 1), {ID: "boss", Workers: 1}}, World{RunID: "r", Term: 1})
	m.mem.work.accepted, m.mem.work.sealed = &w, &w
	m.Step(m.now, Closed{Conn: c, Text: "x"})
	m.Step(m.now, DialFailed{Addr: "c9", Refused: true, Text: "refused"})
	node := seatNode(1, 2, 1)
	node.Min, node.Max = m.self.Min, m.self.Max
	m.Step(m.now, Received{1, Message{Type: MsgHello, Node: &node, Last: &Last{World: &w, Started: true, Over: true, Outcome: &Outcome{}}}})
	m.Step(m.now, Received{1, Message{Type: MsgAck}})
	if m.coord == nil || m.coord.round.state != roundDecided {
		t.Fatal("the outcome is not taken over")
	}
	if m.ended {
		t.Fatal("it left before the third member came")
	}
	node = seatNode(2, 2, 1)
	node.Min, node.Max = m.self.Min, m.self.Max
	if got := sent(m.Step(m.now, Received{2, Message{Type: MsgHello, Node: &node}}), MsgFinish); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if m.Step(m.now.Add(ackTimeout), Tick{}); !m.ended {
		t.Error("it never leaves")
	}
}

func TestOrphansStopTheirWorkersAtOnce(t *testing.T) {
	for _, silent := range []bool{true, false} {
		m, c := states()["working"]()
		stops := 0
		for _, cmd := range m.Step(m.now, Closed{Conn: c, Silent: silent, Text: "x"}) {
			if _, ok := cmd.(Stop); ok {
				stops++
			}
		}
		if stops != 1 {
			t.Errorf("silent %v: %d stops", silent, stops)
		}
	}
}

// TestOutcomeIsPassedOn checks that the decision of a lost coordinator stands, if a
// node that got it comes to the successor.
func TestOutcomeIsPassedOn(t *testing.T) {
	m, c := states()["working"]()
	w := m.World()
	m.Step(m.now, Done{Round: 0})
	m.Step(m.now, Closed{Conn: c, Text: "reset"})
	m.Step(m.now, DialFailed{Addr: "c9", Refused: true})
	if m.coord == nil {
		t.Fatal("no agent coordinates")
	}
	m.coord.seats.get("id1").state = seatMissing // it has not come yet
	node := seatNode(1, 3, 1)
	node.Min, node.Max = m.self.Min, m.self.Max
	m.coord.round.state = roundRecovering
	cmds := m.Step(m.now, Received{1, Message{Type: MsgHello, Node: &node, Last: &Last{World: w, Started: true, Over: true, Outcome: &Outcome{Code: 42}}}})
	if got := sent(cmds, MsgFinish); len(got) != 1 || got[0].Outcome.Code != 42 {
		t.Errorf("%+v", cmds)
	}
}

// TestUncommittedMemberAsksTheOthers checks that a node that accepted a world and lost
// its coordinator asks the members.
func TestUncommittedMemberAsksTheOthers(t *testing.T) {
	m, c := states()["member"]()
	w := newWorld([]Node{m.self, seatNode(1, 3, 1), {ID: "boss", RunID: "r", Control: "c9", Workers: 1}}, World{Term: 1, Coordinator: "boss"})
	m.Step(m.now, Received{c, Message{Type: MsgPropose, World: &w}})
	m.Step(m.now, Peers{})
	m.Step(m.now, Closed{Conn: c, Text: "reset"})
	for end := m.now.Add(10 * time.Second); m.mem.link.dialing != "c1"; {
		next := m.Next()
		if next.IsZero() || next.After(end) {
			t.Fatalf("it waits without a message to the others (dialing %q)", m.mem.link.dialing)
		}
		m.Step(next, DialFailed{Addr: m.mem.link.dialing, Refused: true})
		m.Step(next, Tick{})
	}
}

// TestTheSearchForACoordinatorEnds checks that agents that know of no coordinator,
// one after the other, do not keep a survivor from taking over in time.
func TestTheSearchForACoordinatorEnds(t *testing.T) {
	m := secondOfThree(t, false)
	began := m.now
	for conn := Conn(20); m.coord == nil; conn++ {
		if m.now.Sub(began) > 2*m.cfg.Rejoin {
			t.Fatalf("still asking after %v", m.now.Sub(began))
		}
		if m.mem.link.dialing != "" {
			m.Step(m.now, Dialed{m.mem.link.dialing, conn})
			m.Step(m.now, Received{conn, Message{Type: MsgRedirect}})
		}
		if next := m.Next(); !next.IsZero() {
			m.Step(next, Tick{})
		}
	}
}

// TestNodeWithoutItsPlaceWaits checks a member whose stream broke and whose place another
// node took meanwhile. It is of this job and learns how its job ends.
func TestNodeWithoutItsPlaceWaits(t *testing.T) {
	m := runs(t, 2, 3) // of at most 3 nodes
	old := *m.World()
	m.Step(m.now, Closed{Conn: 2, Text: "reset"})
	m.Step(m.now, Over{Round: 0})
	m.Step(m.now, Received{1, Message{Type: MsgOver}})
	acceptAll(t, m, hello(m, 3, 2, 3, nil)) // a spare
	if w := m.World(); w.Round == 0 || w.Index("id3") < 0 || w.Index("id2") >= 0 {
		t.Fatalf("the spare did not take the place: %+v", w)
	}
	later := hello(m, 4, 2, 3, nil)
	if got := sent(later, MsgRefuse); len(got) != 0 {
		t.Errorf("a node that comes later is no spare: %+v", later)
	}
	node := seatNode(2, 2, 3)
	back := m.Step(m.now, Received{5, Message{Type: MsgHello, Node: &node, Last: &Last{World: &old, Started: true, Over: true}}})
	if got := sent(back, MsgRefuse); len(got) != 0 {
		t.Fatalf("it is refused: %s", got[0].Text)
	}
	failed := m.nodeCause(KindExit, "boom")
	failed.Rank, failed.ExitCode = 0, 9
	m.coord.job.restart = m.coord.job.maxRestarts
	m.Step(m.now, Failed{Round: m.World().Round, Cause: failed})
	m.Step(m.now, Received{1, Message{Type: MsgOver, Round: m.World().Round}})
	m.Step(m.now, Received{3, Message{Type: MsgOver, Round: m.World().Round}})
	isSent := false
	for _, c := range m.Step(m.now, Over{Round: m.World().Round, Failures: []Cause{failed}}) {
		s, ok := c.(Send)
		isSent = isSent || ok && s.Conn == 5 && s.Msg.Type == MsgFinish && s.Msg.Outcome.Code == 9
	}
	if !isSent {
		t.Error("it does not hear how the job ended")
	}
}
