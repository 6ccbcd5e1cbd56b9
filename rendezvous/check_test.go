package rendezvous

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// newCompared returns a coordinator that compares nodes, with n members that sent their
// facts, and the Compare of their world.
func newCompared(t *testing.T, n, least int) (*Machine, Compare) {
	t.Helper()
	m := coordinating(t, n, least)
	m.cfg.Check = true
	var cmds []Command
	for i := range n {
		cmds = joins(m, i+1, n, least)
	}
	return m, compares(t, cmds)[0]
}

// joins seats a node that sends its facts.
func joins(m *Machine, i, n, least int) []Command {
	node := seatNode(i, n, least)
	node.Facts = true
	cmds := m.Step(m.now, Received{Conn(i), Message{Type: MsgHello, Node: &node}})
	return append(cmds, m.Step(m.now, Received{Conn(i), Message{Type: MsgFacts, Body: json.RawMessage(`"facts"`)}})...)
}

func compares(t *testing.T, cmds []Command) (out []Compare) {
	t.Helper()
	for _, c := range cmds {
		if c, ok := c.(Compare); ok {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no Compare in %v", cmds)
	}
	return out
}

// passes offers the checked world and lets every member accept.
func passes(t *testing.T, m *Machine, c Compare) []Command {
	t.Helper()
	var all []Command
	for _, cmd := range m.Step(m.now, Compared{Serial: c.Serial}) {
		s, ok := cmd.(Send)
		if !ok || s.Msg.Type != MsgPropose {
			continue
		}
		w := s.Msg.World
		all = append(all, m.Step(m.now, Received{s.Conn, Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()}})...)
	}
	if m.World() == nil {
		t.Fatal("the round did not start")
	}
	return all
}

// TestNodeThatCameDuringTheCheckIsCompared checks that a node that came while a world
// was checked is compared with the world that runs, as a later newcomer is. It is
// compared once, however often it sends its facts.
func TestNodeThatCameDuringTheCheckIsCompared(t *testing.T) {
	m := coordinating(t, 3, 2)
	m.cfg.Check = true
	joins(m, 1, 3, 2)
	joins(m, 2, 3, 2)
	c := compares(t, m.Step(m.now.Add(m.cfg.LastCall), Tick{}))[0]
	late := joins(m, 3, 3, 2)
	if slices.ContainsFunc(late, func(c Command) bool { _, ok := c.(Compare); return ok }) {
		t.Fatal("it was compared with a world that is not decided")
	}
	got := compares(t, passes(t, m, c))
	if len(got) != 1 || !got[0].WorldRuns || len(got[0].World.Members) != 4 {
		t.Fatalf("compared: %+v", got)
	}
	again := m.Step(m.now, Received{Conn(3), Message{Type: MsgFacts, Body: json.RawMessage(`"other"`)}})
	if len(again) != 0 {
		t.Errorf("facts that come again lead to %v", again)
	}
}

// TestStatusNamesTheNodesThatTheCheckAwaits checks that the status names the nodes that
// the check waits for: first for facts, then for answers.
func TestStatusNamesTheNodesThatTheCheckAwaits(t *testing.T) {
	m := coordinating(t, 2, 2)
	m.cfg.Check = true
	joins(m, 1, 2, 2)
	slow := seatNode(2, 2, 2)
	slow.Facts = true
	m.Step(m.now, Received{Conn(2), Message{Type: MsgHello, Node: &slow}})
	if got := m.coord.status(); got.Phase != "checking" || !slices.Equal(got.Waiting, []string{slow.Name()}) {
		t.Errorf("without its facts: %+v", got)
	}
	c := compares(t, m.Step(m.now, Received{Conn(2), Message{Type: MsgFacts}}))[0] // no facts in it
	if got := m.coord.status(); len(got.Waiting) != 0 {
		t.Errorf("while nodes are compared: %+v", got)
	}
	ask := make([]json.RawMessage, len(c.World.Members))
	m.Step(m.now, Compared{Serial: c.Serial, Ask: ask})
	m.Step(m.now, Answered{Serial: m.coord.check.serial, Body: json.RawMessage("{}")})
	m.Step(m.now, Received{Conn(1), Message{Type: MsgAnswer, Serial: m.coord.check.serial}})
	if got := m.coord.status(); !slices.Equal(got.Waiting, []string{slow.Name()}) {
		t.Errorf("without its answer: %+v", got)
	}
}

// TestCoordinatorCannotDismissItself checks that a check result against the
// coordinator's own node ends the job. The coordinator cannot go on without its node
// and must not ask for ever.
func TestCoordinatorCannotDismissItself(t *testing.T) {
	m, c := newCompared(t, 2, 2)
	cause := m.nodeCause(KindPreflight, "unfit")
	m.Step(m.now, Compared{Serial: c.Serial, Outcome: &Outcome{Code: ExitPreflight, Cause: &cause}, Only: []NodeID{m.self.ID}})
	if m.coord.round.state != roundDecided || m.coord.job.outcome.Code != ExitPreflight {
		t.Errorf("%v, %+v", m.coord.round.state, m.coord.job.outcome)
	}
}

// TestAnswersToAnotherCoordinatorAreIgnored checks that an answer to one coordinator
// does not count at the next one.
func TestAnswersToAnotherCoordinatorAreIgnored(t *testing.T) {
	one, c := newCompared(t, 2, 2)
	later := New(one.cfg, one.now.Add(time.Second))
	later.coordinate()
	if c.Serial >= later.coord.serial && c.Serial <= later.coord.serial+1000 {
		t.Errorf("serial %d of one, %d of the other", c.Serial, later.coord.serial)
	}
}

