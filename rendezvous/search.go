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
	if m.coord != nil && m.coord.callAnswered(e) {
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
	if m.coord != nil && m.coord.callFailed(e) || m.mem.dialing != e.Addr {
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
	return m.coord != nil && m.coord.job.last == nil && m.coord.round.state == roundForming && m.mem.stop == nil
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
	if m.coord.round.state == roundSealing {
		m.emit(GiveUp{})
	}
	for _, s := range m.coord.seats.here {
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
	if mem.work == workRunning { // what is done stays done: the job may succeed without a word from here
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

// call is an attempt of a coordinator to reach an agent that should have a seat.
// One that answers is told where the coordinator is (a redirect on a stream
// that it did not open); one that does not is perhaps dead.
type call struct {
	id     NodeID
	broken bool // the stream to it broke: if its host refuses now, it is dead
}

const maxCalls = 16 // at a time

func (c *coordinator) call(addr string, to call) {
	if _, ok := c.calls[addr]; ok || len(c.calls) >= maxCalls || addr == "" || addr == c.m.self.Control || c.job.final {
		return
	}
	c.calls[addr] = to
	c.m.emit(Dial{addr})
}

// gather calls the members of the last world that are missing, and agents that
// look for this job where it no longer is: the endpoint's agent may be lost.
func (c *coordinator) gather() {
	if c.job.last == nil || c.job.final || c.round.state == roundDecided && !c.job.took {
		return
	}
	if !c.round.working() && c.round.state != roundDecided {
		for _, p := range c.job.last.Members {
			if !c.seats.connected(p.ID) && !c.seats.ended(p.ID) {
				c.call(p.Control, call{id: p.ID})
			}
		}
	}
	if len(c.seats.here) >= c.m.self.Max && c.round.state != roundDecided {
		return
	}
	for _, p := range c.m.peers {
		if c.seats.connected(p.ID) || c.job.last.Index(p.ID) >= 0 {
			continue
		}
		if c.round.state == roundDecided { // a spare of the coordinator that was lost: it must hear how the job ended
			s := c.seats.get(p.ID)
			if s.state == seatSought || s.state == seatLost || s.state == seatLeft {
				continue
			}
			c.move(s, seatSought)
		}
		c.call(p.Control, call{id: p.ID})
	}
}

// callAnswered tells the node that answers a call where its coordinator is.
func (c *coordinator) callAnswered(e Dialed) bool {
	_, ok := c.calls[e.Addr]
	if !ok {
		return false
	}
	delete(c.calls, e.Addr)
	c.m.emit(Send{e.Conn, Message{Type: MsgRedirect, Addr: c.m.self.Control, Term: c.job.term, Job: c.job.id, Round: c.job.last.Round}})
	c.m.emit(Close{e.Conn})
	return true
}

// callFailed handles a call that was not answered. A node is lost whose stream broke
// and whose host refuses now: the fence need not wait for the end of its membership.
// After silence even a refused connection says nothing: the agent may have gone on
// without this one and ended since.
func (c *coordinator) callFailed(e DialFailed) bool {
	to, ok := c.calls[e.Addr]
	delete(c.calls, e.Addr)
	s := c.seats.find(to.id)
	switch {
	case !ok || s == nil || s.connected():
	case s.state == seatSought:
		c.move(s, seatLost)
	case to.broken && e.Refused && s.state != seatLost && s.state != seatLeft:
		c.move(s, seatLost)
		if c.round.state == roundSealing {
			c.seal()
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
	if c.job.last != nil && other.Job == c.job.id && c.precedes(other) {
		c.call(other.Addr, call{})
	}
}

// precedes reports whether another coordinator of this job has to follow this one.
// The later world counts: the side that has sealed it is the job, and no other side
// could. Of two that have seen the same world, and lost each other, the later one
// leads.
func (c *coordinator) precedes(other Message) bool {
	if other.Job == c.job.id && other.Round != c.job.last.Round {
		return other.Round < c.job.last.Round
	}
	return other.Term < c.job.term || other.Term == c.job.term && other.Addr > c.m.self.Control
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
	case c.sealing.refused != "":
		return true
	case c.job.final || c.job.last == nil:
		return false
	case c.round.offering():
		return other.Job == c.job.id && other.Round > c.job.last.Round
	default:
		return (c.round.state == roundRecovering || c.round.state == roundForming) && !c.precedes(other)
	}
}
