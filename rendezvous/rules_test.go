package rendezvous

import (
	"fmt"
	"testing"
	"time"
)

// sent are the messages of one type among commands.
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

// TestOneAcceptanceARound: whatever is proposed, in whatever order.
func TestOneAcceptanceARound(t *testing.T) {
	tests := []struct {
		name        string
		term, round int
		accept      bool
	}{
		{"the same round again", 3, 5, false},
		{"the same round of a later term", 4, 5, false},
		{"an earlier round", 3, 4, false},
		{"a later round of an earlier term", 2, 6, false},
		{"the next round", 3, 6, true},
		{"a later term", 4, 9, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, c := states()["member"]()
			if n := len(sent(m.Step(m.now, Received{c, Message{Type: MsgPropose, World: worldOf(m, 3, 5, "a")}}), MsgAccept)); n != 1 {
				t.Fatalf("%d acceptances of the first proposal", n)
			}
			got := sent(m.Step(m.now, Received{c, Message{Type: MsgPropose, World: worldOf(m, tt.term, tt.round, "b")}}), MsgAccept)
			if (len(got) == 1) != tt.accept {
				t.Errorf("accepted: %+v", got)
			}
		})
	}
}

func TestOnlyTheAcceptedWorldStarts(t *testing.T) {
	tests := []struct {
		name string
		edit func(*Message)
	}{
		{"another digest", func(m *Message) { m.Digest = "x" }},
		{"another round", func(m *Message) { m.Round++ }},
		{"another term", func(m *Message) { m.Term++ }},
		{"", func(*Message) {}},
	}
	for _, tt := range tests {
		m, c := states()["member"]()
		w := worldOf(m, 1, 0, "a")
		m.Step(m.now, Received{c, Message{Type: MsgPropose, World: w}})
		msg := Message{Type: MsgCommit, Term: 1, Digest: w.Digest()}
		tt.edit(&msg)
		starts := 0
		for range 2 { // the second one is a repetition
			for _, cmd := range m.Step(m.now, Received{c, msg}) {
				if _, ok := cmd.(Start); ok {
					starts++
				}
			}
		}
		if want := map[bool]int{true: 1, false: 0}[tt.name == ""]; starts != want {
			t.Errorf("a commit of %q: %d starts, want %d", tt.name, starts, want)
		}
	}
}

