package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of a view, in bytes.
const (
	maxReport      = 256 << 10 // of one node
	maxView        = 16 << 20  // all nodes' reports together; a node that would exceed it has none
	maxEncodedView = 24 << 20  // a view that is written down: it must fit into a message
)

// View is how a job stands, as one agent knows it. The machine does not read
// reports.
type View struct {
	RunID       string `json:"run_id"`
	Job         string `json:"job"`   // the same for all worlds of a job
	Phase       string `json:"phase"` // of the coordinator: forming, checking, accepting, running, stopping, recovering, ending
	Round       int    `json:"round"`
	Restart     int    `json:"restart"`
	MaxRestarts int    `json:"max_restarts"`
	Size        int    `json:"size"` // workers of the world, 0: there is none
	Min         int    `json:"min"`
	Max         int    `json:"max"`
	Coordinator NodeID `json:"coordinator"` // empty: not known
	// Age is how long the workers of the round have been running, as the coordinator
	// knows it; 0 unless they run or are being stopped.
	Age time.Duration `json:"age_ns,omitempty"`
	// Failure says in one line why the round is being stopped, or why the one
	// before it was.
	Failure string     `json:"failure,omitempty"`
	Hang    string     `json:"hang,omitempty"`   // why the round hangs; "": it is not known to hang
	Status  *Status    `json:"status,omitempty"` // what a job that does not run waits for
	Nodes   []NodeView `json:"nodes"`            // members by group rank, then the others as they came
	Note    string     `json:"note,omitempty"`   // why the view is not complete
}

// Participation says how a node takes part in its job.
type Participation string

const (
	NodeActive  Participation = "active"  // a member of the world
	NodeSpare   Participation = "spare"   // waits for a place in the next round
	NodeWaiting Participation = "waiting" // came while no world runs
	NodeLost    Participation = "lost"    // a member that is not connected any more
	NodeUnknown Participation = "unknown" // the agent that made the view does not coordinate
)

// NodeView is one node in a View.
type NodeView struct {
	ID            NodeID        `json:"id"`
	Host          string        `json:"host"`
	Addr          string        `json:"addr"`
	GroupRank     int           `json:"group_rank"` // -1: none
	FirstRank     int           `json:"first_rank"` // -1: none
	Workers       int           `json:"workers"`
	Participation Participation `json:"standing"`
	// Report is the node's own report. Without a report, Trouble says why.
	Report  json.RawMessage `json:"report,omitempty"`
	Trouble string          `json:"trouble,omitempty"`
}

