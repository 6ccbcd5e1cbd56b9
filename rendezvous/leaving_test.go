package rendezvous

import (
	"syscall"
	"testing"
	"time"
)

// TestLeaving checks what a signal to one node does to an elastic job.
func TestLeaving(t *testing.T) {
	const term, intr = syscall.SIGTERM, syscall.SIGINT
	tests := []struct {
		name           string
		n, least, most int
		sig            syscall.Signal
		kill           bool
		leaves         bool
	}{
		{"enough are left", 3, 2, 4, term, false, true},
		{"too few are left", 3, 3, 4, term, false, false},
		{"a job of a fixed size", 3, 3, 3, term, false, false},
		{"SIGINT", 3, 1, 4, intr, false, false},
		{"killed", 3, 1, 4, term, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestJob(t, tt.n, tt.least, tt.most, func(cfg *Config) { cfg.MaxRestarts = 0 })
			c.signal(1, tt.sig, tt.kill)
			if !tt.leaves {
				c.ended(128+int(tt.sig), 1, 2)
				if c.m.coord.job.outcome.OnlyThisNode {
					t.Error("the others would take it for their own")
				}
				return
			}
			if got := c.sentTo(1, MsgFinish); len(got) != 1 || got[0].Outcome.Code != 143 || !got[0].Outcome.OnlyThisNode || got[0].Outcome.Cause.Kind != KindStopped {
				t.Errorf("it gets %+v", got)
			}
			c.advance(c.m.cfg.LastCall)
			c.runs(1, 0, "id0 id2")
			if len(c.sentTo(2, MsgFinish)) != 0 {
				t.Error("another one ends, too")
			}
			if r := c.m.coord.job.records; len(r) != 1 || r[0].Cause.Kind != KindLeft || r[0].Cause.Node != "id1" {
				t.Errorf("recorded: %+v", r)
			}
			c.signal(2, term, false) // now it would be below its minimum
			c.ended(143, 2)
		})
	}
}

