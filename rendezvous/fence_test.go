package rendezvous

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// newSealing brings a job of three nodes, one of which is lost, and with one more that
// waits, to the point where its next world is to be sealed.
func newSealing(t *testing.T) (*testJob, Seal) {
	t.Helper()
	c := newTestJob(t, 3, 3, 3, fenced)
	first := c.members()
	c.join(3)
	c.join(4)
	c.seals, c.log = false, nil
	c.lose(2)
	got := all[Seal](c)
	if len(got) != 2 || c.m.coord.round.state != roundSealing || first != "id0 id1 id2" {
		t.Fatalf("%d seals, phase %s", len(got), c.m.coord.round.state)
	}
	c.log = nil // the loss of member 2 was known a moment after the first Seal, so there is a second Seal
	return c, got[1]
}

func committed(c *testJob) bool { return len(c.sentTo(1, MsgCommit)) > 0 }

// TestSealComesFirst checks that nothing starts without the fence's word, although
// all members have accepted, and that only its word on this very world counts.
func TestSealComesFirst(t *testing.T) {
	c, cmd := newSealing(t)
	if committed(c) || c.m.mem.work.state != workIdle {
		t.Fatal("it starts unsealed")
	}
	if !cmd.Later || cmd.World.Digest() != c.m.coord.round.digest || !slices.Equal(cmd.Here, []NodeID{"id4"}) || !slices.Equal(cmd.Lost, []NodeID{"id2"}) || len(all[GiveUp](c)) != 0 {
		t.Errorf("it asks for %+v", cmd)
	}
	c.step(Sealed{Serial: cmd.Serial - 1, OK: true})
	c.step(Sealed{Serial: cmd.Serial - 1, Refused: true})
	if committed(c) || c.m.coord.round.state != roundSealing {
		t.Fatal("another seal's answer counts")
	}
	c.step(Sealed{Serial: cmd.Serial, OK: true})
	if !committed(c) || len(all[GiveUp](c)) != 0 {
		t.Error("it does not start")
	}
	if st := c.sentTo(4, MsgStatus); len(st) != 1 || st[0].Status.Phase != "running" {
		t.Errorf("a node without a place gets %+v", st)
	}
	c.runs(1, 1, "id0 id1 id3")
}

// TestLostNodeIsNamedToTheFence checks a lost node that the fence does not show. The
// fence's view may be late, so the node may still have a membership. Its loss is known,
// and the fence learns of it.
func TestLostNodeIsNamedToTheFence(t *testing.T) {
	c := newTestJob(t, 3, 3, 3, fenced)
	c.join(3)
	c.step(Peers{All: []Peer{c.m.peers.all[0]}, Complete: true})
	c.seals, c.log = false, nil
	c.lose(2)
	got := all[Seal](c)
	if len(got) == 0 || !slices.Equal(got[len(got)-1].Lost, []NodeID{"id2"}) {
		t.Errorf("%+v", got)
	}
}

