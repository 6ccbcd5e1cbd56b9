package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// maxFacts and maxBody bound facts, and questions and answers, in bytes each.
	maxFacts = 256 << 10
	maxBody  = 4 << 20
	// askTimeout is the time for the answers to a question. The check goes on without
	// the answers that have not come by then.
	askTimeout = 20 * time.Second
	// maxQuestions is how often a world's nodes are asked.
	maxQuestions = 2
)

// Bounds of what one node says of its environment, and of the environment that it
// gets, in bytes.
const (
	MaxEnv        = 1 << 20
	MaxAssignment = 2 << 20
)

// check is the comparison of a world's nodes before the world is proposed. The facts
// of all nodes are compared. If that raises a question, every node is asked it and
// all is compared again. The machine does not interpret facts, questions and answers.
type check struct {
	serial     int               // of the last Compare or question
	rank       map[NodeID]int    // group ranks
	comparing  bool              // a Compare is on its way
	questions  int               // that were asked
	answers    []json.RawMessage // by group rank, to the last question; nil while nothing was asked
	missing    int               // answers that have not come
	askedAt    time.Time
	answeredAt []time.Time // by group rank
	askedBy    time.Time   // when the answers are no longer awaited
	passed     *Outcome    // of gorun check, once every node has accepted: it starts nothing
}

// startCheck begins the check of the world. At a restart all facts are known.
func (c *coordinator) startCheck() {
	c.enter(roundChecking, sameDeadline)
	c.check = &check{rank: make(map[NodeID]int, len(c.round.world.Members))}
	for i, p := range c.round.world.Members {
		c.check.rank[p.ID] = i
	}
	c.compare()
}

// waitsFor reports whether the check waits for facts or an answer of a member.
func (x *check) waitsFor(s *seat) bool {
	switch {
	case x.comparing:
		return false
	case x.answers == nil:
		return s.node.Facts && s.facts == nil
	default:
		return x.answers[x.rank[s.node.ID]] == nil
	}
}

// compare compares the members once their facts and answers are here.
func (c *coordinator) compare() {
	x := c.check
	elapsed := !x.askedBy.IsZero() && !c.m.now.Before(x.askedBy)
	switch {
	case x.comparing:
		return
	case x.answers == nil && slices.ContainsFunc(c.seats.members(), x.waitsFor):
		return
	case x.missing > 0 && !elapsed:
		return
	}
	facts := make([]json.RawMessage, len(c.round.world.Members))
	envs := make([][]byte, len(facts))
	for _, s := range c.seats.members() {
		i := x.rank[s.node.ID]
		facts[i], envs[i] = s.facts, s.env
	}
	x.comparing, x.askedBy = true, time.Time{}
	x.serial = c.nextSerial()
	var fresh []int
	for i, p := range c.round.world.Members {
		if c.job.last != nil && c.job.last.Index(p.ID) < 0 {
			fresh = append(fresh, i)
		}
	}
	c.m.emit(Compare{Serial: x.serial, World: *c.round.world, New: fresh, Facts: facts, Envs: envs, Questions: x.questions, Answers: x.answers, AskedAt: x.askedAt, AnsweredAt: x.answeredAt})
}

// compareNewcomer compares a node that came while a world runs with the members. A
// node that could never take part learns this before the next round.
func (c *coordinator) compareNewcomer(s *seat) {
	nodes := []Node{s.node}
	seated := map[NodeID]*seat{s.node.ID: s}
	for _, o := range c.seats.members() {
		nodes = append(nodes, o.node)
		seated[o.node.ID] = o
	}
	w := newWorld(orderNodes(nodes, c.round.world), World{Term: c.job.term, Round: c.job.round, Job: c.job.id, Coordinator: c.m.self.ID})
	facts, envs := make([]json.RawMessage, len(w.Members)), make([][]byte, len(w.Members))
	for i, p := range w.Members {
		facts[i], envs[i] = seated[p.ID].facts, seated[p.ID].env
	}
	serial := c.nextSerial()
	c.newcomerChecks[serial] = s.node.ID
	c.m.emit(Compare{Serial: serial, World: w, New: []int{w.Index(s.node.ID)}, WorldRuns: true, Facts: facts, Envs: envs})
}

// reject ends these nodes' part in the job, which goes on without them. It reports
// whether there was one. The coordinator cannot reject its own node.
func (c *coordinator) reject(ids []NodeID, o Outcome) (any bool) {
	o.OnlyThisNode = true
	for _, id := range ids {
		s := c.seats.find(id)
		if s == nil || !s.connected() || s.conn == Self {
			continue
		}
		name := clip(s.node.Name())
		c.send(s, Message{Type: MsgFinish, Outcome: &o})
		c.dismiss(s, seatAbsent)
		if o.Cause != nil {
			c.noteRefusal(refusedNode{name, o.Cause.Line(), true})
		}
		any = true
	}
	return any
}

