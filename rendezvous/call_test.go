package rendezvous

import (
	"testing"
	"time"
)

// TestRedirectsLeadSomewhere checks that a redirect never leads to the agent that
// asks, or to the agent that sends it.
func TestRedirectsLeadSomewhere(t *testing.T) {
	m, c := states()["member"]()
	asker := seatNode(9, 3, 1)
	if got := sent(m.Step(m.now, Received{5, Message{Type: MsgHello, Node: &asker}}), MsgRedirect); len(got) != 1 || got[0].Addr != "" {
		t.Errorf("the one that it follows is sent to %+v", got)
	}
	for _, cmd := range m.Step(m.now, Received{c, Message{Type: MsgRedirect, Addr: m.self.Control}}) {
		if d, ok := cmd.(Dial); ok && d.Addr == m.self.Control {
			t.Error("it dials itself")
		}
	}
}

// TestCallsReachAnotherCoordinator checks that two coordinators of one job become
// one.
func TestCallsReachAnotherCoordinator(t *testing.T) {
	late, c := states()["forming"]() // it found no other agent and forms a world of its own
	cmds := late.Step(late.now, Received{c, Message{Type: MsgRedirect, Addr: "c5", Term: 2}})
	if len(cmds) == 0 {
		t.Fatal("the call is ignored")
	}
	dials := 0
	for _, cmd := range cmds {
		if d, ok := cmd.(Dial); ok && d.Addr == "c5" {
			dials++
		}
	}
	hello := sent(late.Step(late.now, Dialed{"c5", 5}), MsgHello)
	if dials != 1 || len(hello) != 1 || late.coord != nil {
		t.Errorf("%d dials, %d hellos, still coordinates: %v", dials, len(hello), late.coord != nil)
	}
}

// TestMissingMembersAreCalled checks that a call every second brings the address of
// this coordinator.
func TestMissingMembersAreCalled(t *testing.T) {
	m := runs(t, 2, 3)
	m.Step(m.now, Closed{Conn: 2, Silent: true, Text: "silent"})
	m.Step(m.now, Over{Round: 0})
	m.Step(m.now, Received{1, Message{Type: MsgOver}})
	dials := 0
	for _, cmd := range m.Step(m.now.Add(2*time.Second), Tick{}) {
		if d, ok := cmd.(Dial); ok && d.Addr == "c2" {
			dials++
		}
	}
	got := sent(m.Step(m.now, Dialed{"c2", 77}), MsgRedirect)
	if dials != 1 || len(got) != 1 || got[0].Addr != "c0" {
		t.Errorf("%d dials, then %+v (%s)", dials, got, m.coord.round.state)
	}
}

// TestDoneMembersMayComeBack checks that a stream that breaks after the node's
// workers have ended costs nothing.
func TestDoneMembersMayComeBack(t *testing.T) {
	m := runs(t, 1, 2)
	w := m.World()
	m.Step(m.now, Received{1, Message{Type: MsgDone}})
	m.Step(m.now, Closed{Conn: 1, Text: "reset"})
	hello(m, 1, 1, 2, &Last{World: w, Started: true, Done: true})
	if s := m.coord.seats.at(1); s == nil || s.state != seatDone || m.coord.round.state != roundRunning {
		t.Fatalf("%+v in phase %s", s, m.coord.round.state)
	}
	got := sent(m.Step(m.now, Done{Round: 0}), MsgFinish)
	if len(got) != 1 || got[0].Outcome.Code != 0 {
		t.Errorf("%+v", got)
	}
}

// TestStoppedCoordinatorGivesWay checks that, of two coordinators that took over at
// once, one decides for all. It learns of an order to end the job that the other one
// got.
func TestStoppedCoordinatorGivesWay(t *testing.T) {
	m := secondOfThree(t, false)
	m.Step(m.now, DialFailed{Addr: "c1", Text: "timed out"})
	if m.coord == nil || m.coord.round.state != roundRecovering {
		t.Fatal("it has not taken over")
	}
	stop := m.nodeCause(KindStopped, "")
	stop.Signal = 2
	m.Step(m.now, StopJob{Cause: stop})
	m.Step(m.now, Received{77, Message{Type: MsgRedirect, Addr: "b1", Term: m.coord.job.term}}) // before c0
	cmds := m.Step(m.now, Dialed{"b1", 78})
	failed := sent(cmds, MsgFailed)
	if len(sent(cmds, MsgHello)) != 1 || len(failed) != 1 || failed[0].Failures[0].Kind != KindStopped || m.coord != nil {
		t.Errorf("%+v, still coordinates: %v", cmds, m.coord != nil)
	}
}
