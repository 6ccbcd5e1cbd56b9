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
	// askTimeout is the time for the answers to a question; who has not answered
	// by then is judged without.
	askTimeout = 20 * time.Second
	// maxQuestions is how often a world's nodes are asked.
	maxQuestions = 2
)

// Bounds of what one node tells of its environment, and of what it is given, in
// bytes.
const (
	MaxEnv   = 1 << 20
	MaxGiven = 2 << 20
)

// exam is the examination of a world before it is proposed: facts of all its
// nodes are compared, and if that asks for more, every node is asked once more
// and all is compared again. What facts, questions and answers say is not the
// machine's business.
type exam struct {
	serial  int               // of the last Compare or question
	rank    map[NodeID]int    // group ranks
	compare bool              // a Compare is on its way
	rounds  int               // of questions
	answers []json.RawMessage // by group rank, to the last question; nil while nothing was asked
	missing int               // answers that have not come
	asked   time.Time
	heard   []time.Time // by group rank
	askedBy time.Time   // when the answers are no longer waited for
	passed  *Outcome    // of gorun check, once every node has accepted: it starts nothing
}

// check begins the examination of c.world.
func (c *coordinator) check() {
	deadline := c.deadline
	c.enter(checking, 0)
	c.deadline = deadline
	c.exam = &exam{rank: make(map[NodeID]int, len(c.world.Members))}
	for i, p := range c.world.Members {
		c.exam.rank[p.ID] = i
	}
	c.examine() // of a restart all facts are known
}

// waits reports whether the examination waits for what this member has to say.
func (x *exam) waits(s *chair) bool {
	switch {
	case x.compare:
		return false
	case x.answers == nil:
		return s.node.Facts && s.facts == nil
	default:
		return x.answers[x.rank[s.node.ID]] == nil
	}
}

// examine goes on as far as facts and answers allow.
func (c *coordinator) examine() {
	x := c.exam
	late := !x.askedBy.IsZero() && !c.m.now.Before(x.askedBy)
	switch {
	case x.compare:
		return
	case x.answers == nil && !c.all(func(s *chair) bool { return !x.waits(s) }):
		return
	case x.missing > 0 && !late:
		return
	}
	facts := make([]json.RawMessage, len(c.world.Members))
	envs := make([][]byte, len(facts))
	c.each(func(s *chair) {
		i := x.rank[s.node.ID]
		facts[i], envs[i] = s.facts, s.env
	})
	x.compare, x.askedBy = true, time.Time{}
	x.serial = c.nextSerial()
	var fresh []int
	for i, p := range c.world.Members {
		if c.last != nil && c.last.Index(p.ID) < 0 {
			fresh = append(fresh, i)
		}
	}
	c.m.emit(Compare{Serial: x.serial, World: *c.world, New: fresh, Facts: facts, Envs: envs, Questions: x.rounds, Answers: x.answers, Asked: x.asked, Heard: x.heard})
}

// inspect examines a node that came while a world runs: a node that could never
// take part need not wait for the next round to hear it.
func (c *coordinator) inspect(s *chair) {
	nodes := []Node{s.node}
	told := map[NodeID]*chair{s.node.ID: s}
	c.each(func(o *chair) {
		nodes = append(nodes, o.node)
		told[o.node.ID] = o
	})
	w := newWorld(seat(nodes, c.world), World{Term: c.term, Round: c.round, Job: c.job, Coordinator: c.m.self.ID})
	facts, envs := make([]json.RawMessage, len(w.Members)), make([][]byte, len(w.Members))
	for i, p := range w.Members {
		facts[i], envs[i] = told[p.ID].facts, told[p.ID].env
	}
	serial := c.nextSerial()
	c.late[serial] = s.node.ID
	c.m.emit(Compare{Serial: serial, World: w, New: []int{w.Index(s.node.ID)}, Late: true, Facts: facts, Envs: envs})
}

// dismiss ends these nodes' part in the job, which goes on without them. It is
// false when none of them can be spared: the coordinator cannot dismiss its own.
func (c *coordinator) dismiss(ids []NodeID, o Outcome) (any bool) {
	o.Parting = true
	for _, id := range ids {
		i := slices.IndexFunc(c.seats, func(s *chair) bool { return s.node.ID == id })
		if i < 0 || c.seats[i].conn == Self {
			continue
		}
		s := c.seats[i]
		c.send(s, Message{Type: MsgFinish, Outcome: &o})
		c.leave(s)
		if o.Cause != nil {
			c.turnedAway(refusedNode{clip(s.node.Name()), o.Cause.Line(), true})
		}
		any = true
	}
	return any
}

