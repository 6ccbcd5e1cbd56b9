package rendezvous

import (
	"fmt"
	"slices"
)

// seal asks the fence to make the world unique, now that everyone has accepted.
func (c *coordinator) seal() {
	deadline := c.deadline
	c.enter(sealing, 0)
	c.deadline = deadline
	c.asked, c.waits = c.nextSerial(), "its answer"
	cmd := Seal{Serial: c.asked, World: *c.world, Later: c.last != nil}
	for _, s := range c.seats {
		if !s.inWorld && !s.busy {
			cmd.Here = append(cmd.Here, s.node.ID)
		}
	}
	for id, dead := range c.dead {
		if dead && !c.expired[id] { // the fence knows better who has expired, and who came back
			cmd.Dead = append(cmd.Dead, id)
		}
	}
	slices.Sort(cmd.Dead)
	c.m.emit(cmd)
}

// sealed takes the fence's answer.
func (c *coordinator) sealed(e Sealed) {
	if c.phase != sealing || e.Serial != c.asked {
		return
	}
	switch {
	case e.OK:
		c.commit()
	case e.Ended: // who was cut off does not run a job again that others have ended
		c.outvoted = e.Text
		c.failures = nil
		c.add(c.m.here(KindRendezvous, "the job ended without this node: "+e.Text))
		c.decide()
	case e.Refused:
		c.outvoted = e.Text
		c.m.emit(Note{Text: "the job went on elsewhere: " + e.Text})
		c.burn()
	default:
		c.burn()
	}
}

// unseal gives the run id back, if no worker of the job can live anywhere.
func (c *coordinator) unseal() {
	if !c.m.cfg.Fenced || c.last == nil || c.outvoted != "" {
		return
	}
	idle := map[NodeID]bool{}
	for _, s := range c.seats {
		idle[s.node.ID] = s.over || s.done || !s.inWorld && !s.busy || c.world != c.last
	}
	for _, p := range c.last.Members {
		if !c.dead[p.ID] && !c.gone[p.ID] && !idle[p.ID] {
			return // the record ends with its lease, when that node is certainly idle
		}
	}
	c.m.emit(Unseal{Job: c.last.Job, Round: c.last.Round})
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
	if c := m.coord; c != nil && (c.last == nil || c.phase == recovering || c.phase == forming || c.offering()) {
		c.outvoted = "a world of this run was sealed by " + e.Control // what this one saw of the others is old
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
	m.mem.sealed, m.mem.work, m.mem.spare, m.mem.follows = w, idle, false, false
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
		for _, s := range c.hushed() {
			if s.inWorld && m.quiet[s.conn] && (m.lapsed || m.whole && !m.sees(s.node.ID)) {
				m.emit(Close{s.conn})
				c.lost(s.conn, true, m.silence())
				delete(m.quiet, s.conn)
			}
		}
		if m.whole && m.changed {
			m.changed = false
			c.bury()
			if c.outvoted != "" && m.mem.leads.Addr != "" && !m.reachable(m.mem.leads.Addr) {
				c.outvoted = "" // who went on without this node is gone
			}
		}
		if m.lapsed && !c.killed && (c.phase == halting || c.phase == executing) && c.part() {
			c.killed = true
			c.abort(true)
		}
	}
	orphan := !m.mem.linked || m.coord != nil && m.coord.phase == recovering
	if w := m.mem.work; m.lapsed && orphan && (w == running || w == stopping) && !m.mem.killed {
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

// hushed are the seats, if nothing comes in on any stream.
func (c *coordinator) hushed() []*chair {
	if len(c.m.quiet) == 0 {
		return nil
	}
	return slices.Clone(c.seats)
}

// sees reports whether the backend shows an agent.
func (m *Machine) sees(id NodeID) bool { return m.known[id] }

// reachable reports whether the backend shows an agent at this address.
func (m *Machine) reachable(control string) bool {
	return slices.ContainsFunc(m.peers, func(p Peer) bool { return p.Control == control })
}

// bury counts as dead who is neither here nor a member any more: it has stopped
// its workers before its membership could end.
func (c *coordinator) bury() {
	if c.last == nil {
		return
	}
	here := c.present()
	for _, p := range c.last.Members {
		switch seen := c.m.sees(p.ID); {
		case seen && c.expired[p.ID]: // it is a member again
			delete(c.expired, p.ID)
			delete(c.dead, p.ID)
		case !seen && !here[p.ID] && !c.dead[p.ID]:
			c.dead[p.ID], c.expired[p.ID] = true, true
			delete(c.away, p.ID)
		}
	}
}

// part reports whether members of the world are out of reach and may be alive,
// though they have no work: they may go on without this node. The failures name
// them.
func (c *coordinator) part() bool {
	any := false
	for i, p := range c.world.Members {
		if c.seatOf(p.ID) != nil || c.dead[p.ID] {
			continue
		}
		any = true
		c.add(Cause{
			Kind: KindLost, Node: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: i, Rank: -1, LocalRank: -1,
			Message: c.m.silence(), Time: c.m.now,
		})
	}
	return any
}

// lapsed: the fence cannot confirm this agent, or can again.
func (m *Machine) lapsing(e Lapsed) {
	if e.On != m.lapsed && m.mem.work == running && m.mem.linked {
		text := m.cfg.Where + " answers again"
		if e.On {
			text = fmt.Sprintf("%s; the workers go on as long as this node's connection to the others does", e.Text)
		}
		m.emit(Note{Text: text})
	}
	m.lapsed, m.lapse = e.On, e.Text
	if c := m.coord; c != nil && !e.On {
		c.killed = false
	}
}
