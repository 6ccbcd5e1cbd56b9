package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// views returns the views that an agent is to present.
func views(t *testing.T, cmds []Command) (out []View) {
	t.Helper()
	for _, c := range cmds {
		if p, ok := c.(Present); ok {
			var v View
			if err := json.Unmarshal(p.View, &v); err != nil {
				t.Fatalf("a view is no JSON: %v", err)
			}
			out = append(out, v)
		}
	}
	return out
}

func inquired(cmds []Command) (serials []int) {
	for _, c := range cmds {
		if r, ok := c.(Report); ok {
			serials = append(serials, r.Serial)
		}
	}
	return serials
}

func body(s string) json.RawMessage { return json.RawMessage(fmt.Sprintf("%q", s)) }

// surveyed lets a coordinator's own agent and the seats in from answer the survey
// that the commands begin.
func surveyed(t *testing.T, m *Machine, cmds []Command, from ...int) []Command {
	t.Helper()
	own := inquired(cmds)
	if len(own) != 1 || len(sent(cmds, MsgInquire)) != len(m.coord.seats.here)-1 {
		t.Fatalf("the own agent was asked %v, the others %d times", own, len(sent(cmds, MsgInquire)))
	}
	all := m.Step(m.now, Reported{own[0], body("own")})
	for _, i := range from {
		all = append(all, m.Step(m.now, Received{Conn(i), Message{Type: MsgReport, Serial: own[0], Body: body(fmt.Sprint("r", i))}})...)
	}
	return all
}

// TestSurvey checks that a survey asks all nodes, spares too. Every asker gets the view
// once all have answered.
func TestSurvey(t *testing.T) {
	m := runs(t, 2, 3) // the coordinator and two members
	hello(m, 3, 2, 3, nil)
	cmds := m.Step(m.now, Received{2, Message{Type: MsgQuery, Serial: -7}})
	got := sent(surveyed(t, m, cmds, 1, 2, 3), MsgView)
	if len(got) != 1 || got[0].Serial != -7 {
		t.Fatalf("got %+v", got)
	}
	var v View
	if err := json.Unmarshal(got[0].Body, &v); err != nil {
		t.Fatal(err)
	}
	if v.Phase != "running" || v.Size != 3 || v.RunID != "r" || v.Coordinator != "id0" || len(v.Nodes) != 4 {
		t.Errorf("%+v", v)
	}
	for i, n := range v.Nodes {
		standing, group := NodeActive, i
		if i == 3 {
			standing, group = NodeSpare, -1
		}
		if n.Participation != standing || n.GroupRank != group || len(n.Report) == 0 || n.Trouble != "" {
			t.Errorf("node %d: %+v", i, n)
		}
	}
	if string(v.Nodes[3].Report) != `"r3"` || string(v.Nodes[0].Report) != `"own"` {
		t.Errorf("reports of others: %s, %s", v.Nodes[3].Report, v.Nodes[0].Report)
	}
}

// TestSurveyIsShared checks that a survey asks each node once for many queries that
// come at the same time, or soon after.
func TestSurveyIsShared(t *testing.T) {
	m := runs(t, 2, 3)
	cmds := m.Step(m.now, Received{1, Message{Type: MsgQuery, Serial: -1}})
	more := m.Step(m.now, Received{2, Message{Type: MsgQuery, Serial: -2}})
	more = append(more, m.Step(m.now, Query{})...)
	more = append(more, m.Step(m.now, Query{})...)
	if len(sent(more, MsgInquire)) != 0 || len(inquired(more)) != 0 {
		t.Fatalf("asked again: %v", more)
	}
	got := surveyed(t, m, cmds, 1, 2)
	if len(sent(got, MsgView)) != 2 || len(views(t, got)) != 1 {
		t.Fatalf("%d members and this agent %d times got a view", len(sent(got, MsgView)), len(views(t, got)))
	}
	soon := m.Step(m.now.Add(viewFresh/2), Received{1, Message{Type: MsgQuery, Serial: -3}})
	if len(sent(soon, MsgInquire)) != 0 || len(sent(soon, MsgView)) != 1 {
		t.Errorf("a fresh view was not used: %v", soon)
	}
	later := m.Step(m.now.Add(viewFresh), Received{1, Message{Type: MsgQuery, Serial: -4}})
	if len(sent(later, MsgInquire)) != 2 || len(sent(later, MsgView)) != 0 {
		t.Errorf("an old view was used: %v", later)
	}
}

