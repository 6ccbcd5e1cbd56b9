package rendezvous

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestUnconfirmedMembership checks that an agent that the fence does not confirm goes
// on while it hears the others. When it hears nothing, its workers and those of its
// members are killed.
func TestUnconfirmedMembership(t *testing.T) {
	unconfirmed, silent := Unconfirmed{On: true, Text: "no answer"}, Silence{Conn: 1, On: true}
	tests := []struct {
		name   string
		events []Event
		killed bool
	}{
		{"no stream is silent", []Event{unconfirmed}, false},
		{"silence alone", []Event{silent}, false},
		{"unconfirmed, then silence", []Event{unconfirmed, silent}, true},
		{"silence, then unconfirmed", []Event{silent, unconfirmed}, true},
		{"silence that ended", []Event{silent, Silence{Conn: 1}, unconfirmed}, false},
		{"confirmed again", []Event{unconfirmed, Unconfirmed{}, silent}, false},
		{"a spare's silence", []Event{unconfirmed, Silence{Conn: 3, On: true}}, false},
	}
	for _, tt := range tests {
		t.Run("coordinator: "+tt.name, func(t *testing.T) {
			c := newTestJob(t, 3, 3, 3, fenced)
			c.join(3)
			c.log = nil
			c.silent[Self], c.silent[2] = true, true
			for _, e := range tt.events {
				c.step(e)
			}
			c.advance(time.Second)
			stops, aborts := all[Stop](c), c.sentTo(2, MsgAbort)
			if !tt.killed {
				if len(stops)+len(aborts)+len(all[Close](c)) != 0 {
					t.Fatalf("%+v", c.log)
				}
				c.runs(0, 0, "id0 id1 id2")
				return
			}
			if n := len(stops); n == 0 || !stops[n-1].Kill {
				t.Errorf("its own workers: %+v", stops)
			}
			if n := len(aborts); n == 0 || !aborts[n-1].Kill {
				t.Errorf("the other's workers: %+v", aborts)
			}
			if !slices.Contains(all[Close](c), Close{1}) {
				t.Error("the silent stream is not closed")
			}
		})
		if strings.Contains(tt.name, "spare") {
			continue
		}
		t.Run("member: "+tt.name, func(t *testing.T) {
			m, conn := states()["working"]()
			m.cfg.Fenced = true
			var log []Command
			for _, e := range tt.events {
				if h, ok := e.(Silence); ok {
					h.Conn = conn
					e = h
				}
				log = append(log, m.Step(m.now, e)...)
			}
			stops, closes := 0, 0
			for _, cmd := range log {
				switch cmd := cmd.(type) {
				case Stop:
					stops = map[bool]int{true: 10, false: 1}[cmd.Kill]
				case Close:
					closes++
				}
			}
			if want := map[bool]int{true: 10}[tt.killed]; stops != want || closes > 0 != tt.killed {
				t.Errorf("stops %d, want %d, closed %d", stops, want, closes)
			}
		})
	}
}

// TestUnconfirmedMembershipKeepsTheGracePeriod checks that a failure unrelated to the
// membership keeps its grace period.
func TestUnconfirmedMembershipKeepsTheGracePeriod(t *testing.T) {
	c := newTestJob(t, 3, 3, 3, fenced)
	c.silent[Self], c.silent[2] = true, true
	c.step(Unconfirmed{On: true, Text: "no answer"})
	c.receive(1, Message{Type: MsgFailed, Round: 0, Failures: []Cause{{Kind: KindExit, Node: "id1", Rank: 1, ExitCode: 5}}})
	c.advance(time.Second)
	for _, s := range all[Stop](c) {
		if s.Kill {
			t.Error("its own workers are killed")
		}
	}
	for _, a := range c.sentTo(2, MsgAbort) {
		if a.Kill {
			t.Error("the other's workers are killed")
		}
	}
	if c.m.coord.round.state != roundStopping {
		t.Errorf("phase %s", c.m.coord.round.state)
	}
	c.step(Silence{Conn: 2, On: true}) // now it may be left out
	if a := c.sentTo(1, MsgAbort); len(a) == 0 || !a[len(a)-1].Kill {
		t.Errorf("a node that still runs gets %+v", a)
	}
}

// TestEndedMembership checks that a silent peer is lost as soon as its membership
// ends. A peer that sends, or is still a member, or is perhaps not shown, is not
// lost.
func TestEndedMembership(t *testing.T) {
	shown := func(whole bool, ids ...NodeID) Peers {
		p := Peers{Complete: whole}
		for _, id := range ids {
			p.All = append(p.All, Peer{ID: id, Control: "c" + string(id[2:]), Endpoint: -1})
		}
		return p
	}
	tests := []struct {
		name   string
		peers  Peers
		silent bool
		lost   bool
	}{
		{"silent and expired", shown(true, "id0", "id2"), true, true},
		{"silent and a member", shown(true, "id0", "id1", "id2"), true, false},
		{"silent, not all nodes are shown", shown(false, "id0", "id2"), true, false},
		{"not silent and expired", shown(true, "id0", "id2"), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestJob(t, 3, 2, 3, fenced)
			c.step(tt.peers)
			c.step(Silence{Conn: 1, On: tt.silent})
			if got := len(c.sentTo(2, MsgAbort)) > 0; got != tt.lost {
				t.Fatalf("lost: %v", got)
			}
			if !tt.lost {
				return
			}
			c.advance(c.m.cfg.LastCall)
			c.runs(1, 1, "id0 id2")
			if got := all[Seal](c); len(got) != 1 || len(got[0].Lost) != 0 { // it may come back before that
				t.Errorf("sealed with %+v", got)
			}
		})
	}
	m, conn := states()["working"]() // and the member whose coordinator's membership ends
	m.cfg.Fenced = true
	m.Step(m.now, Silence{Conn: conn, On: true})
	if !m.mem.link.open || m.mem.work.state != workRunning {
		t.Fatal("silence alone ends the round")
	}
	m.Step(m.now, Peers{All: []Peer{{ID: m.self.ID, Control: "c0"}}})
	if m.mem.work.state != workStopping || m.mem.work.killed {
		t.Errorf("work %d, killed %v", m.mem.work.state, m.mem.work.killed)
	}
}

