package rendezvous

import (
	"slices"
	"strings"
	"testing"
)

// TestSpareTakesALostPlaceAtOnce checks that a spare needs no last call, and that its
// status says meanwhile what it waits for.
func TestSpareTakesALostPlaceAtOnce(t *testing.T) {
	c := newTestJob(t, 3, 3, 3, nil)
	c.join(3)
	if len(c.sentTo(3, MsgRefuse)) != 0 || !strings.Contains(c.notes(), "hot spare") || c.standing("id3") != NodeSpare {
		t.Fatalf("it is no spare (%s; %s)", c.notes(), c.standing("id3"))
	}
	c.advance(statusEvery)
	if got := c.sentTo(3, MsgStatus); len(got) == 0 || got[0].Status.Phase != "running" || got[0].Status.Members != 3 {
		t.Errorf("it gets %+v", got)
	}
	c.runs(0, 0, "id0 id1 id2")
	c.lose(1)
	c.runs(1, 1, "id0 id3 id2")
}

// TestUnfitSpareIsDismissed checks that an unfit spare costs the job nothing, whether
// the job could grow or not.
func TestUnfitSpareIsDismissed(t *testing.T) {
	c := newTestJob(t, 2, 1, 4, elastic)
	c.m.cfg.Check = true
	c.join(2)
	asked := all[Compare](c)
	if len(asked) != 1 || !asked[0].WorldRuns {
		t.Fatalf("asked: %+v", asked)
	}
	c.advance(10 * c.m.cfg.LastCall)
	c.runs(0, 0, "id0 id1") // it was not compared yet
	c.step(Compared{Serial: asked[0].Serial, Outcome: &Outcome{Code: ExitPreflight}})
	if got := c.sentTo(2, MsgFinish); len(got) != 1 || got[0].Outcome.Code != ExitPreflight || c.standing("id2") != "" {
		t.Errorf("it gets %+v", got)
	}
	c.advance(10 * c.m.cfg.LastCall)
	c.runs(0, 0, "id0 id1")
}

// TestLateCheckResultDoesNotDismissMembers checks what happens when the result for a
// newcomer comes after it got a place. A world that is offered does not start without
// it.
func TestLateCheckResultDoesNotDismissMembers(t *testing.T) {
	t.Run("its world is being offered", func(t *testing.T) {
		c := newTestJob(t, 3, 2, 3, nil)
		c.m.cfg.Check = true
		c.join(3)
		late := all[Compare](c)[0]
		c.m.cfg.Check = false
		c.silent[2] = true
		c.lose(1)
		c.receive(2, Message{Type: MsgOver, Round: 0})
		if c.m.coord.round.state != roundProposing || c.m.coord.round.world.Index("id3") < 0 {
			t.Fatalf("phase %s", c.m.coord.round.state)
		}
		c.silent[2] = false
		c.step(Compared{Serial: late.Serial, Outcome: &Outcome{Code: ExitPreflight}})
		c.advance(c.m.cfg.LastCall)
		if w := c.m.World(); w.Round < 2 || w.Index("id3") >= 0 {
			t.Errorf("round %d of %s", w.Round, c.members())
		}
	})
	t.Run("its workers are being stopped", func(t *testing.T) {
		c := newTestJob(t, 3, 2, 3, nil)
		c.m.cfg.Check = true
		c.join(3)
		late := all[Compare](c)[0]
		c.m.cfg.Check = false
		c.lose(1)
		c.runs(1, 1, "id0 id3 id2")
		c.silent[3] = true
		c.lose(2)
		c.step(Compared{Serial: late.Serial, Outcome: &Outcome{Code: ExitPreflight}})
		if c.m.coord.round.state != roundStopping || len(c.sentTo(3, MsgFinish)) != 0 {
			t.Errorf("%s, with %+v for it", c.m.coord.round.state, c.sentTo(3, MsgFinish))
		}
	})
}

// TestGrowth checks when an elastic job takes in newcomers.
func TestGrowth(t *testing.T) {
	tests := []struct {
		name        string
		n, most     int
		come        int
		wait        bool // --on-join=wait
		done        bool // a member's workers have ended
		atOnce, yet bool
	}{
		{name: "the job can be full", n: 2, most: 3, come: 1, atOnce: true, yet: true},
		{name: "more than it can take", n: 2, most: 3, come: 3, atOnce: true, yet: true},
		{name: "others may follow", n: 2, most: 5, come: 1, yet: true},
		{name: "it shall not grow", n: 2, most: 3, come: 1, wait: true},
		{name: "it is about to end", n: 2, most: 3, come: 1, done: true},
		{name: "it is full", n: 3, most: 3, come: 1},
		{name: "no node came", n: 2, most: 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestJob(t, tt.n, 1, tt.most, func(cfg *Config) { cfg.Grow, cfg.MaxRestarts = !tt.wait, 0 })
			before := c.members()
			if tt.done {
				c.receive(1, Message{Type: MsgDone, Round: 0})
			}
			for i := range tt.come {
				c.join(tt.n + i)
			}
			if got := c.m.World().Round == 1; got != tt.atOnce {
				t.Fatalf("grown at once: %v", got)
			}
			if next := c.m.Next(); tt.yet && !tt.atOnce && next.After(c.m.now.Add(c.m.cfg.LastCall)) {
				t.Errorf("it does not ask for the end of the last call (%v)", next)
			}
			c.advance(c.m.cfg.LastCall - 1)
			if got := c.m.World().Round == 1; got != tt.atOnce {
				t.Fatalf("grown before the last call has ended: %v", got)
			}
			c.advance(1)
			c.advance(c.m.cfg.LastCall) // of the next round, for still more
			w := c.m.World()
			if !tt.yet {
				c.runs(0, 0, before)
				return
			}
			if w.Round != 1 || w.Restart != 0 || len(w.Members) != min(tt.most, tt.n+tt.come) || !strings.HasPrefix(c.members(), before) {
				t.Errorf("round %d, restart %d of %s, before %s", w.Round, w.Restart, c.members(), before)
			}
			if r := c.m.coord.job.records; len(r) != 1 || r[0].Cause.Kind != KindJoined {
				t.Errorf("recorded: %+v", r)
			}
		})
	}
}

