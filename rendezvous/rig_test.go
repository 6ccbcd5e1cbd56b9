package rendezvous

import (
	"fmt"
	"testing"
	"time"
)

// sent returns the messages of one type among commands.
func sent(cmds []Command, t Type) (out []Message) {
	for _, c := range cmds {
		if s, ok := c.(Send); ok && s.Msg.Type == t {
			out = append(out, s.Msg)
		}
	}
	return out
}

func worldOf(m *Machine, term, round int, token string) *World {
	w := newWorld([]Node{m.self, {ID: "boss", RunID: "r", Control: "c9", Workers: 1}}, World{Term: term, Round: round, Coordinator: "boss", Token: token})
	return &w
}

// simTimeouts are the Timeouts of most machines in tests.
var simTimeouts = Timeouts{Join: time.Minute, LastCall: time.Second, Rejoin: 5 * time.Second, Retry: 50 * time.Millisecond}

// coordinating returns a coordinator with seats for n members, at conns 1 to n.
func coordinating(t *testing.T, n, least int) *Machine {
	t.Helper()
	now := time.Unix(0, 0)
	m := New(Config{
		Self: seatNode(0, n, least), MaxRestarts: 3, Endpoints: 1, Where: "here", Takeover: true,
		Timeouts: simTimeouts, Token: func() string { return "t" },
	}, now)
	m.Step(now, Ready{})
	m.Step(now, Peers{All: []Peer{{ID: "id0", Control: "c0", Endpoint: 0}}})
	return m
}

func seatNode(i, n, least int) Node {
	ep := -1
	if i == 0 {
		ep = 0
	}
	return Node{
		ID: NodeID(fmt.Sprint("id", i)), RunID: "r", Protocol: Protocol, Host: fmt.Sprint("n", i), Control: fmt.Sprint("c", i),
		Store: fmt.Sprint("s", i), Workers: 1, NodeRank: -1, Endpoint: ep, Min: least, Max: n + 1,
	}
}

func hello(m *Machine, i, n, least int, last *Last) []Command {
	node := seatNode(i, n, least)
	return m.Step(m.now, Received{Conn(i), Message{Type: MsgHello, Node: &node, Last: last}})
}

// runs brings all n members and their coordinator into a round.
func runs(t *testing.T, n, least int) *Machine {
	t.Helper()
	m := coordinating(t, n, least)
	var cmds []Command
	for i := range n {
		cmds = hello(m, i+1, n, least, nil)
	}
	acceptAll(t, m, cmds)
	if m.World() == nil {
		t.Fatal("the round did not start")
	}
	return m
}

func acceptAll(t *testing.T, m *Machine, cmds []Command) {
	t.Helper()
	for _, c := range cmds {
		if s, ok := c.(Send); ok && s.Msg.Type == MsgPropose {
			w := s.Msg.World
			m.Step(m.now, Received{s.Conn, Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()}})
		}
	}
}

// secondOfThree makes the machine the second of three members whose coordinator, the last
// one, is lost. The first one is asked now.
func secondOfThree(t *testing.T, silent bool) *Machine {
	t.Helper()
	m, c := states()["member"]()
	w := newWorld([]Node{seatNode(1, 3, 1), m.self, {ID: "boss", RunID: "r", Control: "c9", Workers: 1}}, World{Term: 1, Coordinator: "boss"})
	m.Step(m.now, Received{c, Message{Type: MsgPropose, World: &w}})
	m.Step(m.now, Received{c, Message{Type: MsgCommit, Term: 1, Digest: w.Digest()}})
	m.Step(m.now, Done{Round: 0})
	m.Step(m.now, Closed{Conn: c, Silent: silent, Text: "x"})
	m.Step(m.now, DialFailed{Addr: "c9", Refused: true, Text: "refused"})
	if m.mem.link.dialing != "c1" {
		t.Fatalf("dialing %q, not the first of those that are left", m.mem.link.dialing)
	}
	return m
}
