package rendezvous

// successor is the member of the last world whose turn it is to coordinate.
func (m *Machine) successor() (addr string, self bool) {
	if !m.now.Before(m.mem.orphanBy) {
		return "", true
	}
	for _, p := range m.mem.sealed.Members {
		if _, gone := m.mem.gone[p.ID]; gone {
			continue
		}
		if p.ID == m.self.ID {
			return "", true
		}
		if m.now.Before(m.avoid[p.Control]) {
			return "", false // its turn, but not yet: the order matters
		}
		return p.Control, false
	}
	return "", true
}

// markGone takes a member of the last world out of the order of succession.
func (m *Machine) markGone(control string, dead bool) {
	for _, p := range m.mem.sealed.Members {
		if p.Control == control && p.ID != m.self.ID {
			m.mem.gone[p.ID] = m.mem.gone[p.ID] || dead
		}
	}
}

// lostCoordinator: the stream to the coordinator ended.
func (m *Machine) lostCoordinator(e Closed) {
	mem := &m.mem
	at := mem.at
	mem.linked, mem.at, mem.proposed, mem.follows = false, "", nil, false
	if mem.outcome != nil {
		if e.Clean || mem.sealed == nil {
			m.finish(*mem.outcome)
			return
		}
		// The coordinator crashed while it told everyone: pass the outcome on.
		mem.byeBy = m.now.Add(ackTimeout)
		mem.orphanBy = mem.byeBy
		m.markGone(at, !e.Silent)
		return
	}
	m.shun(at, m.cfg.Retry)
	mem.lastErr, mem.silent = e.Text, e.Silent
	if mem.spare { // whoever goes on with the job has as long as for any rendezvous
		m.joinBy = m.now.Add(m.cfg.Join)
	}
	m.adopt()
	if !mem.placed() {
		return
	}
	lost := m.lostMember(at, e)
	if e.Silent {
		m.markGone(at, false)
	} else if m.cfg.Takeover { // perhaps only the connection broke: ask it first
		mem.dialing = at
		m.emit(Dial{at})
	}
	if mem.told == nil && len(mem.failures) == 0 {
		mem.failures = append(mem.failures, lost)
	}
	if mem.told != nil {
		lost = *mem.told
	}
	if mem.work == running { // what is done stays done: the job may succeed without a word from here
		m.stopWorkers(lost, false)
	}
	if mem.orphanBy.IsZero() { // the search goes on, it does not begin again
		mem.orphanBy = m.now.Add(m.cfg.Rejoin)
	}
	if !m.cfg.Takeover {
		m.coordinate() // nobody else can be asked: decide here, for this node
	}
}

// lostMember is the loss of the member of the last world at that address.
func (m *Machine) lostMember(control string, e Closed) Cause {
	c := m.here(KindLost, lostText(e.Silent, e.Text))
	c.Node, c.Host, c.Addr, c.GroupRank = "", control, "", -1
	for i, p := range m.mem.sealed.Members {
		if p.Control == control {
			c.Node, c.Host, c.Addr, c.GroupRank = p.ID, p.Host, p.Addr, i
		}
	}
	return c
}

// ConnectionEnded is the text of a Closed of which there is nothing more to say.
const ConnectionEnded = "the connection ended"

func lostText(silent bool, text string) string {
	switch {
	case !silent && text == ConnectionEnded:
		return "its agent closed the connection without a word; it was killed or crashed"
	case silent:
		return "no sign of life from its agent (" + text + "); the node or the network between is down"
	}
	return "its agent closed the connection without a word (" + text + "); it was killed or crashed"
}
