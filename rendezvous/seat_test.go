package rendezvous

import (
	"slices"
	"testing"
)

// TestImpossibleTransitions checks that they are refused, leave the state as it is
// and end the job with a cause of gorun's own.
func TestImpossibleTransitions(t *testing.T) {
	for name, move := range map[string]func(*coordinator){
		"seat":  func(c *coordinator) { c.move(c.seats.at(1), seatExpired) },
		"round": func(c *coordinator) { c.enter(roundProposing, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestJob(t, 2, 2, 3, nil)
			move(c.m.coord)
			if s := c.m.coord.seats.at(1).state; s != seatRunning || c.m.coord.round.state != roundRunning {
				t.Fatalf("the seat is %s, the round %s", s, c.m.coord.round.state)
			}
			c.step(Over{Round: 0}) // of the workers here
			if got := c.m.coord.job.outcome; got == nil || got.Cause.Kind != KindAgent {
				t.Errorf("the job ends with %+v", got)
			}
		})
	}
}

// TestEveryStateHasAName checks that each state has a name and an entry in its table.
func TestEveryStateHasAName(t *testing.T) {
	names := map[string]bool{}
	for s := seatAbsent; s <= seatStopped; s++ {
		names[s.String()] = true
		if !slices.ContainsFunc(seatTransitions[:], func(to []seatState) bool { return slices.Contains(to, s) }) {
			t.Errorf("no seat ever becomes %s", s)
		}
	}
	if len(names) != len(seatTransitions) || len(roundTransitions) != int(roundDecided)+1 {
		t.Errorf("%d seat states have a name, of %d", len(names), len(seatTransitions))
	}
}

// TestNodesThatLeaveCostLittle checks that the coordinator keeps the state of a node
// that left and no facts. Before the first world it keeps nothing.
func TestNodesThatLeaveCostLittle(t *testing.T) {
	m := coordinating(t, 2, 3)
	hello(m, 1, 1, 3, nil)
	m.Step(m.now, Closed{Conn: 1, Text: "reset"})
	if s := m.coord.seats.find("id1"); s != nil {
		t.Errorf("before the first world: %+v", s)
	}
	c := newTestJob(t, 3, 2, 4, func(cfg *Config) { cfg.MaxRestarts = 3 })
	c.receive(1, Message{Type: MsgFacts, Body: []byte(`"facts"`), Env: []byte("env")})
	c.lose(1)
	if s := c.m.coord.seats.find("id1"); s == nil || s.state != seatLost || s.facts != nil || s.env != nil || s.node.Control != "" {
		t.Errorf("of a lost member: %+v", s)
	}
}

// TestLaterWorldIsAdopted checks that a survivor reports a later world to the next
// coordinator. A node without a place in that world stops its workers and waits.
func TestLaterWorldIsAdopted(t *testing.T) {
	c := newTestJob(t, 3, 2, 4, nil)
	c.silent[2] = true
	c.m.coord.round.state = roundRecovering
	late := seatNode(3, c.most-1, c.least)
	w := newWorld([]Node{c.m.self, seatNode(1, c.most-1, c.least), late}, World{Round: 1, Job: c.m.coord.job.id})
	c.m.Step(c.now, Received{3, Message{Type: MsgHello, Node: &late, Last: &Last{World: &w, Started: true, Over: true}}})
	for id, want := range map[NodeID]seatState{"id1": seatRunning, "id2": seatClearing, "id3": seatStopped} {
		if s := c.m.coord.seats.find(id); s.state != want {
			t.Errorf("%s is %s, not %s", id, s.state, want)
		}
	}
	c.receive(2, Message{Type: MsgOver, Round: 0})
	if s := c.m.coord.seats.find("id2"); s.state != seatWaiting {
		t.Errorf("id2 is %s after its workers ended", s.state)
	}
}