func TestFirstSealIsNotLater(t *testing.T) {
	m := coordinating(t, 1, 2)
	m.cfg.Fenced = true
	c := &testJob{t: t, m: m, now: m.now, least: 2, most: 2, silent: map[Conn]bool{}}
	c.join(1)
	if got := all[Seal](c); len(got) != 1 || got[0].Later || len(all[Lead](c)) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestSealThatIsGivenUp checks that the round is burnt and the next one asked for.
// The fence's answer to the earlier Seal does not count any more.
func TestSealThatIsGivenUp(t *testing.T) {
	for name, end := range map[string]func(*testJob, Seal){
		"by the fence":    func(c *testJob, s Seal) { c.step(Sealed{Serial: s.Serial, Text: "no"}) },
		"a member leaves": func(c *testJob, _ Seal) { c.step(Closed{Conn: 3, Text: "reset"}) },
		"it was stopped":  func(c *testJob, _ Seal) { c.advance(10 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			c, old := newSealing(t)
			end(c, old)
			got := all[Seal](c)
			if len(got) != 1 || got[0].World.Round <= old.World.Round || got[0].Serial == old.Serial {
				t.Fatalf("it asks for %+v", got)
			}
			if len(all[GiveUp](c)) != 1 {
				t.Error("the earlier one goes on")
			}
			c.step(Sealed{Serial: old.Serial, OK: true})
			if committed(c) {
				t.Fatal("the late answer starts a world")
			}
			c.step(Sealed{Serial: got[0].Serial, OK: true})
			if w := c.m.World(); !committed(c) || w.Digest() != got[0].World.Digest() {
				t.Error("the later one does not start")
			}
		})
	}
}

// TestRefusedCoordinatorFollows checks that a refused coordinator follows, with all its
// members, the coordinator that the fence names. If that coordinator is lost it tries
// again, with a later round.
func TestRefusedCoordinatorFollows(t *testing.T) {
	there := func(c *testJob, addrs ...string) Peers {
		p := Peers{Complete: true}
		for _, a := range addrs {
			p.All = append(p.All, Peer{ID: NodeID("id" + a[1:]), Control: a, Endpoint: -1})
		}
		return p
	}
	for _, lost := range []bool{false, true} {
		c, cmd := newSealing(t)
		c.step(there(c, "c0", "c1", "c3", "c4", "c7"))
		c.step(Sealed{Serial: cmd.Serial, Refused: true, Text: "c7 has sealed round 5"})
		if !strings.Contains(c.notes(), "c7 has sealed round 5") || len(all[Seal](c)) != 0 || c.m.coord.round.state != roundForming {
			t.Fatalf("phase %s, %s", c.m.coord.round.state, c.notes())
		}
		c.step(Elsewhere{Job: cmd.World.Job, Term: 4, Round: 5, Members: []NodeID{"id7"}, Control: "c7"})
		if d := all[Dial](c); !slices.Contains(d, Dial{"c7"}) {
			t.Fatalf("it dials %+v", d)
		}
		if !lost {
			c.step(Dialed{"c7", 70})
			if c.m.coord != nil || len(c.sentTo(70, MsgHello)) != 1 {
				t.Error("it does not follow")
			}
			if r := c.sentTo(1, MsgRedirect); len(r) != 1 || r[0].Addr != "c7" {
				t.Errorf("its members get %+v", r)
			}
			continue
		}
		c.step(DialFailed{Addr: "c7", Text: "timed out"})
		c.advance(time.Second)
		if len(all[Seal](c)) != 0 {
			t.Fatal("it tries again while the other one may live")
		}
		c.step(DialFailed{Addr: "c7", Text: "timed out"})
		c.step(there(c, "c0", "c1", "c3", "c4"))
		got := all[Seal](c)
		if len(got) != 1 || got[0].World.Round != 6 || got[0].World.Term < 4 {
			t.Errorf("then it asks for %+v", got)
		}
	}
}

// TestYieldingEndsTheSeal checks a first coordinator that learns while it seals that
// it is not the first.
func TestYieldingEndsTheSeal(t *testing.T) {
	m := coordinating(t, 1, 2)
	m.cfg.Fenced = true
	c := &testJob{t: t, m: m, now: m.now, least: 2, most: 2, silent: map[Conn]bool{}}
	c.join(1)
	if m.coord.round.state != roundSealing {
		t.Fatalf("phase %s", m.coord.round.state)
	}
	c.step(Elsewhere{Job: "other", Term: 1, Control: "c7"})
	c.step(Dialed{"c7", 70})
	if m.coord != nil || len(all[GiveUp](c)) != 1 || len(c.sentTo(70, MsgHello)) != 1 {
		t.Errorf("coordinates %v, %+v", m.coord != nil, c.log)
	}
}

// TestOldElsewhereIsIgnored checks that an Elsewhere that the machine knows already, or
// cannot use, changes nothing.
func TestOldElsewhereIsIgnored(t *testing.T) {
	for name, e := range map[string]Elsewhere{
		"its own":           {Term: 9, Round: 9, Control: "c0"},
		"another job":       {Job: "x", Term: 9, Round: 9, Control: "c7"},
		"an earlier round":  {Term: 1, Round: -1, Control: "c7"},
		"an earlier term":   {Term: 0, Round: 9, Control: "c7"},
		"the same":          {Term: 1, Round: 0, Control: "c7"},
		"an unusable place": {Term: 9, Round: 9, Control: "\x1b[2J"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestJob(t, 2, 2, 2, fenced)
			if e.Job == "" {
				e.Job = c.m.World().Job
			}
			c.step(e)
			c.advance(time.Second)
			if c.m.leader() != "" || len(all[Dial](c)) != 0 {
				t.Errorf("it looks for %q", c.m.leader())
			}
			c.runs(0, 0, "id0 id1")
		})
	}
}

// TestJobThatHasEnded checks that such a job is not run again.
func TestJobThatHasEnded(t *testing.T) {
	c, cmd := newSealing(t)
	c.step(Sealed{Serial: cmd.Serial, Refused: true, Ended: true, Text: "no record"})
	c.ended(ExitRendezvous, 1, 3, 4)
	if why := c.m.coord.job.outcome.Cause.Message; !strings.Contains(why, "no record") {
		t.Errorf("it says %q", why)
	}
	if len(all[Unseal](c)) != 0 {
		t.Error("it gives back what is not its own")
	}
}

// TestJoinTimeoutWhileSealing checks that the cause names what the seal waits for, as
// the status does.
func TestJoinTimeoutWhileSealing(t *testing.T) {
	c, cmd := newSealing(t)
	c.step(Waiting{cmd.Serial - 1, "nonsense"})
	c.step(Waiting{cmd.Serial, "n9 must stop its workers"})
	if st := c.m.coord.status(); st.Phase != "sealing" || st.Note != "n9 must stop its workers" {
		t.Errorf("status %+v", st)
	}
	for left := c.m.cfg.Join; left >= 0 && c.m.coord.round.state != roundDecided; left -= statusEvery {
		c.advance(statusEvery)
	}
	c.ended(ExitRendezvous, 1)
	if why := c.m.coord.job.outcome.Cause.Message; !strings.Contains(why, ": n9 must stop its workers") {
		t.Errorf("it says %q", why)
	}
	if len(all[GiveUp](c)) == 0 && len(all[Unseal](c)) == 0 {
		t.Error("the seal goes on")
	}
}