func TestLeavingNodeIsLostOrKilled(t *testing.T) {
	for name, more := range map[string]func(*testJob){
		"dies":                 func(c *testJob) { c.lose(1) },
		"falls silent":         func(c *testJob) { c.step(Closed{Conn: 1, Silent: true, Text: "silent"}) },
		"gets a second signal": func(c *testJob) { c.signal(1, syscall.SIGINT, true); c.receive(1, Message{Type: MsgOver, Round: 0}) },
		"sends the signal again": func(c *testJob) {
			c.receive(1, Message{Type: MsgOver, Round: 0, Failures: []Cause{{Kind: KindStopped, Node: "id1", Rank: -1, Signal: 15}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestJob(t, 3, 1, 4, func(cfg *Config) { cfg.MaxRestarts = 0 })
			c.silent[1] = true
			c.signal(1, syscall.SIGTERM, false)
			if c.m.coord.round.state != roundStopping {
				t.Fatalf("phase %s", c.m.coord.round.state)
			}
			more(c)
			c.advance(c.m.cfg.LastCall)
			c.runs(1, 0, "id0 id2")
		})
	}
}

// TestNodeLeavesBetweenRounds checks that a node that leaves while the next world forms
// may go at once, and is in no world that starts.
func TestNodeLeavesBetweenRounds(t *testing.T) {
	for _, offered := range []bool{false, true} {
		c := newTestJob(t, 4, 2, 5, nil)
		c.lose(3)
		if offered {
			c.silent[2] = true
			c.advance(c.m.cfg.LastCall)
		}
		want := map[bool]roundState{false: roundForming, true: roundProposing}[offered]
		if c.m.coord.round.state != want {
			t.Fatalf("phase %s, want %s", c.m.coord.round.state, want)
		}
		c.silent[2] = false
		c.signal(1, syscall.SIGTERM, false)
		if got := c.sentTo(1, MsgFinish); len(got) != 1 || got[0].Outcome.Code != 143 {
			t.Fatalf("%s: it gets %+v", want, got)
		}
		c.advance(c.m.cfg.LastCall)
		c.advance(c.m.cfg.LastCall)
		if w := c.m.World(); c.members() != "id0 id2" || w.Restart != 1 || w.Round == 0 {
			t.Errorf("%s: round %d, restart %d of %s", want, w.Round, w.Restart, c.members())
		}
	}
}

// TestNodeLeavesAfterOthersWereDone checks that a node that was done with the last round
// is one of the nodes that the next round can have.
func TestNodeLeavesAfterOthersWereDone(t *testing.T) {
	c := newTestJob(t, 4, 2, 5, nil)
	c.receive(2, Message{Type: MsgDone, Round: c.m.World().Round})
	c.lose(3)
	c.signal(1, syscall.SIGTERM, false)
	c.advance(c.m.cfg.LastCall)
	c.runs(1, 1, "id0 id2")
}

// TestCoordinatorLeaves checks that a leaving coordinator ends with 143 after the
// round, and that all members of the round learn which one to form next.
func TestCoordinatorLeaves(t *testing.T) {
	c := newTestJob(t, 3, 2, 3, nil)
	w := *c.m.World()
	c.join(3) // a spare
	c.signal(0, syscall.SIGTERM, false)
	for i := range 3 {
		if got := c.sentTo(i+1, MsgHandover); len(got) != 1 || got[0].Round != 1 || got[0].Restart != 0 || got[0].Digest != w.Digest() {
			t.Errorf("member %d gets %+v", i+1, got)
		}
	}
	if got := all[Finish](c); len(got) != 1 || got[0].Outcome.Code != 143 {
		t.Errorf("it ends with %+v", got)
	}
}

// TestCoordinatorWithoutASuccessor checks that a spare has no world to go on from.
func TestCoordinatorWithoutASuccessor(t *testing.T) {
	c := newTestJob(t, 1, 1, 2, nil)
	c.join(1)
	c.signal(0, syscall.SIGTERM, false)
	c.ended(143, 1)
}

// TestHandover checks that the first member in line forms the next round at once. A
// node without a place in the last world waits to be called, however long it has
// waited.
func TestHandover(t *testing.T) {
	handover := func(m *Machine, c Conn, digest string) []Command {
		m.Step(m.now, Received{c, Message{Type: MsgAbort, Round: m.World().Round, Cause: &Cause{Kind: KindLeft}}})
		m.Step(m.now, Over{Round: m.World().Round})
		return m.Step(m.now, Received{c, Message{Type: MsgHandover, Round: 7, Restart: 2, Digest: digest}})
	}
	m, c := states()["working"]()
	handover(m, c, m.World().Digest())
	if m.coord == nil || m.coord.round.state != roundForming || m.coord.job.round != 7 || m.coord.job.restart != 2 || !m.coord.seats.ended("boss") {
		t.Fatalf("it does not take over: %+v", m.coord)
	}
	for name, place := range map[string]func() (*Machine, Conn){
		"never had a place": states()["member"],
		"had a place earlier": func() (*Machine, Conn) {
			m, c := states()["working"]()
			m.Step(m.now, Received{c, Message{Type: MsgAbort, Cause: &Cause{Kind: KindLost}}})
			m.Step(m.now, Over{})
			return m, c
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, c := place()
			m.Step(m.now.Add(2*m.cfg.Join), Received{c, Message{Type: MsgStatus, Status: &Status{Phase: "running", Members: 2}}})
			m.Step(m.now, Received{c, Message{Type: MsgHandover, Round: 7, Restart: 2, Digest: "of the last one"}})
			m.Step(m.now.Add(m.cfg.Rejoin+time.Second), Tick{})
			if m.ended || m.coord != nil {
				t.Fatalf("ended %v, coordinates %v", m.ended, m.coord != nil)
			}
			m.Step(m.now, DialFailed{Addr: m.mem.link.dialing, Refused: true})
			m.Step(m.now, Received{33, Message{Type: MsgRedirect, Addr: "c5", Term: 2}})
			if m.mem.link.dialing != "c5" {
				t.Errorf("it does not answer the call (dialing %q)", m.mem.link.dialing)
			}
		})
	}
}

// TestSpareOutlivesTheCoordinator checks a spare whose own join time-out has long
// passed when the coordinator is lost. It waits for the next coordinator and makes no
// world of its own.
func TestSpareOutlivesTheCoordinator(t *testing.T) {
	m, c := states()["member"]()
	m.Step(m.now.Add(time.Second), Received{c, Message{Type: MsgStatus, Status: &Status{Phase: "running", Members: 2}}})
	m.Step(m.now.Add(time.Hour), Closed{Conn: c, Text: "reset"})
	m.Step(m.now, DialFailed{Addr: "c9", Refused: true})
	m.Step(m.now, Peers{All: []Peer{{ID: m.self.ID, Control: m.self.Control, Endpoint: 0}}})
	m.Step(m.now.Add(m.cfg.Rejoin), Tick{})
	if m.ended || m.coord != nil {
		t.Fatalf("ended %v, coordinates %v", m.ended, m.coord != nil)
	}
	for m.mem.end.finishBy.IsZero() && !m.ended {
		next := m.Next()
		if next.IsZero() {
			t.Fatal("it waits for ever")
		}
		m.Step(next, Tick{})
	}
	if got := m.now.Sub(time.Unix(3601, 0)); got != m.cfg.Join {
		t.Errorf("it gave up after %v", got)
	}
}