// buildView makes a view of the reports of a survey.
func (c *coordinator) buildView(of *survey) View {
	me := c.m.self
	v := View{
		RunID: me.RunID, Job: c.job.id, Phase: c.round.state.String(), Round: c.job.round, Restart: c.job.restart, MaxRestarts: c.job.maxRestarts,
		Min: me.Min, Max: me.Max, Coordinator: me.ID,
	}
	hasWorld := c.round.world != nil && c.round.state != roundForming
	if hasWorld {
		v.Round, v.Restart, v.Size = c.round.world.Round, c.round.world.Restart, c.round.world.Size
	}
	switch c.round.state {
	case roundRunning, roundStopping:
		v.Age = c.m.now.Sub(c.round.began)
	}
	if c.round.state != roundRunning && c.round.state != roundDecided {
		v.Status = c.status()
	}
	if c.round.state == roundRunning && c.round.hang != nil {
		v.Hang = cut(c.round.hang.Line(), maxText)
	}
	switch {
	case c.round.state == roundDecided && c.job.outcome.Cause != nil:
		v.Failure = cut(c.job.outcome.Cause.Line(), maxText)
	case c.round.state == roundStopping && len(c.round.failures) > 0:
		first := c.round.firstCause()
		v.Failure = cut(first.Line(), maxText)
	case len(c.job.records) > 0 && c.job.records[len(c.job.records)-1].Cause != nil:
		v.Failure = cut(c.job.records[len(c.job.records)-1].Cause.Line(), maxText)
	}
	room := maxView
	if hasWorld {
		for i := range c.round.world.Members {
			n := memberView(&c.round.world.Members[i], i)
			n.Participation, n.Trouble = NodeLost, "it is not connected"
			if s := c.seats.member(n.ID); s != nil {
				n.Participation = NodeActive
				n.addReport(s, of, &room)
			}
			v.Nodes = append(v.Nodes, n)
		}
	}
	for _, s := range c.seats.here {
		if hasWorld && s.inWorld() {
			continue
		}
		n := NodeView{ID: s.node.ID, Host: s.node.Host, Addr: s.node.Addr, GroupRank: -1, FirstRank: -1, Workers: s.node.Workers, Participation: NodeWaiting}
		if hasWorld {
			n.Participation = NodeSpare
		}
		n.addReport(s, of, &room)
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

// memberView returns a member of the world as a view shows it.
func memberView(p *Member, group int) NodeView {
	return NodeView{ID: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: group, FirstRank: p.FirstRank, Workers: p.Workers, Participation: NodeUnknown}
}

// addReport adds a node's report while there is room for it.
func (n *NodeView) addReport(s *seat, of *survey, room *int) {
	body, ok := of.reports[s]
	switch {
	case !ok:
		n.Trouble = "it has not answered within " + (surveyTime + of.question.Within).String()
	case body == nil:
		n.Trouble = "its report is too long"
	case len(body) > *room:
		n.Trouble = tooMany
	default:
		n.Report, n.Trouble = body, ""
		*room -= len(body)
	}
}

// localView returns what a member knows without its coordinator.
func (m *Machine) localView(body json.RawMessage) View {
	v := View{RunID: m.self.RunID, Phase: "seeking", Min: m.self.Min, Max: m.self.Max, Nodes: []NodeView{}}
	w := m.mem.work.sealed
	if w == nil {
		v.Status = m.searchStatus()
	} else {
		v.Job, v.Round, v.Restart, v.MaxRestarts, v.Size = w.Job, w.Round, w.Restart, w.MaxRestarts, w.Size
		v.Phase = [...]string{"recovering", "running", "running", "stopping"}[m.mem.work.state]
		if m.mem.work.abortedBy != nil {
			v.Failure = cut(m.mem.work.abortedBy.Line(), maxText)
		}
		for i := range w.Members {
			v.Nodes = append(v.Nodes, memberView(&w.Members[i], i))
		}
	}
	switch {
	case m.coord != nil:
		v.Note = "the coordinator on this node has not answered itself"
	case m.mem.link.open:
		v.Note = "the coordinator at " + m.mem.link.at + " has not answered within " + queryTime.String() + "; this is what one node knows"
	case w == nil:
		v.Note = "no coordinator has answered yet; this is what one node knows"
	default:
		v.Note = "the coordinator was lost; this is what one node knows"
	}
	i := slices.IndexFunc(v.Nodes, func(n NodeView) bool { return n.ID == m.self.ID })
	if i < 0 {
		i = len(v.Nodes)
		v.Nodes = append(v.Nodes, NodeView{
			ID: m.self.ID, Host: m.self.Host, Addr: m.self.Addr, GroupRank: -1, FirstRank: -1, Workers: m.self.Workers, Participation: NodeWaiting,
		})
	} else if m.mem.work.state != workIdle {
		v.Nodes[i].Participation = NodeActive
	}
	v.Nodes[i].Report = body
	return v
}

// marshal returns the view as JSON of at most limit bytes. A report that is not JSON
// is left out.
func (v View) marshal(limit int) json.RawMessage {
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Report != nil && !json.Valid(n.Report) {
			n.Report, n.Trouble = nil, "its report is not valid JSON"
		}
	}
	b := v.json()
	if len(b) > limit { // JSON may take six bytes for one
		for i := range v.Nodes {
			v.Nodes[i].Report, v.Nodes[i].Trouble = nil, tooMany
		}
		b = v.json()
	}
	if len(b) > limit {
		v.Nodes, v.Status, v.Note = []NodeView{}, nil, tooMany
		b = v.json()
	}
	return b
}

const tooMany = "there are too many nodes to show their reports"

// json returns the view as JSON.
func (v View) json() []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("rendezvous: a view is always JSON: " + err.Error())
	}
	return b
}

// Question is what a survey asks of every node. The zero Question asks how the node
// stands. The machine reads no Topic, so only agents know what one means.
type Question struct {
	Topic  string        `json:"topic,omitempty"`
	Detail string        `json:"detail,omitempty"`
	Within time.Duration `json:"within_ns,omitempty"` // how long a node may take, maxWithin at most; 0: it answers from memory
}

// Limits of questions.
const (
	maxWithin = 20 * time.Second
	maxDetail = 1 << 10 // bytes of a topic or a detail
	maxAsked  = 8       // that an agent, or a coordinator, waits for at one time
)

// Bounded returns the question with no part longer than an agent may ask.
func (q *Question) Bounded() Question {
	if q == nil {
		return Question{}
	}
	return Question{q.Topic[:min(len(q.Topic), maxDetail)], q.Detail[:min(len(q.Detail), maxDetail)], min(max(0, q.Within), maxWithin)}
}

// How long a query may take, besides the time that a node may take by the question.
// Nothing is sent about a job's state without a question, so a question waits for the
// slowest node.
const (
	surveyTime = time.Second            // a coordinator waits so long for the nodes' reports
	queryTime  = 2 * time.Second        // a member waits so long for its coordinator
	reportTime = time.Second            // and then so long for its own agent
	viewFresh  = 200 * time.Millisecond // many terminals that watch a job cost it one survey
)