// TestSurveyOfTroubledNodes checks that a member that is silent, lost or faulty costs
// others a second at most, and is shown with a reason.
func TestSurveyOfTroubledNodes(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("x", maxReport) + `"`)
	tests := []struct {
		name    string
		do      func(m *Machine, serial int) []Command
		wait    bool
		trouble string
	}{
		{"silent", func(*Machine, int) []Command { return nil }, true, "has not answered"},
		{"lost", func(m *Machine, _ int) []Command { return m.Step(m.now, Closed{Conn: 2, Text: "reset"}) }, false, "not connected"},
		{"too long", func(m *Machine, s int) []Command {
			return m.Step(m.now, Received{2, Message{Type: MsgReport, Serial: s, Body: long}})
		}, false, "too long"},
		{"nothing", func(m *Machine, s int) []Command {
			return m.Step(m.now, Received{2, Message{Type: MsgReport, Serial: s}})
		}, false, "too long"},
		{"no JSON", func(m *Machine, s int) []Command {
			return m.Step(m.now, Received{2, Message{Type: MsgReport, Serial: s, Body: []byte("{")}})
		}, false, "its report is not valid JSON"},
		{"another question's", func(m *Machine, s int) []Command {
			return m.Step(m.now, Received{2, Message{Type: MsgReport, Serial: s - 1, Body: body("old")}})
		}, true, "has not answered"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := runs(t, 2, 3)
			cmds := m.Step(m.now, Query{})
			serial := inquired(cmds)[0]
			got := surveyed(t, m, cmds, 1)
			got = append(got, tt.do(m, serial)...)
			if tt.wait {
				if len(views(t, got)) != 0 {
					t.Fatal("a node that has not answered was not waited for")
				}
				if next := m.Next(); next.After(m.now.Add(surveyTime)) {
					t.Fatalf("the next tick is in %v", next.Sub(m.now))
				}
				got = m.Step(m.now.Add(surveyTime), Tick{})
			}
			vs := views(t, got)
			if len(vs) != 1 {
				t.Fatalf("%d views", len(vs))
			}
			i := slices.IndexFunc(vs[0].Nodes, func(n NodeView) bool { return n.ID == "id2" })
			if i < 0 || !strings.Contains(vs[0].Nodes[i].Trouble, tt.trouble) || vs[0].Nodes[i].Report != nil {
				t.Errorf("%+v", vs[0].Nodes)
			}
		})
	}
}

// TestViewIsBounded checks that a view's size is bounded, however many nodes there are.
func TestViewIsBounded(t *testing.T) {
	const n = 2 * maxView / maxReport
	m := runs(t, n, n+1)
	reports := map[*seat]json.RawMessage{}
	for _, s := range m.coord.seats.here {
		reports[s] = json.RawMessage(`"` + strings.Repeat("x", maxReport-2) + `"`)
	}
	v := m.coord.buildView(&survey{reports: reports})
	withReport := 0
	for _, s := range v.Nodes {
		if s.Report != nil {
			withReport++
		} else if s.Trouble == "" {
			t.Errorf("%s has no report and nothing says why", s.ID)
		}
	}
	if withReport != maxView/maxReport {
		t.Errorf("%d reports", withReport)
	}
}

// TestMarshalledViewIsBounded checks that a view that is written down fits into a
// message: first without reports, then without nodes.
func TestMarshalledViewIsBounded(t *testing.T) {
	var v View
	for range 100 {
		v.Nodes = append(v.Nodes, NodeView{Host: "h", Report: json.RawMessage(`"` + strings.Repeat("<", 1000) + `"`)})
	}
	for limit, want := range map[int]struct {
		nodes  int
		report bool
	}{1 << 20: {100, true}, 100 << 10: {100, false}, 1 << 10: {0, false}} {
		full := View{Nodes: slices.Clone(v.Nodes)}
		b := full.marshal(limit)
		var got View
		if err := json.Unmarshal(b, &got); err != nil || len(b) > limit || len(got.Nodes) != want.nodes {
			t.Fatalf("%d bytes of %d, %d nodes, %v", len(b), limit, len(got.Nodes), err)
		}
		if want.nodes > 0 && (got.Nodes[0].Report != nil) != want.report || !want.report && !strings.Contains(string(b), tooMany) {
			t.Errorf("in %d bytes: %+v", limit, got)
		}
	}
}

