package rendezvous

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostile are messages that no agent sends.
func hostile() []Message {
	many := make([]Member, MaxNodes+1)
	w := func(ms ...Member) *World { return &World{RunID: "r", Term: 1, Members: ms, Size: len(ms)} }
	me := Member{ID: "id00", Workers: 1}
	node := func(f func(*Node)) *Node {
		n := Node{ID: "x", RunID: "r", Protocol: Protocol, Workers: 1, NodeRank: -1, Endpoint: -1, Min: 2, Max: 3}
		f(&n)
		return &n
	}
	worlds := []*World{
		nil, w(), w(me), w(me, me), w(Member{}), w(Member{ID: "id00", Workers: -1}), w(Member{ID: "id00", Workers: 1 << 40}),
		w(Member{ID: "id00", Workers: 1, FirstRank: 7}),
		{RunID: "r", Members: many},
		{RunID: "r", Round: -5, Members: []Member{me}},
		{RunID: "r", Round: 1 << 62, Members: []Member{me}},
		{RunID: "r", Term: 1, Members: []Member{me}, Size: 1, Roles: map[string]int{"": 2}},
		{RunID: "other", Term: 1, Members: []Member{me}, Size: 1, Roles: map[string]int{"": 1}},
	}
	nodes := []*Node{
		nil, node(func(*Node) {}), node(func(n *Node) { n.ID = "" }), node(func(n *Node) { n.ID = "id00" }),
		node(func(n *Node) { n.Workers = -1 }), node(func(n *Node) { n.Workers = 1 << 50 }), node(func(n *Node) { n.NodeRank = 1 << 60 }),
		node(func(n *Node) { n.Endpoint = 1 << 60 }), node(func(n *Node) { n.Host = strings.Repeat("h", 1<<20) }),
		node(func(n *Node) { n.Host = "\x1b[2J" }), node(func(n *Node) { n.RunID = strings.Repeat("r", 1<<20) }),
	}
	causes, ends := make([]Cause, 2*MaxWorkers), make([]End, 2*MaxWorkers)
	var out []Message
	bound := me
	bound.Env = envHash([]byte("other"))
	for _, m := range []Member{me, bound} { // an environment that does not belong to the world, or that is missing
		lone := &World{RunID: "r", Term: 1, Members: []Member{m}, Size: 1, Roles: map[string]int{"": 1}}
		out = append(out, Message{Type: MsgPropose, World: lone, Env: []byte("env")}, Message{Type: MsgPropose, World: lone, Env: make([]byte, MaxAssignment+1)})
	}
	out = append(out, Message{Type: MsgFacts, Body: json.RawMessage("{}"), Env: make([]byte, MaxEnv+1)})
	for _, n := range nodes {
		out = append(out, Message{Type: MsgHello, Node: n})
	}
	for _, w := range worlds {
		out = append(out,
			Message{Type: MsgPropose, World: w}, Message{Type: MsgHello, Node: nodes[1], Last: &Last{World: w, Started: true}},
			Message{Type: MsgHello, Node: nodes[1], Last: &Last{World: w, Outcome: &Outcome{}}})
	}
	for _, t := range []Type{
		MsgHello, MsgAccept, MsgFailed, MsgDone, MsgOver, MsgAck, MsgStatus, MsgRefuse, MsgRedirect, MsgPropose, MsgCommit,
		MsgAbort, MsgFinish, MsgQuery, MsgReport, MsgInquire, MsgView, "", "ping", "nonsense",
	} {
		out = append(out, Message{Type: t}, Message{Type: t, Round: -1, Term: 1 << 60, Failures: causes, Ends: ends},
			Message{Type: t, Cause: &Cause{}, Outcome: &Outcome{}, Status: &Status{Phase: "forming"}, Addr: "c0", Store: strings.Repeat("s", 1<<20)})
	}
	return out
}

// states brings a machine to each of the situations in which a message can
// come; conn is an unknown stream, its own coordinator's or a seat's.
func states() map[string]func() (*Machine, Conn) {
	now := time.Unix(0, 0)
	machine := func(endpoint int) *Machine {
		n := Node{
			ID: "id00", RunID: "r", Protocol: Protocol, Host: "n0", Control: "c0", Store: "s0", Workers: 1,
			NodeRank: -1, Endpoint: endpoint, Min: 1, Max: 3,
		}
		m := New(Config{
			Self: n, MaxRestarts: 2, Endpoints: 1, Where: "here", Takeover: true, Timeouts: simTimeouts,
			Token: func() string { return "t" },
		}, now)
		m.Step(now, Ready{})
		m.Step(now, Peers{All: []Peer{{ID: "id00", Control: "c0", Endpoint: endpoint}, {ID: "boss", Control: "c9", Endpoint: 1 + endpoint}}})
		return m
	}
	member := func() *Machine {
		m := machine(-1)
		m.Step(now, Dialed{"c9", 9})
		return m
	}
	works := func() *Machine {
		m := member()
		w := newWorld([]Node{m.self, {ID: "boss", RunID: "r", Control: "c9", Workers: 1}}, World{Term: 1, Coordinator: "boss"})
		m.Step(now, Received{9, Message{Type: MsgPropose, World: &w}})
		m.Step(now, Received{9, Message{Type: MsgCommit, Term: 1, Digest: w.Digest()}})
		return m
	}
	leads := func() *Machine {
		m := machine(0)
		m.Step(now.Add(2*time.Second), Tick{})
		return m
	}
	return map[string]func() (*Machine, Conn){
		"seeking":    func() (*Machine, Conn) { return machine(-1), 7 },
		"member":     func() (*Machine, Conn) { return member(), 9 },
		"working":    func() (*Machine, Conn) { return works(), 9 },
		"unknown":    func() (*Machine, Conn) { return works(), 7 },
		"forming":    func() (*Machine, Conn) { return machine(0), 7 },
		"leading":    func() (*Machine, Conn) { return leads(), 7 },
		"recovering": func() (*Machine, Conn) { m := works(); m.Step(now, Closed{Conn: 9, Silent: true}); return m, 7 },
		"lost":       func() (*Machine, Conn) { m := works(); m.Step(now, Closed{Conn: 9}); return m, 7 },
	}
}