// TestEnvironmentGoesToItsNode checks that a node's description of its environment
// comes with its facts. The environment of its workers goes to that node alone, and the
// world has the hash.
func TestEnvironmentGoesToItsNode(t *testing.T) {
	m := coordinating(t, 2, 2)
	m.cfg.Check = true
	var cmds []Command
	for i := range 2 {
		node := seatNode(i+1, 2, 2)
		node.Facts = true
		m.Step(m.now, Received{Conn(i + 1), Message{Type: MsgHello, Node: &node}})
		env := []byte{byte('a' + i)}
		if i == 1 {
			env = make([]byte, MaxEnv+1) // too long, so ignored
		}
		cmds = m.Step(m.now, Received{Conn(i + 1), Message{Type: MsgFacts, Body: json.RawMessage(`"facts"`), Env: env}})
	}
	c := compares(t, cmds)[0]
	if len(c.Envs) != 3 || c.Envs[0] != nil || string(c.Envs[1]) != "a" || c.Envs[2] != nil {
		t.Fatalf("environments %q", c.Envs)
	}
	got := map[Conn]string{}
	var world *World
	for _, cmd := range m.Step(m.now, Compared{Serial: c.Serial, Env: [][]byte{nil, []byte("secret1"), []byte("secret2")}}) {
		if s, ok := cmd.(Send); ok && s.Msg.Type == MsgPropose {
			got[s.Conn], world = string(s.Msg.Env), s.Msg.World
		}
	}
	if got[1] != "secret1" || got[2] != "secret2" {
		t.Errorf("proposals have %v", got)
	}
	for i, text := range []string{"", "secret1", "secret2"} {
		if got := world.Members[i].Env; got != envHash([]byte(text)) || strings.Contains(got, "secret") {
			t.Errorf("the world has %q of node %d", got, i)
		}
	}
}

// TestEnvironmentBelongsToTheWorld checks that a member accepts no world with an
// environment that is not its own, and starts with its own.
func TestEnvironmentBelongsToTheWorld(t *testing.T) {
	for name, c := range map[string]struct {
		env      string
		sent     []byte
		accepted bool
	}{
		"its own": {"given", []byte("given"), true},
		"none":    {"", nil, true},
		"another": {"given", []byte("forged"), false},
		"missing": {"given", nil, false},
		"added":   {"", []byte("forged"), false},
	} {
		t.Run(name, func(t *testing.T) {
			m, conn := states()["member"]()
			w := newWorld([]Node{m.self, {ID: "boss", RunID: "r", Control: "c9", Workers: 1}}, World{Term: 1, Coordinator: "boss"})
			w.Members[w.Index(m.self.ID)].Env = envHash([]byte(c.env))
			var said []Type
			for _, cmd := range m.Step(m.now, Received{conn, Message{Type: MsgPropose, World: &w, Env: c.sent}}) {
				if s, ok := cmd.(Send); ok {
					said = append(said, s.Msg.Type)
				}
			}
			if slices.Contains(said, MsgAccept) != c.accepted || slices.Contains(said, MsgFailed) == c.accepted {
				t.Fatalf("it says %v", said)
			}
			for _, cmd := range m.Step(m.now, Received{conn, Message{Type: MsgCommit, Term: 1, Digest: w.Digest()}}) {
				if s, ok := cmd.(Start); ok && (!c.accepted || string(s.Env) != c.env) {
					t.Errorf("workers start with the environment %q", s.Env)
				}
			}
		})
	}
}

// TestCheckReportsProgramsThatCannotStart checks that gorun check starts nothing, and
// still hears from every node whether its program could be started.
func TestCheckReportsProgramsThatCannotStart(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		m, c := newCompared(t, 1, 1)
		m.cfg.Fenced = fenced
		found := &CheckResult{Table: "found"}
		proposed := m.Step(m.now, Compared{Serial: c.Serial, Outcome: &Outcome{Code: 1, Preflight: found}})
		i := slices.IndexFunc(proposed, func(c Command) bool { s, ok := c.(Send); return ok && s.Msg.Type == MsgPropose })
		if i < 0 || m.coord.round.state != roundProposing {
			t.Fatalf("no member is asked: %v", proposed)
		}
		w := proposed[i].(Send).Msg.World
		m.Step(m.now, Received{Conn(1), Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()}})
		if o := m.coord.job.outcome; m.coord.round.state != roundDecided || o.Code != 1 || o.Cause != nil || o.Preflight != found || m.World() != nil {
			t.Errorf("%v, %+v", m.coord.round.state, o)
		}
	}
	m, c := newCompared(t, 1, 1)
	found := &CheckResult{Table: "found"}
	m.Step(m.now, Compared{Serial: c.Serial, Outcome: &Outcome{Code: 1, Preflight: found}})
	cause := Cause{Kind: KindStart, Node: c.World.Members[1].ID, Rank: -1, ExitCode: ExitUsage, Message: "no such program"}
	m.Step(m.now, Received{Conn(1), Message{Type: MsgFailed, Round: c.World.Round, Failures: []Cause{cause}}})
	if o := m.coord.job.outcome; o == nil || o.Code != ExitUsage || o.Cause.Node != cause.Node || o.Preflight != found {
		t.Errorf("%v, %+v", m.coord.round.state, o)
	}
}