// boss is a coordinator with seats for n members, at conns 1 to n.
func boss(t *testing.T, n, least int) *Machine {
	t.Helper()
	now := time.Unix(0, 0)
	m := New(Config{
		Self: seatNode(0, n, least), MaxRestarts: 3, Endpoints: 1, Where: "here", Takeover: true, Join: time.Minute,
		LastCall: time.Second, Rejoin: 5 * time.Second, Retry: 50 * time.Millisecond, Token: func() string { return "t" },
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
	m := boss(t, n, least)
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

func TestBurntRoundsAreNotUsedAgain(t *testing.T) {
	m := boss(t, 2, 3)
	hello(m, 1, 2, 3, nil)
	first := sent(hello(m, 2, 2, 3, nil), MsgPropose)
	m.Step(m.now, Closed{Conn: 2, Text: "gone"})
	second := sent(hello(m, 3, 2, 3, nil), MsgPropose) // a newcomer that has promised nothing
	if len(second) == 0 || second[0].World.Round <= first[0].World.Round {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// TestMembersBringWhatTheyPromised: a proposal is above all that its members
// have accepted elsewhere.
func TestMembersBringWhatTheyPromised(t *testing.T) {
	m := boss(t, 1, 2)
	old := newWorld([]Node{seatNode(1, 1, 2)}, World{Term: 7, Round: 12})
	got := sent(hello(m, 1, 1, 2, &Last{World: &old, Over: true}), MsgPropose)
	if len(got) != 1 || got[0].World.Round <= 12 || got[0].World.Term < 7 {
		t.Errorf("%+v", got)
	}
}

// TestBusyMembersAreWaitedFor: no proposal includes a node where workers live.
func TestBusyMembersAreWaitedFor(t *testing.T) {
	m := boss(t, 1, 2)
	old := newWorld([]Node{seatNode(1, 1, 2)}, World{Term: 1})
	cmds := hello(m, 1, 1, 2, &Last{World: &old, Started: true})
	if got := sent(cmds, MsgPropose); len(got) != 0 {
		t.Fatalf("proposed while workers run: %+v", got)
	}
	if got := sent(cmds, MsgAbort); len(got) != 1 || got[0].Round != old.Round || got[0].Cause == nil {
		t.Errorf("nobody stops the workers: %+v", got)
	}
	got := sent(m.Step(m.now, Received{1, Message{Type: MsgOver, Round: old.Round, Store: "fresh"}}), MsgPropose)
	if len(got) != 1 || got[0].World.Members[1].ID != "id1" {
		t.Fatalf("%+v", got)
	}
}

// TestWhoMayGoOn: which members of the last world have no vote.
func TestWhoMayGoOn(t *testing.T) {
	refused := func(addr string) Event { return DialFailed{Addr: addr, Refused: true, Text: "refused"} }
	tests := []struct {
		name   string
		events []Event // what happens to members 1 to 4 of 5
		goesOn bool
	}{
		{"two of five fall silent", []Event{Closed{Conn: 1, Silent: true}, Closed{Conn: 2, Silent: true}}, true},
		{"three of five fall silent", []Event{Closed{Conn: 1, Silent: true}, Closed{Conn: 2, Silent: true}, Closed{Conn: 3, Silent: true}}, false},
		{"three streams break, nobody is known to be dead", []Event{Closed{Conn: 1}, Closed{Conn: 2}, Closed{Conn: 3}}, false},
		{"three break, two are dead", []Event{Closed{Conn: 1}, Closed{Conn: 2}, Closed{Conn: 3}, refused("c1"), refused("c2")}, true},
		{"three break and do not answer", []Event{Closed{Conn: 1}, Closed{Conn: 2}, Closed{Conn: 3}, DialFailed{Addr: "c1"}, DialFailed{Addr: "c2"}}, false},
		{"silence, then refusal", []Event{Closed{Conn: 1, Silent: true}, Closed{Conn: 2, Silent: true}, Closed{Conn: 3, Silent: true}, Tick{}, refused("c1"), refused("c2")}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := runs(t, 4, 1)
			proposed := 0
			step := func(e Event) {
				cmds := m.Step(m.now, e)
				proposed += len(sent(cmds, MsgPropose))
				for _, c := range cmds { // every node's workers stop at once
					switch c := c.(type) {
					case Stop:
						m.Step(m.now, Over{Round: c.Round})
					case Send:
						if c.Msg.Type == MsgAbort {
							proposed += len(sent(m.Step(m.now, Received{c.Conn, Message{Type: MsgOver, Round: c.Msg.Round}}), MsgPropose))
						}
					}
				}
			}
			for _, e := range tt.events {
				if _, ok := e.(Tick); ok {
					m.now = m.now.Add(statusEvery)
				}
				step(e)
			}
			for range 3 {
				m.now = m.now.Add(time.Second)
				step(Tick{})
			}
			if got := proposed > 0 || m.coord.phase == proposing || m.coord.phase == executing; got != tt.goesOn {
				t.Errorf("goes on: %v (%s; %s)", got, m.coord.phase, m.coord.entitled())
			}
		})
	}
}

// third makes the machine the second of three members whose coordinator, the
// last one, is gone; the first one is asked now.
func third(t *testing.T, silent bool) *Machine {
	t.Helper()
	m, c := states()["member"]()
	w := newWorld([]Node{seatNode(1, 3, 1), m.self, {ID: "boss", RunID: "r", Control: "c9", Workers: 1}}, World{Term: 1, Coordinator: "boss"})
	m.Step(m.now, Received{c, Message{Type: MsgPropose, World: &w}})
	m.Step(m.now, Received{c, Message{Type: MsgCommit, Term: 1, Digest: w.Digest()}})
	m.Step(m.now, Done{Round: 0})
	m.Step(m.now, Closed{Conn: c, Silent: silent, Text: "x"})
	m.Step(m.now, DialFailed{Addr: "c9", Refused: true, Text: "refused"})
	if m.mem.dialing != "c1" {
		t.Fatalf("dialing %q, not the first of those that are left", m.mem.dialing)
	}
	return m
}

// TestOrphansKnowLittle: after silence a refused connection is no death; after
// a broken stream it is.
func TestOrphansKnowLittle(t *testing.T) {
	for _, silent := range []bool{true, false} {
		m := third(t, silent)
		m.Step(m.now, DialFailed{Addr: "c1", Refused: true, Text: "refused"})
		if m.coord == nil {
			t.Fatal("nobody coordinates")
		}
		for _, id := range []NodeID{"id1", "boss"} {
			if m.coord.dead[id] == silent {
				t.Errorf("silent %v: dead %v", silent, m.coord.dead)
			}
		}
	}
}

// TestSuccessorsWait: who takes over and learns that the job is decided waits a
// moment for those that have not heard.
func TestSuccessorsWait(t *testing.T) {
	m, c := states()["working"]()
	m.Step(m.now, Done{Round: 0})
	w := newWorld([]Node{m.self, seatNode(1, 3, 1), seatNode(2, 3, 1), {ID: "boss", Workers: 1}}, World{RunID: "r", Term: 1})
	m.mem.accepted, m.mem.sealed = &w, &w
	m.Step(m.now, Closed{Conn: c, Text: "x"})
	m.Step(m.now, DialFailed{Addr: "c9", Refused: true, Text: "refused"})
	node := seatNode(1, 2, 1)
	node.Min, node.Max = m.self.Min, m.self.Max
	m.Step(m.now, Received{1, Message{Type: MsgHello, Node: &node, Last: &Last{World: &w, Started: true, Over: true, Outcome: &Outcome{}}}})
	m.Step(m.now, Received{1, Message{Type: MsgAck}})
	if m.coord == nil || m.coord.phase != decided {
		t.Fatal("the outcome is not taken over")
	}
	if m.ended {
		t.Fatal("it left before the third member came")
	}
	node = seatNode(2, 2, 1)
	node.Min, node.Max = m.self.Min, m.self.Max
	if got := sent(m.Step(m.now, Received{2, Message{Type: MsgHello, Node: &node}}), MsgFinish); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if m.Step(m.now.Add(ackTimeout), Tick{}); !m.ended {
		t.Error("it never leaves")
	}
}

// TestRedirectsLeadSomewhere: never to the one who asks, never to oneself.
func TestRedirectsLeadSomewhere(t *testing.T) {
	m, c := states()["member"]()
	asker := seatNode(9, 3, 1)
	if got := sent(m.Step(m.now, Received{5, Message{Type: MsgHello, Node: &asker}}), MsgRedirect); len(got) != 1 || got[0].Addr != "" {
		t.Errorf("the one that it follows is sent to %+v", got)
	}
	for _, cmd := range m.Step(m.now, Received{c, Message{Type: MsgRedirect, Addr: m.self.Control}}) {
		if d, ok := cmd.(Dial); ok && d.Addr == m.self.Control {
			t.Error("it dials itself")
		}
	}
}

// TestCallsReachAnotherCoordinator: two coordinators of one job become one.
func TestCallsReachAnotherCoordinator(t *testing.T) {
	late, c := states()["forming"]() // it found nobody and forms a world of its own
	cmds := late.Step(late.now, Received{c, Message{Type: MsgRedirect, Addr: "c5", Term: 2}})
	if len(cmds) == 0 {
		t.Fatal("the call is not heard")
	}
	dials := 0
	for _, cmd := range cmds {
		if d, ok := cmd.(Dial); ok && d.Addr == "c5" {
			dials++
		}
	}
	hello := sent(late.Step(late.now, Dialed{"c5", 5}), MsgHello)
	if dials != 1 || len(hello) != 1 || late.coord != nil {
		t.Errorf("%d dials, %d hellos, still coordinates: %v", dials, len(hello), late.coord != nil)
	}
}

// TestStopAtEveryPhase: a signal ends an agent in bounded time, wherever it is.
func TestStopAtEveryPhase(t *testing.T) {
	for name, state := range states() {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprint(name, kill), func(t *testing.T) {
				m, c := state()
				var finish *Outcome
				play := func(now time.Time, e Event) {
					queue := []Event{e}
					for len(queue) > 0 {
						cmds := m.Step(now, queue[0])
						queue = queue[1:]
						for _, cmd := range cmds {
							switch cmd := cmd.(type) {
							case Stop:
								queue = append(queue, Over{Round: cmd.Round})
							case Dial:
								queue = append(queue, DialFailed{Addr: cmd.Addr, Refused: true, Text: "refused"})
							case Finish:
								finish = &cmd.Outcome
							}
						}
					}
				}
				cause := m.here(KindStopped, "")
				cause.Signal = 15
				play(m.now, StopJob{Cause: cause, Kill: kill})
				m.now = m.now.Add(time.Millisecond)
				play(m.now, DialFailed{Addr: "c9", Refused: true})
				play(m.now, Over{}) // of a stop that was on its way
				for _, c := range []Conn{c, 9} {
					play(m.now, Closed{Conn: c, Text: "gone"})
				}
				for end := m.now.Add(30 * time.Second); finish == nil; {
					next := m.Next()
					if next.IsZero() || next.After(end) {
						t.Fatalf("not finished after 30 s (work %d, next %v)", m.mem.work, next)
					}
					play(next, Tick{})
				}
				want := 143
				if name == "recovering" || name == "lost" { // it had failed before
					want = ExitLost
				}
				if finish.Code != want {
					t.Errorf("ended with %d, want %d (%s)", finish.Code, want, causeLine(finish.Cause))
				}
			})
		}
	}
}

func TestOrphansStopTheirWorkersAtOnce(t *testing.T) {
	for _, silent := range []bool{true, false} {
		m, c := states()["working"]()
		stops := 0
		for _, cmd := range m.Step(m.now, Closed{Conn: c, Silent: silent, Text: "x"}) {
			if _, ok := cmd.(Stop); ok {
				stops++
			}
		}
		if stops != 1 {
			t.Errorf("silent %v: %d stops", silent, stops)
		}
	}
}

// TestOutcomeIsPassedOn: what a lost coordinator had decided stands, if one of
// those that it told comes to its successor.
func TestOutcomeIsPassedOn(t *testing.T) {
	m, c := states()["working"]()
	w := m.World()
	m.Step(m.now, Done{Round: 0})
	m.Step(m.now, Closed{Conn: c, Text: "reset"})
	m.Step(m.now, DialFailed{Addr: "c9", Refused: true})
	if m.coord == nil {
		t.Fatal("nobody coordinates")
	}
	m.coord.away["id1"] = true // it has not come yet
	node := seatNode(1, 3, 1)
	node.Min, node.Max = m.self.Min, m.self.Max
	m.coord.phase = recovering
	cmds := m.Step(m.now, Received{1, Message{Type: MsgHello, Node: &node, Last: &Last{World: w, Started: true, Over: true, Outcome: &Outcome{Code: 42}}}})
	if got := sent(cmds, MsgFinish); len(got) != 1 || got[0].Outcome.Code != 42 {
		t.Errorf("%+v", cmds)
	}
}

// TestWitness: who accepted a world and lost its coordinator asks the members.
func TestWitness(t *testing.T) {
	m, c := states()["member"]()
	w := newWorld([]Node{m.self, seatNode(1, 3, 1), {ID: "boss", RunID: "r", Control: "c9", Workers: 1}}, World{Term: 1, Coordinator: "boss"})
	m.Step(m.now, Received{c, Message{Type: MsgPropose, World: &w}})
	m.Step(m.now, Peers{})
	m.Step(m.now, Closed{Conn: c, Text: "reset"})
	for end := m.now.Add(10 * time.Second); m.mem.dialing != "c1"; {
		next := m.Next()
		if next.IsZero() || next.After(end) {
			t.Fatalf("it waits without a word to the others (dialing %q)", m.mem.dialing)
		}
		m.Step(next, DialFailed{Addr: m.mem.dialing, Refused: true})
		m.Step(next, Tick{})
	}
}

// TestMissingMembersAreCalled: every second, with the way to this coordinator.
func TestMissingMembersAreCalled(t *testing.T) {
	m := runs(t, 2, 3)
	m.Step(m.now, Closed{Conn: 2, Silent: true, Text: "silent"})
	m.Step(m.now, Over{Round: 0})
	m.Step(m.now, Received{1, Message{Type: MsgOver}})
	dials := 0
	for _, cmd := range m.Step(m.now.Add(2*time.Second), Tick{}) {
		if d, ok := cmd.(Dial); ok && d.Addr == "c2" {
			dials++
		}
	}
	got := sent(m.Step(m.now, Dialed{"c2", 77}), MsgRedirect)
	if dials != 1 || len(got) != 1 || got[0].Addr != "c0" {
		t.Errorf("%d dials, then %+v (%s)", dials, got, m.coord.phase)
	}
}

// TestDoneMembersMayComeBack: a stream that breaks after the node's workers have
// ended costs nothing.
func TestDoneMembersMayComeBack(t *testing.T) {
	m := runs(t, 1, 2)
	w := m.World()
	m.Step(m.now, Received{1, Message{Type: MsgDone}})
	m.Step(m.now, Closed{Conn: 1, Text: "reset"})
	hello(m, 1, 1, 2, &Last{World: w, Started: true, Done: true})
	if s := m.coord.seat(1); s == nil || !s.inWorld || !s.done || m.coord.phase != executing {
		t.Fatalf("%+v in phase %s", s, m.coord.phase)
	}
	got := sent(m.Step(m.now, Done{Round: 0}), MsgFinish)
	if len(got) != 1 || got[0].Outcome.Code != 0 {
		t.Errorf("%+v", got)
	}
}

// TestNonsenseIsRefused: nothing that makes no sense is accepted or seated.
func TestNonsenseIsRefused(t *testing.T) {
	for _, msg := range hostile() {
		switch {
		case msg.World != nil:
			m, c := states()["member"]()
			if got := sent(m.Step(m.now, Received{c, msg}), MsgAccept); len(got) != 0 {
				t.Errorf("accepted %.300s", fmt.Sprint(*msg.World))
			}
		case msg.Type == MsgHello && msg.Node != nil && (msg.Last != nil && msg.Last.World != nil || msg.Last == nil && msg.Node.Min == 2):
			m := boss(t, 3, 2)
			node := *msg.Node
			node.Min, node.Max = m.self.Min, m.self.Max
			if node.ID == "id00" {
				node.ID = m.self.ID
			}
			msg.Node = &node
			sane := node.ID == "x" && msg.Last == nil && node.Workers == 1 && node.NodeRank < 0 && node.Endpoint < 0 && node.Host == "" && node.RunID == "r"
			if got := sent(m.Step(m.now, Received{7, msg}), MsgRefuse); (len(got) != 1) != sane || len(got) == 1 && len(got[0].Text) > 4096 {
				t.Errorf("%.300s: refused with %.300s", fmt.Sprintf("%+v", node), fmt.Sprint(got))
			}
		}
	}
}

// TestPrimaryCause: who fell over because a peer was gone is never named while
// another failure is known.
func TestPrimaryCause(t *testing.T) {
	m := runs(t, 2, 3)
	fail := func(i int, consequence bool, age time.Duration) []Command {
		return m.Step(m.now, Received{Conn(i), Message{Type: MsgFailed, Failures: []Cause{{
			Kind: KindExit, Node: NodeID(fmt.Sprint("id", i)), Rank: i, ExitCode: 10 + i, Consequence: consequence, Age: age,
		}}}})
	}
	got := sent(fail(1, true, time.Second), MsgAbort)
	fail(2, false, 0)
	if len(got) == 0 {
		t.Fatal("no abort")
	}
	if c := m.coord.first(); c.Rank != 2 {
		t.Errorf("the cause is rank %d", c.Rank)
	}
}

// TestManyFailuresAreBounded: the earliest primary ones are kept.
func TestManyFailuresAreBounded(t *testing.T) {
	m := runs(t, 1, 2)
	for i := range 3 * maxFailures {
		m.coord.add(Cause{Kind: KindExit, Rank: i, Consequence: i%2 == 0, Age: time.Duration(i)})
	}
	if n := len(m.coord.failures); n != maxFailures {
		t.Errorf("%d failures are kept", n)
	}
	if c := m.coord.first(); c.Rank != 3*maxFailures-1 {
		t.Errorf("the cause is rank %d", c.Rank)
	}
}

// TestTheSearchForACoordinatorEnds: agents that know of none, one after the
// other, do not keep a survivor from taking over in time.
func TestTheSearchForACoordinatorEnds(t *testing.T) {
	m := third(t, false)
	began := m.now
	for conn := Conn(20); m.coord == nil; conn++ {
		if m.now.Sub(began) > 2*m.cfg.Rejoin {
			t.Fatalf("still asking after %v", m.now.Sub(began))
		}
		if m.mem.dialing != "" {
			m.Step(m.now, Dialed{m.mem.dialing, conn})
			m.Step(m.now, Received{conn, Message{Type: MsgRedirect}})
		}
		if next := m.Next(); !next.IsZero() {
			m.Step(next, Tick{})
		}
	}
}

// TestStoppedCoordinatorCommitsNothing: acceptances that waited while its
// process was stopped are not worth anything any more.
func TestStoppedCoordinatorCommitsNothing(t *testing.T) {
	for away, starts := range map[time.Duration]bool{time.Second: true, 10 * time.Second: false} {
		m := boss(t, 2, 3)
		hello(m, 1, 2, 3, nil)
		cmds := hello(m, 2, 2, 3, nil)
		m.now = m.now.Add(statusEvery)
		m.Step(m.now, Tick{})
		at := m.now.Add(away)
		for i, msg := range sent(cmds, MsgPropose) {
			w := msg.World
			m.Step(at, Received{Conn(1 + i), Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()}})
		}
		if got := m.World() != nil; got != starts {
			t.Errorf("after %v away: started %v", away, got)
		}
	}
}