// query is a question of this agent to its coordinator. Queries with the same question
// that come meanwhile share the answer.
type query struct {
	question Question
	serial   int // negative, so that no survey's serial is the same
	by       time.Time
	local    bool // without the coordinator: only this agent's report is awaited
}

// queries are the questions of this agent that are not answered yet, the oldest first.
type queries struct {
	open   []*query
	serial int // of the last one
}

// wakeups are the times at which a question is given up.
func (q *queries) wakeups() []time.Time {
	var all []time.Time
	for _, o := range q.open {
		all = append(all, o.by)
	}
	return all
}

// find returns the open query with a serial, nil if there is none.
func (q *queries) find(serial int) *query {
	for _, o := range q.open {
		if o.serial == serial {
			return o
		}
	}
	return nil
}

// queryReceived asks the coordinator.
func (m *Machine) queryReceived(e Query) {
	question := e.Question.Bounded()
	q := &m.queries
	switch {
	case slices.ContainsFunc(q.open, func(o *query) bool { return o.question == question }):
		return
	case len(q.open) >= maxAsked:
		v := m.localView(nil)
		v.Note = "this agent waits for the answers to too many questions"
		m.emit(Present{question, v.marshal(maxEncodedView)})
		return
	}
	q.serial--
	q.open = append(q.open, &query{question: question, serial: q.serial, by: m.now.Add(queryTime + question.Within)})
	m.sendToCoordinator(Message{Type: MsgQuery, Serial: q.serial, Question: &question})
}

// queryTick stops waiting for a coordinator that is lost or silent, and then for this
// agent's own report.
func (m *Machine) queryTick() {
	for _, q := range slices.Clone(m.queries.open) {
		elapsed := !m.now.Before(q.by)
		switch {
		case !q.local && (elapsed || !m.mem.link.open):
			q.local, q.by = true, m.now.Add(reportTime+q.question.Within)
			m.emit(Report{q.serial, q.question})
		case q.local && elapsed:
			m.present(q, m.localView(nil).marshal(maxEncodedView))
		}
	}
}

// present answers a query of this agent.
func (m *Machine) present(q *query, view json.RawMessage) {
	m.queries.open = slices.DeleteFunc(m.queries.open, func(o *query) bool { return o == q })
	m.emit(Present{q.question, view})
}

// localReportReceived takes the agent's report about its node, for this member's query
// or for the coordinator's survey.
func (m *Machine) localReportReceived(e Reported) {
	if q := m.queries.find(e.Serial); q != nil && q.local {
		m.present(q, m.localView(e.Body).marshal(maxEncodedView))
	} else if e.Serial > 0 {
		if len(e.Body) > maxReport {
			e.Body = nil
		}
		m.sendToCoordinator(Message{Type: MsgReport, Serial: e.Serial, Body: e.Body})
	}
}

// viewReceived presents the coordinator's view.
func (m *Machine) viewReceived(msg Message) {
	if q := m.queries.find(msg.Serial); q != nil && !q.local && len(msg.Body) > 0 {
		m.present(q, msg.Body)
	}
}

// survey is one question to all nodes for their reports, for all members that ask it.
type survey struct {
	question Question
	serial   int
	by       time.Time // zero: it has ended
	reports  map[*seat]json.RawMessage
	askers   map[*seat]int // the serial of each one's question
	view     json.RawMessage
	taken    time.Time // when view was
}

// wakeups are the times at which surveys end.
func (c *coordinator) surveyWakeups() []time.Time {
	var all []time.Time
	for _, v := range c.surveys {
		all = append(all, v.by)
	}
	return all
}

// queryReceived starts a survey for a member that asks.
func (c *coordinator) queryReceived(s *seat, msg Message) {
	question := msg.Question.Bounded()
	c.surveys = slices.DeleteFunc(c.surveys, func(v *survey) bool { return v.by.IsZero() && c.m.now.Sub(v.taken) >= viewFresh })
	i := slices.IndexFunc(c.surveys, func(v *survey) bool { return v.question == question })
	switch {
	case i >= 0 && c.surveys[i].by.IsZero():
		c.send(s, Message{Type: MsgView, Serial: msg.Serial, Body: c.surveys[i].view})
		return
	case i < 0 && len(c.surveys) >= maxAsked:
		return // the member stops waiting and shows what it knows itself
	case i < 0:
		i = len(c.surveys)
		c.surveys = append(c.surveys, &survey{
			question: question, serial: c.nextSerial(), by: c.m.now.Add(surveyTime + question.Within),
			reports: map[*seat]json.RawMessage{}, askers: map[*seat]int{},
		})
		for _, o := range c.seats.here {
			c.send(o, Message{Type: MsgInquire, Serial: c.surveys[i].serial, Question: &question})
		}
	}
	c.surveys[i].askers[s] = msg.Serial
}

