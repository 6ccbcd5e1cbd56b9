package rendezvous

import (
	"fmt"
	"slices"
)

// sealing is what the coordinator knows of the fence.
type sealing struct {
	serial   int    // of the last Seal
	waitsFor string // what that Seal waits for
	refused  string // why the fence refused: another agent coordinates; "" if it did not
}

// seal asks the fence to make the world unique, now that every member has accepted.
// The fence itself knows whose membership has ended.
func (c *coordinator) seal() {
	c.enter(roundSealing, sameDeadline)
	c.sealing.serial, c.sealing.waitsFor = c.nextSerial(), "its answer"
	cmd := Seal{Serial: c.sealing.serial, World: *c.round.world, Later: c.job.last != nil}
	for _, s := range c.seats.here {
		if s.state == seatWaiting {
			cmd.Here = append(cmd.Here, s.node.ID)
		}
	}
	for id, s := range c.seats.byID {
		if s.state == seatLost || s.state == seatLeft {
			cmd.Dead = append(cmd.Dead, id)
		}
	}
	slices.Sort(cmd.Dead)
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
		c.addFailures(c.m.here(KindRendezvous, "the job ended without this node: "+e.Text))
		c.decide()
	case e.Refused:
		c.sealing.refused = e.Text
		c.m.emit(Note{Text: "the job went on elsewhere: " + e.Text})
		c.burn()
	default:
		c.burn()
	}
}

// unseal gives the run id back if no worker of the job can live anywhere. If one
// may, the record ends with the lease of its node, which is certainly idle then.
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
			if !s.cleared && (!s.connected() || c.round.world == c.job.last) {
				return
			}
		}
	}
	c.m.emit(Unseal{Job: c.job.last.Job, Round: c.job.last.Round})
}

// elsewhere: somebody has sealed a world.
func (m *Machine) elsewhere(e Elsewhere) {
	last := m.mem.sealed
	if last != nil && (e.Job != last.Job || e.Term < last.Term || e.Term == last.Term && e.Round <= last.Round) {
		return
	}
	if e.Control == m.self.Control || words(e.Control) != nil {
		return
	}
	m.mem.leads = Message{Addr: e.Control, Term: e.Term, Job: e.Job, Round: e.Round}
	m.mem.elsewhere = e
	if c := m.coord; c != nil && (c.job.last == nil || c.round.state == roundRecovering || c.round.state == roundForming || c.round.offering()) {
		c.sealing.refused = "a world of this run was sealed by " + e.Control // what this one saw of the others is old
	}
	if m.coord == nil && !m.mem.linked {
		m.adopt()
	}
}

// adopt: the world that this agent has accepted was sealed, but the coordinator
// was lost before it said so. No worker of it has started here; the next one in
// line goes on from it.
func (m *Machine) adopt() {
	w, e := m.mem.accepted, m.mem.elsewhere
	if w == nil || w == m.mem.sealed || w.Job != e.Job || w.Term != e.Term || w.Round != e.Round {
		return
	}
	m.mem.sealed, m.mem.work, m.mem.spare, m.mem.follows = w, workIdle, false, false
	m.mem.orphanBy = m.now.Add(m.cfg.Rejoin)
}

// leader is the address of a coordinator that the fence knows of and that is
// worth a try now.
func (m *Machine) leader() string {
	addr := m.mem.leads.Addr
	if addr == "" || m.now.Before(m.avoid[addr]) {
		return ""
	}
	return addr
}

// hushed notes which streams say nothing.
func (m *Machine) hushed(e Hushed) {
	if e.On {
		m.quiet[e.Conn] = true
	} else {
		delete(m.quiet, e.Conn)
	}
}

