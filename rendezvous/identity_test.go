package rendezvous

import "testing"

func TestIdentity(t *testing.T) {
	mine, other := NewIdentity(), NewIdentity()
	proof := mine.Prove("nonce")
	if len(mine.ID()) != 16 || !proof.Shows(mine.ID(), "nonce") {
		t.Errorf("%s is not shown", mine.ID())
	}
	cut := *proof
	cut.Key = cut.Key[1:]
	for name, shown := range map[string]bool{
		"another id":    proof.Shows(other.ID(), "nonce"),
		"another nonce": proof.Shows(mine.ID(), "nonce2"),
		"another key":   (&Proof{other.Prove("nonce").Key, proof.Signature}).Shows(mine.ID(), "nonce"),
		"half a key":    cut.Shows(mine.ID(), "nonce"),
		"no proof":      (*Proof)(nil).Shows(mine.ID(), "nonce"),
		"no nonce":      mine.Prove("").Shows(mine.ID(), ""),
	} {
		if shown {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestSeatsAreNotTaken checks that only the node itself takes its seat anew, at a
// coordinator that saw it come and at a successor that knows its id from the world.
func TestSeatsAreNotTaken(t *testing.T) {
	claim := func(m *Machine, conn Conn, proven bool) (answers []Message) {
		node := seatNode(1, 2, 2)
		node.Proven = proven
		return sent(m.Step(m.now, Received{conn, Message{Type: MsgHello, Node: &node}}), MsgRefuse)
	}
	tests := map[string]func() *Machine{
		"running": func() *Machine {
			m := runs(t, 2, 2)
			m.cfg.Proofs = true
			return m
		},
		"taken over": func() *Machine {
			m := secondOfThree(t, false)
			m.cfg.Proofs = true
			m.Step(m.now, DialFailed{Addr: "c1", Refused: true, Text: "refused"})
			if m.coord == nil {
				t.Fatal("it does not coordinate")
			}
			return m
		},
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			m := make()
			seats := len(m.coord.seats.here)
			if answers := claim(m, 7, false); len(answers) != 1 || len(m.coord.seats.here) != seats || m.coord.seats.at(7) != nil {
				t.Errorf("another agent has the seat, or gets no answer: %v", answers)
			}
		})
	}
	m := tests["running"]()
	if answers := claim(m, 7, true); len(answers) != 0 || m.coord.seats.at(7) == nil || m.coord.seats.at(1) != nil {
		t.Errorf("the node itself does not get its seat: %v", answers)
	}
}