// TestLocalView checks that without a coordinator, or with a silent one, an agent
// reports what it knows itself, and says so.
func TestLocalView(t *testing.T) {
	for name, want := range map[string]struct{ phase, note string }{
		"seeking": {"seeking", "no coordinator has answered"},
		"member":  {"seeking", "has not answered"},
		"working": {"running", "has not answered"},
		"lost":    {"stopping", "was lost"},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := states()[name]()
			began := m.now
			cmds := m.Step(m.now, Query{})
			for len(inquired(cmds)) == 0 {
				next := m.Next()
				if next.IsZero() || next.After(began.Add(queryTime)) {
					t.Fatalf("after %v the coordinator is still waited for", queryTime)
				}
				cmds = m.Step(next, Tick{})
			}
			vs := views(t, m.Step(m.now, Reported{inquired(cmds)[0], body("own")}))
			if len(vs) != 1 || vs[0].Phase != want.phase || !strings.Contains(vs[0].Note, want.note) {
				t.Fatalf("%+v", vs)
			}
			i := slices.IndexFunc(vs[0].Nodes, func(n NodeView) bool { return n.ID == m.self.ID })
			if i < 0 || string(vs[0].Nodes[i].Report) != `"own"` {
				t.Errorf("its own report is missing: %+v", vs[0].Nodes)
			}
			if again := m.Step(m.now, Query{}); len(views(t, again)) != 0 {
				t.Error("a new query is answered at once")
			}
		})
	}
}

// TestLocalViewWithoutAReport checks that an agent without an answer of its own node
// answers all the same.
func TestLocalViewWithoutAReport(t *testing.T) {
	m, _ := states()["seeking"]()
	m.Step(m.now, Query{})
	for end := m.now.Add(queryTime + 2*reportTime); ; {
		next := m.Next()
		if next.IsZero() || next.After(end) {
			t.Fatal("no view")
		}
		if len(views(t, m.Step(next, Tick{}))) == 1 {
			return
		}
	}
}

// TestViewOfAMember checks that the coordinator's view reaches the agent that asked. A
// view for another query does not.
func TestViewOfAMember(t *testing.T) {
	m, c := states()["working"]()
	asked := sent(m.Step(m.now, Query{}), MsgQuery)
	if len(asked) != 1 {
		t.Fatalf("asked: %+v", asked)
	}
	if got := m.Step(m.now, Received{c, Message{Type: MsgView, Serial: asked[0].Serial + 1, Body: body("old")}}); len(got) != 0 {
		t.Errorf("an old view was taken: %v", got)
	}
	got := m.Step(m.now, Received{c, Message{Type: MsgView, Serial: asked[0].Serial, Body: []byte(`{"phase":"running"}`)}})
	if vs := views(t, got); len(vs) != 1 || vs[0].Phase != "running" {
		t.Errorf("%v", got)
	}
}

// TestOrderFromASpare checks that an order to end the job ends it for all nodes, also
// from a node that has no place in it. A signal there ends that node's part only.
func TestOrderFromASpare(t *testing.T) {
	for kind, ends := range map[Kind]bool{KindStopped: false, KindAborted: true} {
		m := runs(t, 2, 3)
		hello(m, 3, 2, 3, nil)
		cause := Cause{Kind: kind, Node: "id3", Rank: -1, LocalRank: -1, Signal: 15, Message: "enough"}
		got := m.Step(m.now, Received{3, Message{Type: MsgFailed, Failures: []Cause{cause}}})
		aborts := sent(got, MsgAbort)
		if ended := len(aborts) == 2; ended != ends {
			t.Errorf("%s: %v", kind, got)
		} else if ends && (aborts[0].Cause.Line() != "enough" || aborts[0].Cause.Code() != 143) {
			t.Errorf("got %+v", aborts[0].Cause)
		}
	}
}