// TestFailureWhileGrowing checks that a failure during growth counts, because the
// round ended by it, too.
func TestFailureWhileGrowing(t *testing.T) {
	c := newTestJob(t, 2, 1, 3, elastic)
	c.silent[1] = true
	c.join(2)
	c.receive(1, Message{Type: MsgFailed, Round: 0, Failures: []Cause{{Kind: KindExit, Node: "id1", Rank: 1, ExitCode: 5}}})
	c.silent[1] = false
	c.receive(1, Message{Type: MsgOver, Round: 0})
	c.runs(1, 1, "id0 id1 id2")
}

// TestFirstWorldHasTheEndpoints checks that the nodes left out could not make another
// world.
func TestFirstWorldHasTheEndpoints(t *testing.T) {
	m := coordinating(t, 2, 3)
	m.cfg.Endpoints = 3
	var cmds []Command
	for i, endpoint := range []int{-1, -1, 1} { // three places for four nodes
		node := seatNode(i+1, 2, 3)
		node.Endpoint = endpoint
		cmds = append(cmds, m.Step(m.now, Received{Conn(i + 1), Message{Type: MsgHello, Node: &node}})...)
	}
	got := sent(cmds, MsgPropose)
	if len(got) == 0 {
		t.Fatal("nothing is proposed")
	}
	if w := got[len(got)-1].World; w.Index("id0") < 0 || w.Index("id3") < 0 {
		t.Errorf("%+v", w.Members)
	}
}

// TestFirstWorldOfANameOfSeveralNodes checks how many nodes the first world needs where
// a name stands for several nodes, so that no two first worlds are disjoint.
func TestFirstWorldOfANameOfSeveralNodes(t *testing.T) {
	for _, tt := range []struct{ least, most, candidates, need int }{
		{1, 4, 0, 1}, // the endpoint is one node
		{1, 4, 1, 3}, // it may become several
		{1, 4, 4, 3},
		{1, 4, 6, 4},
		{2, 3, 3, 2},
		{3, 4, 4, 3},
		{4, 4, 1, 4},
		{4, 4, 7, 4},
		{2, 2, 4, 3}, // two spares could make a world of their own
	} {
		m := coordinating(t, tt.most-1, tt.least)
		show := Peers{All: []Peer{{ID: "id0", Control: "c0", Endpoint: 0}}, Candidates: tt.candidates}
		if m.World() != nil {
			t.Fatalf("%+v: it started before it knew the candidates", tt)
		}
		cmds := m.Step(m.now, show)
		here := 1
		cmds = append(cmds, m.Step(m.now.Add(2*simTimeouts.LastCall), Tick{})...)
		for ; len(sent(cmds, MsgPropose)) == 0 && m.coord.round.state == roundForming && here < 8; here++ {
			node := seatNode(here, tt.most-1, tt.least)
			cmds = append(cmds, m.Step(m.now, Received{Conn(here), Message{Type: MsgHello, Node: &node}})...)
			cmds = append(cmds, m.Step(m.now.Add(2*simTimeouts.LastCall), Tick{})...)
		}
		if here != tt.need {
			t.Errorf("%+v: it needs %d nodes", tt, here)
		}
	}
}

// TestServersOfANameAreInTheOrderOfTheirAddresses checks which agent coordinates where
// several agents serve one name.
func TestServersOfANameAreInTheOrderOfTheirAddresses(t *testing.T) {
	m := coordinating(t, 1, 1)
	m.peers.all = []Peer{
		{ID: "a", Control: "10.0.0.10:1", Endpoint: 0},
		{ID: "b", Control: "10.0.0.9:7", Endpoint: 0},
		{ID: "c", Control: "10.0.0.1:1", Endpoint: 1},
		{ID: "d", Control: "10.0.0.2:1", Endpoint: -1},
	}
	var got []NodeID
	for _, p := range m.servers() {
		got = append(got, p.ID)
	}
	if want := []NodeID{"b", "a", "c"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLateServerCounts checks that a node counts for its endpoint if the backend says
// so, although the node did not know it when it joined.
func TestLateServerCounts(t *testing.T) {
	m := coordinating(t, 2, 2)
	m.cfg.Endpoints = 3
	node := seatNode(1, 2, 2)
	m.Step(m.now, Received{1, Message{Type: MsgHello, Node: &node}})
	if m.coord.quorumProblem() == "" {
		t.Fatal("one of three endpoints is enough")
	}
	m.Step(m.now, Peers{All: []Peer{{ID: "id0", Control: "c0", Endpoint: 0}, {ID: "id1", Control: "c1", Endpoint: 2}}})
	if why := m.coord.quorumProblem(); why != "" {
		t.Error(why)
	}
}
