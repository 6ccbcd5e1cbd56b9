package rendezvous

import (
	"fmt"
	"slices"
)

// sealing is the state of the coordinator's Seal.
type sealing struct {
	serial   int    // of the last Seal
	waitsFor string // why that Seal waits
	refused  string // why the fence refused: another agent coordinates; "" if it did not
}

// seal asks the fence to make the world unique, now that every member has accepted.
// The fence itself knows which memberships have ended.
func (c *coordinator) seal() {
	c.enter(roundSealing, sameDeadline)
	c.sealing.serial, c.sealing.waitsFor = c.nextSerial(), c.m.cfg.Where+" has not answered yet"
	cmd := Seal{Serial: c.sealing.serial, World: *c.round.world, Later: c.job.last != nil}
	for _, s := range c.seats.here {
		if s.state == seatWaiting {
			cmd.Here = append(cmd.Here, s.node.ID)
		}
	}
	for id, s := range c.seats.byID {
		if s.state == seatLost || s.state == seatLeft {
			cmd.Lost = append(cmd.Lost, id)
		}
	}
	slices.Sort(cmd.Lost)
	c.m.emit(cmd)
}

// sealed takes the fence's answer.
func (c *coordinator) sealed(e Sealed) {
	if c.round.state != roundSealing || e.Serial != c.sealing.serial {
		return
	}
	switch {
	case e.OK:
		c.commit()
	case e.Ended: // a node that was cut off does not run a job again that others have ended
		c.sealing.refused = e.Text
		c.round.failures = nil
		c.addFailures(c.m.nodeCause(KindRendezvous, "the job ended without this node: "+e.Text))
		c.endJob()
	case e.Refused:
		c.sealing.refused = e.Text
		c.m.emit(Note{Text: "other nodes go on with the job: " + e.Text})
		c.burn()
	default:
		c.burn()
	}
}

// unseal gives the run id back if no worker of the job can live anywhere. Otherwise
// the record ends with the lease of the node that sealed the world. That node's workers
// have certainly ended then.
func (c *coordinator) unseal() {
	if !c.m.cfg.Fenced || c.job.last == nil || c.sealing.refused != "" {
		return
	}
	for _, p := range c.job.last.Members {
		s := c.seats.find(p.ID)
		if s == nil {
			return
		}
		switch s.state {
		case seatLost, seatExpired, seatLeft, seatWaiting, seatDone, seatStopped:
		default:
			if !s.wasIdle && (!s.connected() || c.round.world == c.job.last) {
				return
			}
		}
	}
	c.m.emit(Unseal{Job: c.job.last.Job, Round: c.job.last.Round})
}

// membership is what this agent's own fence says of this agent.
type membership struct {
	unconfirmed bool          // the fence does not confirm this agent
	why         string        // the reason
	silent      map[Conn]bool // streams on which nothing comes
}

// sealedElsewhere notes a world that any agent has sealed.
func (m *Machine) sealedElsewhere(e Elsewhere) {
	last := m.mem.work.sealed
	if last != nil && (e.Job != last.Job || e.Term < last.Term || e.Term == last.Term && e.Round <= last.Round) {
		return
	}
	if e.Control == m.self.Control || checkNames(e.Control) != nil {
		return
	}
	m.mem.search.leader = Message{Addr: e.Control, Term: e.Term, Job: e.Job, Round: e.Round}
	m.mem.search.sealed = e
	if c := m.coord; c != nil && (c.job.last == nil || c.round.state == roundRecovering || c.round.state == roundForming || c.round.isOffering()) {
		c.sealing.refused = "a world of this run was sealed by " + e.Control // what this agent saw of the others is old
	}
	if m.coord == nil && !m.mem.link.open {
		m.adoptSealed()
	}
}

// adoptSealed goes on from the world that this agent has accepted. The world was
// sealed, but the coordinator was lost before it said so. No worker of it has started
// here.
func (m *Machine) adoptSealed() {
	w, e := m.mem.work.accepted, m.mem.search.sealed
	if w == nil || w == m.mem.work.sealed || w.Job != e.Job || w.Term != e.Term || w.Round != e.Round {
		return
	}
	m.mem.work.sealed, m.mem.search.spare, m.mem.link.committed = w, false, false
	m.mem.search.until = m.now.Add(m.cfg.Rejoin)
}

// leader returns the address of a coordinator that the fence has seen and that may
// be dialled now.
func (m *Machine) leader() string {
	addr := m.mem.search.leader.Addr
	if addr == "" || m.now.Before(m.avoid[addr]) {
		return ""
	}
	return addr
}