// settleAndCheck gives the machine the time to act on what it received, and checks
// that it asks for a bounded number of ticks.
func settleAndCheck(t *testing.T, m *Machine) {
	t.Helper()
	end := m.now.Add(3 * time.Minute)
	for range 20_000 {
		next := m.Next()
		if next.IsZero() || next.After(end) {
			return
		}
		checkCommands(t, m.Step(next, Tick{})...)
	}
	t.Fatal("the machine asks for tick after tick")
}

// checkCommands checks that no message takes a seat, a round or the workers where they
// cannot go.
func checkCommands(t *testing.T, cmds ...Command) {
	t.Helper()
	for _, cmd := range cmds {
		if n, ok := cmd.(Note); ok && n.Kind == "internal" {
			t.Fatal(n.Text)
		}
	}
}

func TestHostileMessages(t *testing.T) {
	for name, state := range states() {
		t.Run(name, func(t *testing.T) {
			for _, msg := range hostile() {
				m, c := state()
				running := m.mem.work.state
				for _, cmd := range append(m.Step(m.now, Received{c, msg}), m.Step(m.now, Received{c, msg})...) {
					if s, ok := cmd.(Start); ok && len(s.World.Members) == 0 {
						t.Fatalf("%+v started a world without nodes", msg)
					}
					if _, ok := cmd.(Finish); ok && running != workIdle {
						t.Fatalf("%+v ended an agent whose workers run", msg)
					}
					checkCommands(t, cmd)
				}
				settleAndCheck(t, m)
			}
		})
	}
}

// TestHostileSeats checks that no seat, round or worker goes where it cannot go,
// whatever a member says and in whatever state its round is.
func TestHostileSeats(t *testing.T) {
	kinds := []func(w World) Message{
		func(w World) Message {
			return Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()}
		},
		func(w World) Message { return Message{Type: MsgDone, Round: w.Round} },
		func(w World) Message { return Message{Type: MsgOver, Round: w.Round} },
		func(w World) Message { return Message{Type: MsgAck} },
		func(w World) Message {
			n := seatNode(1, 3, 2)
			return Message{Type: MsgHello, Node: &n, Last: &Last{World: &w, Started: true}}
		},
		func(w World) Message {
			return Message{Type: MsgFailed, Round: w.Round, Failures: []Cause{{Kind: KindExit, Rank: 1}}}
		},
		func(w World) Message {
			return Message{Type: MsgFailed, Round: w.Round, Failures: []Cause{{Kind: KindStopped, Signal: 15}}}
		},
	}
	for state, prepare := range map[string]func(*testJob){
		"running":   func(*testJob) {},
		"stopping":  func(c *testJob) { c.silent[1], c.silent[2] = true, true; c.lose(3) },
		"forming":   func(c *testJob) { c.lose(3) },
		"accepting": func(c *testJob) { c.lose(3); c.silent[1] = true; c.advance(c.m.cfg.LastCall) },
	} {
		t.Run(state, func(t *testing.T) {
			for i := range len(kinds) * len(kinds) * len(kinds) {
				c := newTestJob(t, 4, 2, 4, nil)
				prepare(c)
				if got := c.m.coord.round.state.String(); got != state {
					t.Fatalf("the round is %s", got)
				}
				for range 3 {
					if c.m.coord != nil {
						checkCommands(t, c.m.Step(c.m.now, Received{1, kinds[i%len(kinds)](*c.m.coord.round.world)})...)
					}
					i /= len(kinds)
				}
				settleAndCheck(t, c.m)
			}
		})
	}
	for _, msg := range hostile() {
		c := newTestJob(t, 4, 2, 4, nil)
		checkCommands(t, c.m.Step(c.m.now, Received{1, msg})...)
		settleAndCheck(t, c.m)
	}
}

// TestMessagesOfOtherAgentsStartNothing checks that no message of a stream other than the
// coordinator's or a seat's makes this agent stop its workers.
func TestMessagesOfOtherAgentsStartNothing(t *testing.T) {
	for _, msg := range hostile() {
		m, c := states()["unknown"]()
		for _, cmd := range m.Step(m.now, Received{c, msg}) {
			switch cmd.(type) {
			case Start, Stop, Finish:
				t.Errorf("%s from an unknown stream: %#v", msg.Type, cmd)
			}
		}
	}
}

// FuzzMessages feeds two messages to a machine in each state.
func FuzzMessages(f *testing.F) {
	for _, msg := range hostile() {
		if b, err := json.Marshal(msg); err == nil && len(b) < 1<<14 {
			f.Add(b, b)
		}
	}
	all := states()
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var first, second Message
		if json.Unmarshal(one, &first) != nil || json.Unmarshal(two, &second) != nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			m, c := all[name]()
			checkCommands(t, m.Step(m.now, Received{c, first})...)
			checkCommands(t, m.Step(m.now, Received{c, second})...)
			settleAndCheck(t, m)
			checkCommands(t, m.Step(m.now, Closed{Conn: c})...)
			settleAndCheck(t, m)
		}
	})
}
