package rendezvous

import (
	"cmp"
	"slices"
	"time"
)

// seek looks for a coordinator: before the first world among the agents that
// serve an endpoint, afterwards among the members of the last world, in order.
func (m *Machine) seek() {
	mem := &m.mem
	if mem.dialing != "" {
		return
	}
	addr, self := m.firstChoice()
	if led := m.leader(); led != "" {
		addr, self = led, false
	} else if mem.placed() {
		addr, self = m.successor()
	} else if addr == "" && !self {
		addr = m.witness()
	}
	switch {
	case self && mem.outcome != nil: // whoever has not heard it will ask here
	case self && mem.spare: // a first world has been made; who goes on with it will call
	case self:
		m.coordinate()
	case addr != "":
		mem.dialing = addr
		m.emit(Dial{addr})
	}
}

// firstChoice is the best agent that serves an endpoint and is worth a try now.
func (m *Machine) firstChoice() (addr string, self bool) {
	for _, p := range m.servers() {
		if p.ID == m.self.ID {
			return "", true
		}
		if !m.now.Before(m.avoid[p.Control]) {
			return p.Control, false
		}
	}
	return "", false
}

func (m *Machine) servers() []Peer {
	ps := slices.DeleteFunc(slices.Clone(m.peers), func(p Peer) bool { return p.Endpoint < 0 })
	slices.SortFunc(ps, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.ID, b.ID))
	})
	return ps
}

// witness is an agent that may know who coordinates. A world that this agent has
// accepted without hearing more may have been committed, and the coordinator lost
// then: its members know. A spare asks anyone, for whoever leads the job now may
// not know of it.
func (m *Machine) witness() string {
	var at []string
	if w := m.mem.accepted; w != nil {
		for _, p := range w.Members {
			at = append(at, p.Control)
		}
	}
	if m.mem.spare {
		for _, p := range m.peers {
			at = append(at, p.Control)
		}
	}
	for _, addr := range at {
		if addr != "" && addr != m.self.Control && !m.now.Before(m.avoid[addr]) {
			m.shun(addr, statusEvery)
			return addr
		}
	}
	return ""
}

// shun leaves an address alone for a while.
func (m *Machine) shun(addr string, d time.Duration) {
	if t := m.now.Add(d); t.After(m.avoid[addr]) {
		m.avoid[addr] = t
	}
}

func (m *Machine) dialed(e Dialed) {
	if m.coord != nil && m.coord.called(e) {
		return
	}
	follow := m.coord != nil && (m.mayYield() || m.mem.summons.Addr == e.Addr && m.mayFollow(m.mem.summons))
	if m.mem.dialing != e.Addr || m.coord != nil && !follow || m.coord == nil && m.mem.linked {
		m.emit(Close{e.Conn})
		if m.mem.dialing == e.Addr {
			m.mem.dialing = ""
		}
		return
	}
	if m.coord != nil {
		m.yield(e.Addr)
	}
	m.link(e.Conn, e.Addr)
}

func (m *Machine) dialFailed(e DialFailed) {
	if m.coord != nil && m.coord.missed(e) || m.mem.dialing != e.Addr {
		return
	}
	m.mem.dialing, m.mem.lastErr = "", e.Text
	m.shun(e.Addr, m.cfg.Retry)
	if e.Addr == m.mem.leads.Addr {
		if e.Refused {
			m.mem.leads = Message{} // it is dead; whoever follows it will be heard of
		} else {
			m.shun(e.Addr, statusEvery)
		}
	}
	if m.coord != nil { // it was only a probe
		m.shun(e.Addr, statusEvery)
		return
	}
	if m.mem.placed() {
		m.markGone(e.Addr, e.Refused && !m.mem.silent)
	}
}

// redirected: the agent that was asked does not coordinate.
func (m *Machine) redirected(addr string) {
	from := m.mem.at
	m.unlink()
	if m.mem.placed() && m.mem.orphanBy.IsZero() {
		m.mem.orphanBy = m.now.Add(m.cfg.Rejoin)
	}
	m.shun(from, m.cfg.Retry)
	if addr != "" && addr != from && addr != m.self.Control && words(addr) == nil && !m.now.Before(m.avoid[addr]) {
		m.mem.dialing = addr
		m.emit(Dial{addr})
	}
}

func (m *Machine) unlink() {
	if m.mem.linked && m.mem.conn != Self {
		m.emit(Close{m.mem.conn})
	}
	m.mem.linked, m.mem.at, m.mem.proposed, m.mem.follows = false, "", nil, false
}

// refused: the coordinator will not have this agent.
func (m *Machine) refused(text string) {
	m.unlink()
	o := m.alone(m.here(KindRendezvous, "the coordinator refused this node: "+text))
	o.Parting = true
	m.finish(o)
}

// mayYield: before the first world an agent that serves a better endpoint
// coordinates. Two agents can take themselves for the first one for a moment,
// as their views of the others differ; the world's need for a majority of the
// endpoints keeps that harmless.
func (m *Machine) mayYield() bool {
	return m.coord != nil && m.coord.last == nil && m.coord.phase == forming && m.mem.stop == nil
}

// probe asks the agents that should coordinate rather than this one.
func (m *Machine) probe() {
	if m.mem.dialing != "" {
		return
	}
	if led := m.leader(); led != "" && m.mayFollow(m.mem.leads) {
		m.mem.summons, m.mem.dialing = m.mem.leads, led
		m.emit(Dial{led})
		return
	}
	if !m.mayYield() {
		return
	}
	if addr, self := m.firstChoice(); !self && addr != "" {
		m.mem.dialing = addr
		m.emit(Dial{addr})
	}
}

// yield hands this agent's seats over to a better coordinator.
func (m *Machine) yield(to string) {
	if m.coord.phase == sealing {
		m.emit(GiveUp{})
	}
	for _, s := range m.coord.seats {
		if s.conn != Self {
			m.emit(Send{s.conn, Message{Type: MsgRedirect, Addr: to}})
			m.emit(Close{s.conn})
		}
	}
	m.coord = nil
	m.mem.linked, m.mem.at, m.mem.proposed, m.mem.follows = false, "", nil, false
}

// coordinate makes this agent the coordinator.
func (m *Machine) coordinate() {
	m.mem.dialing = ""
	m.coord = newCoordinator(m)
	if m.cfg.Fenced {
		m.emit(Lead{})
	}
	m.mem.orphanBy = time.Time{}
	m.link(Self, "")
}