// reportReceived keeps a node's report. nil stands for a report that is too long to
// be kept.
func (c *coordinator) reportReceived(s *seat, msg Message) {
	i := slices.IndexFunc(c.surveys, func(v *survey) bool { return !v.by.IsZero() && v.serial == msg.Serial })
	if i < 0 {
		return
	}
	v := c.surveys[i]
	if _, again := v.reports[s]; again {
		return
	}
	if len(msg.Body) > maxReport || len(msg.Body) == 0 {
		msg.Body = nil
	}
	v.reports[s] = msg.Body
}

// surveyTick answers the members that asked, once every node here has reported or the
// time is over.
func (c *coordinator) surveyTick() {
	for _, v := range c.surveys {
		if !v.by.IsZero() && c.surveyEnded(v) {
			c.answerSurvey(v)
		}
	}
}

// surveyEnded reports whether a survey waits for no node any more.
func (c *coordinator) surveyEnded(v *survey) bool {
	missing := func(s *seat) bool { _, ok := v.reports[s]; return !ok }
	return !c.m.now.Before(v.by) || len(v.reports) >= len(c.seats.here) && !slices.ContainsFunc(c.seats.here, missing)
}

// answerSurvey sends what the nodes reported to the members that asked.
func (c *coordinator) answerSurvey(v *survey) {
	v.view, v.taken, v.by = c.buildView(v).marshal(maxEncodedView), c.m.now, time.Time{}
	for _, s := range c.seats.here { // in a fixed order
		if serial, ok := v.askers[s]; ok {
			c.send(s, Message{Type: MsgView, Serial: serial, Body: v.view})
		}
	}
	v.reports, v.askers = nil, nil
}

// list returns the names of at most 16 seats.
func (c *coordinator) list(f func(*seat) bool) []string {
	var out []string
	more := 0
	for _, s := range c.seats.here {
		if !f(s) {
			continue
		}
		if len(out) == 16 {
			more++
			continue
		}
		out = append(out, s.node.Name())
	}
	slices.SortFunc(out, compareNatural)
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return out
}

// status returns what the job waits for.
func (c *coordinator) status() *Status {
	st := &Status{
		Phase: c.round.state.String(), Came: len(c.seats.here), Min: c.m.self.Min, Max: c.m.self.Max, Here: c.list(func(*seat) bool { return true }),
	}
	if !c.round.deadline.IsZero() {
		st.Left = c.round.deadline.Sub(c.m.now)
	}
	st.Refused = c.refused.lines()
	switch c.round.state {
	case roundRunning:
		st.Members, st.Job = len(c.round.world.Members), c.job.id
		st.Here = c.list((*seat).inWorld)
	case roundChecking:
		st.Waiting = c.list(func(s *seat) bool { return s.inWorld() && c.check.waitsFor(s) })
	case roundSealing:
		st.Note = c.sealing.waitsFor
	case roundProposing:
		st.Waiting = c.list(func(s *seat) bool { return s.state == seatProposed })
	case roundStopping:
		st.Waiting = c.list(func(s *seat) bool { return s.state == seatRunning || s.state == seatDone })
	case roundForming:
		st.Note = ""
		if by := c.refused.by; !by.IsZero() {
			st.Left = min(st.Left, by.Sub(c.m.now))
			st.Note = "the job ends then unless a node that was refused is started again, corrected"
		}
		if len(c.seats.here) < c.m.self.Min && st.Note == "" {
			st.Note = c.foundOnly()
		}
		if len(c.seats.here) >= c.m.self.Min {
			st.Note = c.quorumProblem()
			if !c.round.lastCall.IsZero() {
				st.Left, st.Note = c.round.lastCall.Sub(c.m.now), "last call for more nodes"
			}
		}
	}
	return st
}

// connectTime is how long an agent that was found normally needs at most until it connects.
const connectTime = 5 * time.Second

// closedPort is the likely reason where agents find each other and do not connect.
const closedPort = "; does a firewall drop that port? --port-range A-B confines gorun's ports"

// foundOnly names nodes that were found and do not connect to this agent.
func (c *coordinator) foundOnly() string {
	var names []string
	for _, p := range c.m.peers.all {
		refused := slices.ContainsFunc(c.refused.nodes, func(r refusedNode) bool { return r.name == p.Name })
		if p.ID != c.m.self.ID && !refused && c.seats.find(p.ID) == nil && c.m.now.Sub(c.m.peers.known[p.ID]) >= connectTime {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.SortFunc(names, compareNatural)
	more := ""
	if len(names) > 4 {
		names, more = names[:4], " and others"
	}
	return fmt.Sprintf("found, but not connected to %s: %s%s%s", c.m.self.Control, strings.Join(names, ", "), more, closedPort)
}