// expire judges silence by what the fence says. While the fence confirms this
// agent, a peer that is quiet and whose membership has ended is lost. While it
// does not, others may be told that this agent's membership has ended; then
// whoever is quiet here may go on without this node, so it must stop at once.
func (m *Machine) expire() {
	if !m.cfg.Fenced || m.ended {
		return
	}
	if mem := &m.mem; mem.linked && m.quiet[mem.conn] && (m.lapsed || mem.sealed != nil && !m.sees(mem.sealed.Coordinator)) {
		conn := mem.conn
		m.emit(Close{conn})
		m.closed(Closed{Conn: conn, Silent: true, Text: m.silence()})
	}
	if c := m.coord; c != nil {
		for _, s := range c.silentMembers() {
			if s.inWorld() && (m.lapsed || m.whole && !m.sees(s.node.ID)) {
				m.emit(Close{s.conn})
				c.streamClosed(s.conn, true, m.silence())
				delete(m.quiet, s.conn)
			}
		}
		if m.whole && m.changed {
			m.changed = false
			c.markExpired()
			if c.sealing.refused != "" && m.mem.leads.Addr != "" && !m.reachable(m.mem.leads.Addr) {
				c.sealing.refused = "" // who went on without this node is gone
			}
		}
		if m.lapsed && !c.round.killed && c.round.working() && c.noteMissing() {
			c.round.killed = true
			c.abort(true)
		}
	}
	orphan := !m.mem.linked || m.coord != nil && m.coord.round.state == roundRecovering
	if w := m.mem.work; m.lapsed && orphan && (w == workRunning || w == workStopping) && !m.mem.killed {
		m.mem.killed = true
		m.stopWorkers(m.here(KindLost, m.silence()), true)
	}
}

func (m *Machine) silence() string {
	if m.lapsed {
		return "silent, and " + m.lapse
	}
	return "silent, and its membership has ended"
}

// silentMembers are the members of the world on whose streams nothing comes.
func (c *coordinator) silentMembers() []*seat {
	if len(c.m.quiet) == 0 {
		return nil
	}
	return slices.DeleteFunc(c.seats.members(), func(s *seat) bool { return !c.m.quiet[s.conn] })
}

// sees reports whether the backend shows an agent.
func (m *Machine) sees(id NodeID) bool { return m.known[id] }

// reachable reports whether the backend shows an agent at this address.
func (m *Machine) reachable(control string) bool {
	return slices.ContainsFunc(m.peers, func(p Peer) bool { return p.Control == control })
}

// markExpired marks the members of the last world whose membership has ended and
// that have no stream. A node stops its workers before its membership can end.
func (c *coordinator) markExpired() {
	if c.job.last == nil {
		return
	}
	for _, p := range c.job.last.Members {
		s, seen := c.seats.get(p.ID), c.m.sees(p.ID)
		switch {
		case seen && s.state == seatExpired: // it is a member again
			c.move(s, seatAbsent)
		case !seen && !s.connected() && !s.ended():
			c.move(s, seatExpired)
		}
	}
}

// noteMissing reports whether members of the world are out of reach and may be
// alive: they may go on without this node. The failures name them.
func (c *coordinator) noteMissing() bool {
	any := false
	for i, p := range c.round.world.Members {
		if c.seats.member(p.ID) != nil || c.seats.ended(p.ID) {
			continue
		}
		any = true
		c.addFailures(Cause{
			Kind: KindLost, Node: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: i, Rank: -1, LocalRank: -1,
			Message: c.m.silence(), Time: c.m.now,
		})
	}
	return any
}

// lapsed: the fence cannot confirm this agent, or can again.
func (m *Machine) lapsing(e Lapsed) {
	if e.On != m.lapsed && m.mem.work == workRunning && m.mem.linked {
		text := m.cfg.Where + " answers again"
		if e.On {
			text = fmt.Sprintf("%s; the workers go on as long as this node's connection to the others does", e.Text)
		}
		m.emit(Note{Text: text})
	}
	m.lapsed, m.lapse = e.On, e.Text
	if c := m.coord; c != nil && !e.On {
		c.round.killed = false
	}
}