// nextSerial numbers the questions of this coordinator. A late answer has the number
// of an earlier question.
func (c *coordinator) nextSerial() int {
	c.serial++
	return c.serial
}

// newcomerCompared takes the result for a newcomer, which may have a place in the next
// world by now.
func (c *coordinator) newcomerCompared(id NodeID, o *Outcome) {
	s := c.seats.find(id)
	switch {
	case s == nil || !s.connected() || c.round.state == roundDecided:
	case o == nil:
		s.fits = true
	case !s.inWorld():
		c.reject([]NodeID{id}, *o)
	case c.round.isOffering():
		c.reject([]NodeID{id}, *o)
		c.burn()
	}
}

// compared takes the result of a Compare.
func (c *coordinator) compared(e Compared) {
	if id, ok := c.newcomerChecks[e.Serial]; ok {
		delete(c.newcomerChecks, e.Serial)
		c.newcomerCompared(id, e.Outcome)
		return
	}
	x := c.check
	if c.round.state != roundChecking || !x.comparing || e.Serial != x.serial {
		return
	}
	x.comparing = false
	n := len(c.round.world.Members)
	switch {
	case e.Outcome != nil && len(e.Only) > 0 && c.reject(e.Only, *e.Outcome):
		c.burn()
	case e.Outcome != nil && e.Outcome.Cause == nil:
		x.passed = e.Outcome
		c.offer()
	case e.Outcome != nil:
		o := *e.Outcome
		o.Rounds = c.job.records
		c.sendOutcome(o)
	case len(e.Ask) == n && x.questions < maxQuestions:
		x.questions++
		x.serial = c.nextSerial()
		x.answers, x.missing = make([]json.RawMessage, n), n
		x.askedAt, x.answeredAt, x.askedBy = c.m.now, make([]time.Time, n), c.m.now.Add(askTimeout)
		for _, s := range c.seats.members() {
			c.send(s, Message{Type: MsgAsk, Serial: x.serial, Body: e.Ask[x.rank[s.node.ID]]})
		}
	default:
		for _, s := range c.seats.members() {
			if i := x.rank[s.node.ID]; i < len(e.Env) {
				s.workerEnv, c.round.world.Members[i].Env = e.Env[i], envHash(e.Env[i])
			}
		}
		c.offer()
	}
}

// bounded returns what a node sent, or null if it is more than limit bytes.
func (c *coordinator) bounded(s *seat, body json.RawMessage, limit int) json.RawMessage {
	if len(body) > limit {
		c.m.emit(Note{Text: fmt.Sprintf("gorun ignores what %s sent: it has %d bytes, at most %d are allowed", s.node.Name(), len(body), limit)})
		body = nil
	}
	if body == nil {
		return json.RawMessage("null")
	}
	return body
}

// factsReceived keeps the first facts of a node.
func (c *coordinator) factsReceived(s *seat, msg Message) {
	body := c.bounded(s, msg.Body, maxFacts)
	if len(msg.Env) > MaxEnv {
		c.m.emit(Note{Text: fmt.Sprintf("gorun ignores the environment of %s: it has %d bytes, at most %d are allowed", s.node.Name(), len(msg.Env), MaxEnv)})
		msg.Env = nil
	}
	if s.facts != nil {
		return
	}
	s.facts, s.env = body, msg.Env
	if c.round.state == roundRunning && !s.inWorld() && c.m.cfg.Check {
		c.compareNewcomer(s)
	}
}

// answerReceived keeps a member's answer to the question of the check.
func (c *coordinator) answerReceived(s *seat, msg Message) {
	body := c.bounded(s, msg.Body, maxBody)
	x := c.check
	if c.round.state != roundChecking || !s.inWorld() || x.comparing || x.answers == nil || msg.Serial != x.serial {
		return
	}
	if i := x.rank[s.node.ID]; x.answers[i] == nil {
		x.answers[i], x.answeredAt[i] = body, c.m.now
		x.missing--
	}
}

// factsGathered sends the facts of this node.
func (m *Machine) factsGathered(e Facts) {
	m.mem.program.facts = &e
	m.sendToCoordinator(Message{Type: MsgFacts, Body: e.Body, Env: e.Env})
}

// questionReceived passes the coordinator's question to the agent.
func (m *Machine) questionReceived(msg Message) {
	if len(msg.Body) <= maxBody {
		m.emit(Ask{Serial: msg.Serial, Body: msg.Body})
	}
}

// localAnswerReceived sends the agent's answer.
func (m *Machine) localAnswerReceived(e Answered) {
	m.sendToCoordinator(Message{Type: MsgAnswer, Serial: e.Serial, Body: e.Body})
}
