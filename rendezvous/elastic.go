package rendezvous

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// grows reports whether it is time to take in nodes that came to a running
// elastic job. They are given as long as a last call, with the workers running;
// when the job can be full nobody is waited for.
func (c *coordinator) grows() bool {
	me := c.m.self
	members := len(c.world.Members)
	fit := 0
	for _, s := range c.seats {
		switch {
		case s.done: // the job is about to end
			return false
		case !s.inWorld && !s.busy && s.fit:
			fit++
		}
	}
	if !c.m.cfg.Grow || members >= me.Max || fit == 0 {
		c.growAt = time.Time{}
		return false
	}
	if c.growAt.IsZero() {
		c.growAt = c.m.now.Add(c.m.cfg.LastCall)
	}
	return members+fit >= me.Max || !c.m.now.Before(c.growAt)
}

// grow ends the round so that the next one has the nodes that came.
func (c *coordinator) grow() {
	for _, s := range c.seats {
		if !s.inWorld && !s.busy && s.fit {
			cause := c.m.here(KindJoined, "")
			cause.Node, cause.Host, cause.Addr, cause.GroupRank = s.node.ID, s.node.Host, s.node.Addr, -1
			c.add(cause)
		}
	}
	c.growAt = time.Time{}
	c.abort(false)
}

// spares reports whether the job can do without the member that was told to end:
// SIGTERM takes one node out of an elastic job that has enough others, as when
// its machine is reclaimed. Every other signal ends the job.
// Somebody who was in the last world must be left to lead the next one.
func (c *coordinator) spares(s *chair, msg Message) bool {
	f := msg.Failures[0]
	if c.m.self.Min == c.m.self.Max || c.final || c.last == nil || msg.Kill || f.Kind != KindStopped || f.Signal != syscall.SIGTERM {
		return false
	}
	if c.phase != executing && c.phase != halting && c.phase != forming && !c.offering() {
		return false
	}
	rest, heir := 0, false
	for _, o := range c.seats {
		if o != s && o.leaving == nil && !o.done {
			rest++
			heir = heir || o.conn == Self || c.last.Index(o.node.ID) >= 0
		}
	}
	return rest >= c.m.self.Min && heir
}

// leaves takes a member out of the job, which goes on.
func (c *coordinator) leaves(s *chair, why Cause) {
	s.leaving = &why
	left := why
	left.Kind, left.Message = KindLeft, "its agent received "+SignalName(why.Signal)
	switch {
	case c.phase == forming:
		c.release()
	case c.offering():
		c.burn()
		c.release()
	default:
		c.add(left)
		c.abort(false)
	}
}

// release lets the leaving nodes go. It is true if this node was one of them:
// another member leads from now on.
func (c *coordinator) release() bool {
	var own *chair
	for _, s := range slices.Clone(c.seats) {
		switch {
		case s.leaving == nil:
		case s.conn == Self:
			own = s
		default:
			c.send(s, Message{Type: MsgFinish, Outcome: parting(s.leaving)})
			c.gone[s.node.ID] = true
			c.dead[s.node.ID] = true // no worker lives there, and it has no vote any more
			c.leave(s)
		}
	}
	if own == nil {
		return false
	}
	for _, s := range c.seats {
		if s.conn != Self {
			c.m.emit(Send{s.conn, Message{Type: MsgHandover, Round: c.round, Restart: c.restart, Digest: c.last.Digest()}})
			c.m.emit(Close{s.conn})
		}
	}
	c.m.emit(Note{Text: fmt.Sprintf("%s leaves the job; another node coordinates it", c.m.self.Name())})
	c.m.coord = nil
	c.m.mem.linked = false
	c.m.finish(*parting(own.leaving))
	return true
}

// parting is how the job ends for a node that leaves it.
func parting(why *Cause) *Outcome { return &Outcome{Code: why.Code(), Cause: why, Parting: true} }

// handedOver: the coordinator has left the job in order; the next one in line
// forms the next round.
func (m *Machine) handedOver(msg Message) {
	at := m.mem.at
	m.unlink()
	m.shun(at, m.cfg.Rejoin)                                     // the backend may still name it
	if w := m.mem.sealed; w == nil || w.Digest() != msg.Digest { // has no place in the last world: it will be called
		m.mem.spare, m.joinBy = true, m.now.Add(m.cfg.Join)
		return
	}
	m.mem.handed = &msg
	m.markGone(at, true)
	m.mem.orphanBy = m.now.Add(m.cfg.Rejoin)
}
