package rendezvous

// call is an attempt of a coordinator to reach an agent that should have a seat.
// One that answers is told where the coordinator is (a redirect on a stream
// that it did not open); one that does not is perhaps dead.
type call struct {
	id     NodeID
	broken bool // the stream to it broke: if its host refuses now, it is dead
}

const maxCalls = 16 // at a time

func (c *coordinator) call(addr string, to call) {
	if _, ok := c.calls[addr]; ok || len(c.calls) >= maxCalls || addr == "" || addr == c.m.self.Control || c.final {
		return
	}
	c.calls[addr] = to
	c.m.emit(Dial{addr})
}

// gather calls the members of the last world that are missing, and agents that
// look for this job where it no longer is: the endpoint's agent may be lost.
func (c *coordinator) gather() {
	if c.last == nil || c.final || c.phase == decided && !c.took {
		return
	}
	here := c.present()
	if c.phase != executing && c.phase != halting && c.phase != decided {
		for _, p := range c.last.Members {
			if !here[p.ID] && !c.dead[p.ID] {
				c.call(p.Control, call{id: p.ID})
			}
		}
	}
	if len(here) >= c.m.self.Max && c.phase != decided {
		return
	}
	for _, p := range c.m.peers {
		if here[p.ID] || c.last.Index(p.ID) >= 0 {
			continue
		}
		if c.phase == decided { // a spare of the coordinator that was lost: it must hear how the job ended
			if c.sought[p.ID] {
				continue
			}
			c.sought[p.ID], c.away[p.ID] = true, true
		}
		c.call(p.Control, call{id: p.ID})
	}
}

// called: a call was answered.
func (c *coordinator) called(e Dialed) bool {
	_, ok := c.calls[e.Addr]
	if !ok {
		return false
	}
	delete(c.calls, e.Addr)
	c.m.emit(Send{e.Conn, Message{Type: MsgRedirect, Addr: c.m.self.Control, Term: c.term, Job: c.job, Round: c.last.Round}})
	c.m.emit(Close{e.Conn})
	return true
}

// missed: a call was not answered. After silence even a refused connection says
// nothing: the agent may have gone on without this one and ended since.
func (c *coordinator) missed(e DialFailed) bool {
	to, ok := c.calls[e.Addr]
	delete(c.calls, e.Addr)
	if ok && c.phase == decided && c.sought[to.id] {
		delete(c.away, to.id)
	}
	if ok && to.broken && e.Refused && !c.present()[to.id] {
		c.dead[to.id] = true
		delete(c.expired, to.id) // seen here: the fence may still keep its membership
		delete(c.away, to.id)
		if c.phase == sealing {
			c.seal() // the fence need not wait for the end of its membership
		}
	}
	return ok
}

// summoned: a coordinator that this agent does not follow calls it.
func (m *Machine) summoned(msg Message) {
	if msg.Addr == "" || msg.Addr == m.self.Control || words(msg.Addr) != nil || m.mem.outcome != nil {
		return
	}
	if m.coord == nil && m.mem.linked {
		return
	}
	if m.coord != nil && !m.mayFollow(msg) {
		m.coord.answer(msg)
		return
	}
	if m.mem.dialing != "" { // next
		m.mem.leads = Message{Addr: msg.Addr, Term: msg.Term, Job: msg.Job, Round: msg.Round}
		return
	}
	m.mem.summons, m.mem.dialing = msg, msg.Addr
	m.emit(Dial{msg.Addr})
}

// answer calls a coordinator back that has to follow this one. Its part of a cut
// network could not go on; now that it heals it calls the nodes that it misses,
// of which this one may know nothing any more.
func (c *coordinator) answer(other Message) {
	if c.last != nil && other.Job == c.job && c.precedes(other) {
		c.call(other.Addr, call{})
	}
}

// precedes reports whether another coordinator of this job has to follow this one.
// The later world counts: the side that has sealed it is the job, and no other side
// could. Of two that have seen the same world, and lost each other, the later one
// leads.
func (c *coordinator) precedes(other Message) bool {
	if other.Job == c.job && other.Round != c.last.Round {
		return other.Round < c.last.Round
	}
	return other.Term < c.term || other.Term == c.term && other.Addr > c.m.self.Control
}

// mayFollow reports whether this coordinator gives way to another one. One that
// was told to end the job gives way like any other and takes that order along:
// two that both decide would tell their nodes two outcomes. A world that is on
// its way to be sealed is given up only for a later world.
func (m *Machine) mayFollow(other Message) bool {
	c := m.coord
	switch {
	case m.mayYield():
		return true
	case c.outvoted != "":
		return true
	case c.final || c.last == nil:
		return false
	case c.offering():
		return other.Job == c.job && other.Round > c.last.Round
	default:
		return (c.phase == recovering || c.phase == forming) && !c.precedes(other)
	}
}