// nextSerial numbers what this coordinator asks, so that a late answer to an
// earlier question is told from one to the present one.
func (c *coordinator) nextSerial() int {
	c.serial++
	return c.serial
}

// compared takes the verdict on the world that is examined.
func (c *coordinator) compared(e Compared) {
	if id, ok := c.late[e.Serial]; ok {
		delete(c.late, e.Serial)
		i := slices.IndexFunc(c.seats, func(s *chair) bool { return s.node.ID == id })
		switch {
		case i < 0 || c.phase == decided:
		case e.Outcome == nil:
			c.seats[i].fit = true
		case !c.seats[i].inWorld:
			c.dismiss([]NodeID{id}, *e.Outcome)
		case c.offering(): // it was to take part in the next round
			c.dismiss([]NodeID{id}, *e.Outcome)
			c.burn()
		}
		return
	}
	x := c.exam
	if c.phase != checking || !x.compare || e.Serial != x.serial {
		return
	}
	x.compare = false
	n := len(c.world.Members)
	switch {
	case e.Outcome != nil && len(e.Only) > 0 && c.dismiss(e.Only, *e.Outcome):
		c.burn()
	case e.Outcome != nil && e.Outcome.Cause == nil:
		x.passed = e.Outcome
		c.offer()
	case e.Outcome != nil:
		o := *e.Outcome
		o.Rounds = c.records
		c.announce(o)
	case len(e.Ask) == n && x.rounds < maxQuestions:
		x.rounds++
		x.serial = c.nextSerial()
		x.answers, x.missing = make([]json.RawMessage, n), n
		x.asked, x.heard, x.askedBy = c.m.now, make([]time.Time, n), c.m.now.Add(askTimeout)
		c.each(func(s *chair) {
			c.send(s, Message{Type: MsgAsk, Serial: x.serial, Body: e.Ask[x.rank[s.node.ID]]})
		})
	default:
		c.each(func(s *chair) {
			if i := x.rank[s.node.ID]; i < len(e.Env) {
				s.given, c.world.Members[i].Env = e.Env[i], envHash(e.Env[i])
			}
		})
		c.offer()
	}
}

// told takes a member's facts, or its answer.
func (c *coordinator) told(s *chair, msg Message) {
	limit := maxBody
	if msg.Type == MsgFacts {
		limit = maxFacts
	}
	if len(msg.Body) > limit {
		c.m.emit(Note{Text: fmt.Sprintf("what %s tells of itself has %d bytes, more than %d; it is not looked at", s.node.Name(), len(msg.Body), limit)})
		msg.Body = nil
	}
	if msg.Body == nil {
		msg.Body = json.RawMessage("null")
	}
	if len(msg.Env) > MaxEnv {
		c.m.emit(Note{Text: fmt.Sprintf("what %s tells of its environment has %d bytes, more than %d; it is not looked at", s.node.Name(), len(msg.Env), MaxEnv)})
		msg.Env = nil
	}
	x := c.exam
	switch {
	case msg.Type == MsgFacts && s.facts != nil: // told once for all
	case msg.Type == MsgFacts:
		s.facts, s.env = msg.Body, msg.Env
		if c.phase == executing && !s.inWorld && c.m.cfg.Check {
			c.inspect(s)
		}
	case c.phase == checking && s.inWorld && !x.compare && x.answers != nil && msg.Serial == x.serial:
		if i := x.rank[s.node.ID]; x.answers[i] == nil {
			x.answers[i], x.heard[i] = msg.Body, c.m.now
			x.missing--
		}
	}
}

// facts: the agent has gathered what it tells of its node.
func (m *Machine) facts(e Facts) {
	m.mem.facts = &e
	m.tell(Message{Type: MsgFacts, Body: e.Body, Env: e.Env})
}

// asked passes the coordinator's question to the agent; answered brings the
// answer back.
func (m *Machine) asked(msg Message) {
	if len(msg.Body) <= maxBody {
		m.emit(Ask{Serial: msg.Serial, Body: msg.Body})
	}
}

func (m *Machine) answered(e Answered) {
	m.tell(Message{Type: MsgAnswer, Serial: e.Serial, Body: e.Body})
}