// TestOrderAfterAFailure checks that the order is the cause of a job's end if the job
// would have been started again. If it would have ended anyway, the failure before the
// order is.
func TestOrderAfterAFailure(t *testing.T) {
	for restarts, want := range map[int]Kind{0: KindExit, 3: KindAborted} {
		m := runs(t, 1, 2)
		m.coord.job.maxRestarts = restarts
		fail := func(c Cause) {
			m.Step(m.now, Received{1, Message{Type: MsgFailed, Round: 0, Failures: []Cause{c}}})
		}
		fail(Cause{Kind: KindExit, Node: "id1", Rank: 1, ExitCode: 3, Age: time.Second})
		fail(Cause{Kind: KindAborted, Node: "id1", Rank: -1, Message: "enough"})
		m.Step(m.now, Received{1, Message{Type: MsgOver, Round: 0}})
		m.Step(m.now, Over{Round: 0})
		if m.coord.job.outcome == nil || m.coord.job.outcome.Cause.Kind != want {
			t.Errorf("with %d restarts: %s, %+v", restarts, m.coord.round.state, m.coord.job.outcome)
		}
	}
}

// TestSurveysOfOtherQuestions checks that questions are asked beside each other, each with
// its own time, and that an agent that is asked too much answers all the same.
func TestSurveysOfOtherQuestions(t *testing.T) {
	m := runs(t, 1, 2)
	signs := Question{Topic: "signs", Within: 3 * time.Second}
	first := m.Step(m.now, Received{1, Message{Type: MsgQuery, Serial: -1, Question: &signs}})
	asked := sent(first, MsgInquire)
	if len(asked) != 1 || *asked[0].Question != signs {
		t.Fatalf("asked %+v", asked)
	}
	if own := inquired(first); len(own) != 1 || own[0] != asked[0].Serial {
		t.Fatalf("the own agent was asked %v", own)
	}
	stands := m.Step(m.now, Received{1, Message{Type: MsgQuery, Serial: -2}})
	if got := sent(stands, MsgInquire); len(got) != 1 || *got[0].Question != (Question{}) || got[0].Serial == asked[0].Serial {
		t.Fatalf("asked %+v", got)
	}
	m.Step(m.now, Reported{asked[0].Serial, body("own")})
	if got := sent(m.Step(m.now.Add(surveyTime), Tick{}), MsgView); len(got) != 1 || got[0].Serial != -2 {
		t.Fatalf("after the time of the status: %+v", got)
	}
	m.Step(m.now, Received{1, Message{Type: MsgReport, Serial: asked[0].Serial, Body: body("late")}})
	got := m.Step(m.now.Add(time.Millisecond), Tick{})
	if v := sent(got, MsgView); len(v) != 0 { // answered with the report
		t.Errorf("a second view: %+v", v)
	}
}

// TestQuestionsAreBounded checks that neither a member nor a user's client can ask an
// agent without end.
func TestQuestionsAreBounded(t *testing.T) {
	m := runs(t, 1, 2)
	n := 0
	for i := range 5 * maxAsked {
		q := Question{Detail: fmt.Sprint(i)}
		n += len(sent(m.Step(m.now, Received{1, Message{Type: MsgQuery, Serial: -1 - i, Question: &q}}), MsgInquire))
	}
	if n != maxAsked {
		t.Errorf("a member made the coordinator ask %d questions", n)
	}
	long := Question{Topic: strings.Repeat("t", 1<<20), Detail: strings.Repeat("d", 1<<20), Within: time.Hour}
	if b := long.Bounded(); len(b.Topic) != maxDetail || len(b.Detail) != maxDetail || b.Within != maxWithin || b != b.Bounded() {
		t.Errorf("%d, %d, %v", len(b.Topic), len(b.Detail), b.Within)
	}
	member, _ := states()["working"]()
	var all []Command
	for i := range maxAsked + 1 {
		all = append(all, member.Step(member.now, Query{Question{Detail: fmt.Sprint(i)}})...)
	}
	if vs := views(t, all); len(vs) != 1 || !strings.Contains(vs[0].Note, "too many questions") {
		t.Errorf("%+v", vs)
	}
}