// TestExpiredMembersAreNotAwaited checks that a successor does not wait for members
// whose membership has ended.
func TestExpiredMembersAreNotAwaited(t *testing.T) {
	for _, whole := range []bool{false, true} {
		m := secondOfThree(t, true)
		m.cfg.Fenced = true
		m.Step(m.now, DialFailed{Addr: "c1", Text: "timed out"})
		m.Step(m.now, Peers{All: []Peer{{ID: m.self.ID, Control: "c0"}}, Complete: whole})
		if m.coord == nil || m.coord.seats.ended("id1") != whole || m.coord.seats.ended("boss") != whole {
			t.Errorf("whole %v: %+v", whole, m.coord)
		}
		if recovered := m.coord.round.state != roundRecovering; recovered != whole {
			t.Errorf("whole %v: phase %s", whole, m.coord.round.state)
		}
	}
}

// TestVacate checks when a node reports to the fence that it is idle: at once if no
// coordinator knows it to be idle, otherwise only if the next round does not begin
// soon, and never while workers run.
func TestVacate(t *testing.T) {
	vacated := func(cmds []Command) bool {
		return slices.ContainsFunc(cmds, func(c Command) bool { _, ok := c.(Vacate); return ok })
	}
	t.Run("an orphan", func(t *testing.T) {
		m, c := states()["working"]()
		m.cfg.Fenced = true
		if vacated(m.Step(m.now, Closed{Conn: c, Text: "x"})) {
			t.Fatal("while its workers are being stopped")
		}
		if !vacated(m.Step(m.now, Over{})) {
			t.Error("not at once")
		}
	})
	t.Run("a follower", func(t *testing.T) {
		m, c := states()["working"]()
		m.cfg.Fenced = true
		m.Step(m.now, Received{c, Message{Type: MsgAbort, Cause: &Cause{Kind: KindLost}}})
		if vacated(m.Step(m.now, Over{})) {
			t.Fatal("at once")
		}
		if next := m.Next(); next.After(m.now.Add(vacateAfter)) {
			t.Errorf("it wakes at %v", next)
		}
		if !vacated(m.Step(m.now.Add(vacateAfter), Tick{})) {
			t.Error("never")
		}
		if vacated(m.Step(m.now.Add(vacateAfter), Tick{})) {
			t.Error("again")
		}
	})
	t.Run("the next round begins", func(t *testing.T) {
		m, c := states()["working"]()
		m.cfg.Fenced = true
		m.Step(m.now, Received{c, Message{Type: MsgAbort, Cause: &Cause{Kind: KindLost}}})
		m.Step(m.now, Over{})
		w := worldOf(m, 1, 1, "t")
		m.Step(m.now, Received{c, Message{Type: MsgPropose, World: w}})
		m.Step(m.now, Received{c, Message{Type: MsgCommit, Term: 1, Round: 1, Digest: w.Digest()}})
		if m.mem.work.state != workRunning || vacated(m.Step(m.now.Add(10*vacateAfter), Tick{})) {
			t.Errorf("work %d", m.mem.work.state)
		}
	})
}

// TestUnseal checks that the run id is given back when no worker of the job can live
// anywhere.
func TestUnseal(t *testing.T) {
	tests := []struct {
		name string
		end  func(*testJob)
		want bool
	}{
		{"all are done", func(c *testJob) {
			c.receive(1, Message{Type: MsgDone})
			c.receive(2, Message{Type: MsgDone})
			c.step(Done{})
		}, true},
		{"all have stopped", func(c *testJob) { c.signal(1, 2, false) }, true},
		{"one is lost", func(c *testJob) {
			c.silent[Self] = true // its workers take longer than the call that finds the other node lost
			c.lose(1)
			c.step(Over{})
		}, true},
		{"one is silent", func(c *testJob) { c.step(Closed{Conn: 1, Silent: true, Text: "silent"}) }, false},
		{"one was done and left", func(c *testJob) {
			c.receive(1, Message{Type: MsgDone})
			c.step(Closed{Conn: 1, Text: "reset"})
			c.receive(2, Message{Type: MsgDone})
			c.step(Done{})
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestJob(t, 3, 3, 3, func(cfg *Config) { cfg.Fenced, cfg.MaxRestarts = true, 0 })
			w := c.m.World()
			tt.end(c)
			if c.m.coord.round.state != roundDecided {
				t.Fatalf("phase %s", c.m.coord.round.state)
			}
			got := all[Unseal](c)
			if len(got) > 0 != tt.want || tt.want && got[0] != (Unseal{w.Job, 0}) {
				t.Errorf("%+v", got)
			}
		})
	}
}
