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
	if mem.sealed != nil {
		addr, self = m.successor()
	} else if addr == "" && !self {
		addr = m.witness()
	}
	switch {
	case self && mem.outcome != nil: // whoever has not heard it will ask here
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

// witness is a member of the world that this agent has accepted without
// hearing more: it may have been committed, and the coordinator lost then.
func (m *Machine) witness() string {
	if m.mem.accepted == nil {
		return ""
	}
	for _, p := range m.mem.accepted.Members {
		if p.ID != m.self.ID && p.Control != "" && !m.now.Before(m.avoid[p.Control]) {
			m.shun(p.Control, statusEvery)
			return p.Control
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
	if m.coord != nil { // it was only a probe
		m.shun(e.Addr, statusEvery)
		return
	}
	if m.mem.sealed != nil {
		m.markGone(e.Addr, e.Refused && !m.mem.silent)
	}
}

// redirected: the agent that was asked does not coordinate.
func (m *Machine) redirected(addr string) {
	from := m.mem.at
	m.unlink()
	if m.mem.sealed != nil && m.mem.orphanBy.IsZero() {
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
	m.finish(m.alone(m.here(KindRendezvous, "the coordinator refused this node: "+text)))
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
	if !m.mayYield() || m.mem.dialing != "" {
		return
	}
	if addr, self := m.firstChoice(); !self && addr != "" {
		m.mem.dialing = addr
		m.emit(Dial{addr})
	}
}

// yield hands this agent's seats over to a better coordinator.
func (m *Machine) yield(to string) {
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
	m.mem.orphanBy = time.Time{}
	m.link(Self, "")
}