// silenceChanged notes on which streams nothing comes.
func (m *Machine) silenceChanged(e Silence) {
	if e.On {
		m.fence.silent[e.Conn] = true
	} else {
		delete(m.fence.silent, e.Conn)
	}
}

// handleSilence decides by the fence what silence means. While the fence confirms this
// agent, a silent peer whose membership has ended is lost. While the fence does not
// confirm it, others may see the end of this agent's membership. A silent peer may
// then go on without this node, whose workers must stop at once.
func (m *Machine) handleSilence() {
	if !m.cfg.Fenced || m.ended {
		return
	}
	if mem := &m.mem; mem.link.open && m.fence.silent[mem.link.conn] && (m.fence.unconfirmed || mem.work.sealed != nil && !m.isVisible(mem.work.sealed.Coordinator)) {
		conn := mem.link.conn
		m.emit(Close{conn})
		m.streamClosed(Closed{Conn: conn, Silent: true, Text: m.silenceText()})
	}
	if c := m.coord; c != nil {
		for _, s := range c.silentMembers() {
			if s.inWorld() && (m.fence.unconfirmed || m.peers.complete && !m.isVisible(s.node.ID)) {
				m.emit(Close{s.conn})
				c.streamClosed(s.conn, true, m.silenceText())
				delete(m.fence.silent, s.conn)
			}
		}
		if m.peers.complete && m.peers.changed {
			m.peers.changed = false
			c.markExpired()
			if c.sealing.refused != "" && m.mem.search.leader.Addr != "" && !m.isShownAt(m.mem.search.leader.Addr) {
				c.sealing.refused = "" // the agents that went on without this node have ended
			}
		}
		if m.fence.unconfirmed && !c.round.killed && c.round.hasWorkers() && c.noteMissing() {
			c.round.killed = true
			c.abort(true)
		}
	}
	orphan := !m.mem.link.open || m.coord != nil && m.coord.round.state == roundRecovering
	if w := m.mem.work.state; m.fence.unconfirmed && orphan && (w == workRunning || w == workStopping) && !m.mem.work.killed {
		m.mem.work.killed = true
		m.stopWorkers(m.nodeCause(KindLost, m.silenceText()), true)
	}
}

// silenceText says why a silent node counts as lost.
func (m *Machine) silenceText() string {
	if m.fence.unconfirmed {
		return "silent, and " + m.fence.why
	}
	return "silent, and its membership has ended"
}

// silentMembers returns the members of the world on whose streams nothing comes.
func (c *coordinator) silentMembers() []*seat {
	if len(c.m.fence.silent) == 0 {
		return nil
	}
	return slices.DeleteFunc(c.seats.members(), func(s *seat) bool { return !c.m.fence.silent[s.conn] })
}

// isVisible reports whether the backend shows an agent.
func (m *Machine) isVisible(id NodeID) bool {
	_, known := m.peers.known[id]
	return known
}

// isShownAt reports whether the backend shows an agent at this address.
func (m *Machine) isShownAt(control string) bool {
	return slices.ContainsFunc(m.peers.all, func(p Peer) bool { return p.Control == control })
}

// markExpired marks the members of the last world whose membership has ended and
// that have no stream. A node stops its workers before its membership can end.
func (c *coordinator) markExpired() {
	if c.job.last == nil {
		return
	}
	for _, p := range c.job.last.Members {
		s, seen := c.seats.get(p.ID), c.m.isVisible(p.ID)
		switch {
		case seen && s.state == seatExpired: // it is a member again
			c.move(s, seatAbsent)
		case !seen && !s.connected() && !s.ended():
			c.move(s, seatExpired)
		}
	}
}

// noteMissing reports whether members of the world are out of reach and may be alive.
// They may go on without this node. The failures name them.
func (c *coordinator) noteMissing() bool {
	any := false
	for i, p := range c.round.world.Members {
		if c.seats.member(p.ID) != nil || c.seats.ended(p.ID) {
			continue
		}
		any = true
		c.addFailures(Cause{
			Kind: KindLost, Node: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: i, Rank: -1, LocalRank: -1,
			Message: c.m.silenceText(), Time: c.m.now,
		})
	}
	return any
}

// membershipChanged notes that the fence cannot confirm this agent, or can again.
func (m *Machine) membershipChanged(e Unconfirmed) {
	if e.On != m.fence.unconfirmed && m.mem.work.state == workRunning && m.mem.link.open {
		text := m.cfg.Where + " answers again"
		if e.On {
			text = fmt.Sprintf("%s; the workers go on as long as this node's connection to the others does", e.Text)
		}
		m.emit(Note{Text: text})
	}
	m.fence.unconfirmed, m.fence.why = e.On, e.Text
	if c := m.coord; c != nil && !e.On {
		c.round.killed = false
	}
}
