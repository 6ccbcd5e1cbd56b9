package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
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

// buildView makes a view of the seats' reports.
func (c *coordinator) buildView(reports map[*seat]json.RawMessage) View {
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
				n.addReport(s, reports, &room)
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
		n.addReport(s, reports, &room)
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

// memberView returns a member of the world as a view shows it.
func memberView(p *Member, group int) NodeView {
	return NodeView{ID: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: group, FirstRank: p.FirstRank, Workers: p.Workers, Participation: NodeUnknown}
}

// addReport adds a node's report while there is room for it.
func (n *NodeView) addReport(s *seat, reports map[*seat]json.RawMessage, room *int) {
	body, ok := reports[s]
	switch {
	case !ok:
		n.Trouble = "it has not answered within " + surveyTime.String()
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

// How long a query may take. Nothing is sent about a job's state without a question,
// so a question waits for the slowest node.
const (
	surveyTime = time.Second            // a coordinator waits so long for the nodes' reports
	queryTime  = 2 * time.Second        // a member waits so long for its coordinator
	reportTime = time.Second            // and then so long for its own agent
	viewFresh  = 200 * time.Millisecond // many terminals that watch a job cost it one survey
)

// query is a question of this agent to its coordinator. Queries that come meanwhile
// share the answer.
type query struct {
	serial int       // counts down from 0, so that no survey's serial is the same
	by     time.Time // zero: nothing is asked
	local  bool      // without the coordinator: only this agent's report is awaited
}

// queryReceived asks the coordinator how the job stands.
func (m *Machine) queryReceived() {
	q := &m.query
	if !q.by.IsZero() {
		return
	}
	q.serial--
	q.by, q.local = m.now.Add(queryTime), false
	m.sendToCoordinator(Message{Type: MsgQuery, Serial: q.serial})
}

// queryTick stops waiting for a coordinator that is lost or silent, and then for this
// agent's own report.
func (m *Machine) queryTick() {
	q := &m.query
	elapsed := !m.now.Before(q.by)
	switch {
	case q.by.IsZero():
	case !q.local && (elapsed || !m.mem.link.open):
		q.local, q.by = true, m.now.Add(reportTime)
		m.emit(Report{q.serial})
	case q.local && elapsed:
		m.present(m.localView(nil).marshal(maxEncodedView))
	}
}

// present answers the query of this agent.
func (m *Machine) present(view json.RawMessage) {
	m.query.by = time.Time{}
	m.emit(Present{view})
}

// localReportReceived takes the agent's report about its node, for this member's query
// or for the coordinator's survey.
func (m *Machine) localReportReceived(e Reported) {
	q := &m.query
	switch {
	case !q.by.IsZero() && q.local && e.Serial == q.serial:
		m.present(m.localView(e.Body).marshal(maxEncodedView))
	case e.Serial > 0:
		if len(e.Body) > maxReport {
			e.Body = nil
		}
		m.sendToCoordinator(Message{Type: MsgReport, Serial: e.Serial, Body: e.Body})
	}
}

// viewReceived presents the coordinator's view.
func (m *Machine) viewReceived(msg Message) {
	q := &m.query
	if !q.by.IsZero() && !q.local && msg.Serial == q.serial && len(msg.Body) > 0 {
		m.present(msg.Body)
	}
}

// survey is one question to all nodes for their reports, for all members that ask.
type survey struct {
	serial  int
	by      time.Time // zero: none is on its way
	reports map[*seat]json.RawMessage
	askers  map[*seat]int // the serial of each one's question
	view    json.RawMessage
	taken   time.Time // when view was
}

// queryReceived starts a survey for a member that asks how the job stands.
func (c *coordinator) queryReceived(s *seat, serial int) {
	v := &c.survey
	if v.view != nil && c.m.now.Sub(v.taken) < viewFresh {
		c.send(s, Message{Type: MsgView, Serial: serial, Body: v.view})
		return
	}
	if v.by.IsZero() {
		*v = survey{
			serial: c.nextSerial(), by: c.m.now.Add(surveyTime),
			reports: map[*seat]json.RawMessage{}, askers: map[*seat]int{},
		}
		for _, o := range c.seats.here {
			c.send(o, Message{Type: MsgInquire, Serial: v.serial})
		}
	}
	v.askers[s] = serial
}

// reportReceived keeps a node's report. nil stands for a report that is too long to
// be kept.
func (c *coordinator) reportReceived(s *seat, msg Message) {
	v := &c.survey
	if v.by.IsZero() || msg.Serial != v.serial {
		return
	}
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
	v := &c.survey
	if v.by.IsZero() {
		return
	}
	if c.m.now.Before(v.by) {
		missing := func(s *seat) bool { _, ok := v.reports[s]; return !ok }
		if len(v.reports) < len(c.seats.here) || slices.ContainsFunc(c.seats.here, missing) {
			return
		}
	}
	v.view, v.taken, v.by = c.buildView(v.reports).marshal(maxEncodedView), c.m.now, time.Time{}
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
		if len(c.seats.here) >= c.m.self.Min {
			st.Note = c.quorumProblem()
			if !c.round.lastCall.IsZero() {
				st.Left, st.Note = c.round.lastCall.Sub(c.m.now), "last call for more nodes"
			}
		}
	}
	return st
}
