package rendezvous

import (
	"encoding/json"
	"slices"
	"time"
)

// How long a query may take: nothing is sent about a job's state while nobody
// asks, so whoever asks waits for the slowest node.
const (
	surveyTime = time.Second            // a coordinator waits so long for the nodes' reports
	queryTime  = 2 * time.Second        // a member waits so long for its coordinator
	reportTime = time.Second            // and then so long for its own agent
	viewFresh  = 200 * time.Millisecond // many who watch a job cost it one survey
)

// query is what a member has asked its coordinator for its own agent. Queries
// that come meanwhile share the answer.
type query struct {
	serial int       // counts down from 0, so that no survey's serial is the same
	by     time.Time // zero: nothing is asked
	own    bool      // without the coordinator: only this agent's report is awaited
}

// queried: somebody asks this agent how the job stands.
func (m *Machine) queried() {
	q := &m.query
	if !q.by.IsZero() {
		return
	}
	q.serial--
	q.by, q.own = m.now.Add(queryTime), false
	m.tell(Message{Type: MsgQuery, Serial: q.serial})
}

// queryTick gives up on a coordinator that is gone or silent, and then on the
// own agent.
func (m *Machine) queryTick() {
	q := &m.query
	late := !m.now.Before(q.by)
	switch {
	case q.by.IsZero():
	case !q.own && (late || !m.mem.linked):
		q.own, q.by = true, m.now.Add(reportTime)
		m.emit(Report{q.serial})
	case q.own && late:
		m.present(m.ownView(nil).written(maxWhole))
	}
}

func (m *Machine) present(view json.RawMessage) {
	m.query.by = time.Time{}
	m.emit(Present{view})
}

// reported: the agent tells of its node, for this member's query or for the
// coordinator's survey.
func (m *Machine) reported(e Reported) {
	q := &m.query
	switch {
	case !q.by.IsZero() && q.own && e.Serial == q.serial:
		m.present(m.ownView(e.Body).written(maxWhole))
	case e.Serial > 0:
		if len(e.Body) > maxReport {
			e.Body = nil
		}
		m.tell(Message{Type: MsgReport, Serial: e.Serial, Body: e.Body})
	}
}

// viewed: the coordinator has answered.
func (m *Machine) viewed(msg Message) {
	q := &m.query
	if !q.by.IsZero() && !q.own && msg.Serial == q.serial && len(msg.Body) > 0 {
		m.present(msg.Body)
	}
}

// survey asks all nodes for their reports, once for all who want to know.
type survey struct {
	serial  int
	by      time.Time // zero: none is on its way
	reports map[*chair]json.RawMessage
	askers  map[*chair]int // the serial of each one's question
	view    json.RawMessage
	taken   time.Time // when view was
}

// queried: the member of this seat wants to know how the job stands.
func (c *coordinator) queried(s *chair, serial int) {
	v := &c.survey
	if v.view != nil && c.m.now.Sub(v.taken) < viewFresh {
		c.send(s, Message{Type: MsgView, Serial: serial, Body: v.view})
		return
	}
	if v.by.IsZero() {
		*v = survey{
			serial: c.nextSerial(), by: c.m.now.Add(surveyTime),
			reports: map[*chair]json.RawMessage{}, askers: map[*chair]int{},
		}
		for _, o := range c.seats {
			c.send(o, Message{Type: MsgInquire, Serial: v.serial})
		}
	}
	v.askers[s] = serial
}

// reported: a node answers. nil stands for what is too long to be kept.
func (c *coordinator) reported(s *chair, msg Message) {
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

// surveyTick tells those who asked, once everybody who is here has answered or
// the time is over.
func (c *coordinator) surveyTick() {
	v := &c.survey
	if v.by.IsZero() {
		return
	}
	if c.m.now.Before(v.by) {
		missing := func(s *chair) bool { _, told := v.reports[s]; return !told }
		if len(v.reports) < len(c.seats) || slices.ContainsFunc(c.seats, missing) {
			return
		}
	}
	v.view, v.taken, v.by = c.combine(v.reports).written(maxWhole), c.m.now, time.Time{}
	for _, s := range c.seats { // in a fixed order
		if serial, ok := v.askers[s]; ok {
			c.send(s, Message{Type: MsgView, Serial: serial, Body: v.view})
		}
	}
	v.reports, v.askers = nil, nil
}
