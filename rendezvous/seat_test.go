package rendezvous

import (
	"slices"
	"testing"
)

// TestImpossibleTransitions are refused, leave the state as it is and end the job
// with a cause of gorun's own.
func TestImpossibleTransitions(t *testing.T) {
	for name, move := range map[string]func(*coordinator){
		"seat":  func(c *coordinator) { c.move(c.seats.at(1), seatExpired) },
		"round": func(c *coordinator) { c.enter(roundProposing, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCast(t, 2, 2, 3, nil)
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

// TestEveryStateIsKnown: each state has a name and an entry in its table.
func TestEveryStateIsKnown(t *testing.T) {
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

// TestNodesThatLeaveCostLittle: of a node that left, the coordinator keeps its state
// and no facts; before the first world it keeps nothing.
func TestNodesThatLeaveCostLittle(t *testing.T) {
	m := boss(t, 2, 3)
	hello(m, 1, 1, 3, nil)
	m.Step(m.now, Closed{Conn: 1, Text: "reset"})
	if s := m.coord.seats.find("id1"); s != nil {
		t.Errorf("before the first world: %+v", s)
	}
	c := newCast(t, 3, 2, 4, func(cfg *Config) { cfg.MaxRestarts = 3 })
	c.says(1, Message{Type: MsgFacts, Body: []byte(`"facts"`), Env: []byte("env")})
	c.dies(1)
	if s := c.m.coord.seats.find("id1"); s == nil || s.state != seatLost || s.facts != nil || s.env != nil || s.node.Control != "" {
		t.Errorf("of a lost member: %+v", s)
	}
}
