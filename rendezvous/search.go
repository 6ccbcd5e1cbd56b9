package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// search is the state of a member's search for the next coordinator.
type search struct {
	until       time.Time       // no coordinator since the last world: deadline
	unreachable map[NodeID]bool // members of the last world that cannot be asked; true: their process has ended
	handover    *Message        // the coordinator left and handed the job over
	leader      Message         // where the fence has seen a coordinator: Addr, Term
	sealed      Elsewhere       // the world that the fence has seen
	// spare means that a world runs in which this agent has no place. The agent waits
	// to be called and has no vote on which nodes go on, whatever world it was in
	// before.
	spare bool
	job   string // of that world
}

// findCoordinator looks for a coordinator: before the first world among the agents that
// serve an endpoint, afterwards among the members of the last world, in order.
func (m *Machine) findCoordinator() {
	mem := &m.mem
	if mem.link.dialing != "" {
		return
	}
	addr, self := m.firstChoice()
	if led := m.leader(); led != "" {
		addr, self = led, false
	} else if mem.hasPlace() {
		addr, self = m.nextCoordinator()
	} else if addr == "" && !self {
		addr = m.anyAgent()
	}
	switch {
	case self && mem.end.outcome != nil: // a node without the outcome will ask here
	case self && mem.search.spare: // a first world was made: its coordinator will call
	case self:
		m.coordinate()
	case addr != "":
		mem.link.dialing = addr
		m.emit(Dial{addr})
	}
}

// firstChoice returns the best agent that serves an endpoint and is worth a try now.
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

// servers returns the agents that serve an endpoint, in the order of the endpoints.
// Agents that serve one name are in the order of their addresses.
func (m *Machine) servers() []Peer {
	ps := slices.DeleteFunc(slices.Clone(m.peers.all), func(p Peer) bool { return p.Endpoint < 0 })
	slices.SortFunc(ps, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), a.ip().Compare(b.ip()), cmp.Compare(a.ID, b.ID))
	})
	return ps
}

// anyAgent returns the address of an agent that may know the coordinator. A world
// that this agent has accepted without a commit may have been committed before the
// coordinator was lost. Its members know. A spare asks any agent, since the present
// coordinator may not know of the spare.
func (m *Machine) anyAgent() string {
	var at []string
	if w := m.mem.work.accepted; w != nil {
		for _, p := range w.Members {
			at = append(at, p.Control)
		}
	}
	if m.mem.search.spare {
		for _, p := range m.peers.all {
			at = append(at, p.Control)
		}
	}
	for _, addr := range at {
		if addr != "" && addr != m.self.Control && !m.now.Before(m.avoid[addr]) {
			m.avoidAddress(addr, statusEvery)
			return addr
		}
	}
	return ""
}

// avoidAddress keeps an address from being dialled for a while.
func (m *Machine) avoidAddress(addr string, d time.Duration) {
	if t := m.now.Add(d); t.After(m.avoid[addr]) {
		m.avoid[addr] = t
	}
}

// streamOpened follows the agent that was dialled, or closes the stream.
func (m *Machine) streamOpened(e Dialed) {
	if m.coord != nil && m.coord.callAnswered(e) {
		return
	}
	follow := m.coord != nil && (m.mayStepDown() || m.mem.link.caller.Addr == e.Addr && m.mayFollow(m.mem.link.caller))
	if m.mem.link.dialing != e.Addr || m.coord != nil && !follow || m.coord == nil && m.mem.link.open {
		m.emit(Close{e.Conn})
		if m.mem.link.dialing == e.Addr {
			m.mem.link.dialing = ""
		}
		return
	}
	if m.coord != nil {
		m.stepDown(e.Addr)
	}
	m.follow(e.Conn, e.Addr)
}

// dialFailed notes that an agent did not answer.
func (m *Machine) dialFailed(e DialFailed) {
	if m.coord != nil && m.coord.callFailed(e) || m.mem.link.dialing != e.Addr {
		return
	}
	m.mem.link.dialing, m.mem.link.lastErr = "", m.explainDial(e)
	m.avoidAddress(e.Addr, m.cfg.Retry)
	if e.Addr == m.mem.search.leader.Addr {
		if e.Refused {
			m.mem.search.leader = Message{} // it is lost; the fence will name its successor
		} else {
			m.avoidAddress(e.Addr, statusEvery)
		}
	}
	if m.coord != nil { // this agent goes on coordinating
		m.avoidAddress(e.Addr, statusEvery)
		return
	}
	if m.mem.hasPlace() {
		m.markUnreachable(e.Addr, e.Refused && !m.mem.link.silent)
	}
}

// explainDial says why an agent could not be reached. An agent that the backend still shows
// lives: only its port does not let this one in.
func (m *Machine) explainDial(e DialFailed) string {
	for _, p := range m.peers.all {
		since, known := m.peers.known[p.ID]
		if p.Control == e.Addr && p.Name != e.Addr && !m.mem.hasPlace() && known && m.now.Sub(since) >= connectTime {
			return fmt.Sprintf("found %s, but its port does not let this node in: %s%s", p.Name, e.Text, closedPort)
		}
	}
	return e.Text
}

// redirectReceived asks elsewhere, because the agent that was asked does not
// coordinate.
func (m *Machine) redirectReceived(addr string) {
	from := m.mem.link.at
	m.unfollow()
	if m.mem.hasPlace() && m.mem.search.until.IsZero() {
		m.mem.search.until = m.now.Add(m.cfg.Rejoin)
	}
	m.avoidAddress(from, m.cfg.Retry)
	if addr != "" && addr != from && addr != m.self.Control && checkNames(addr) == nil && !m.now.Before(m.avoid[addr]) {
		m.mem.link.dialing = addr
		m.emit(Dial{addr})
	}
}

// unfollow ends the stream to the coordinator.
func (m *Machine) unfollow() {
	if m.mem.link.open && m.mem.link.conn != Self {
		m.emit(Close{m.mem.link.conn})
	}
	m.mem.link.open, m.mem.link.at, m.mem.program.proposed, m.mem.link.committed = false, "", nil, false
}

// refusalReceived ends the agent, because the coordinator does not accept it.
func (m *Machine) refusalReceived(text string) {
	m.unfollow()
	o := m.localOutcome(m.nodeCause(KindRendezvous, "the coordinator refused this node: "+text))
	o.OnlyThisNode = true
	m.finish(o)
}

// mayStepDown reports whether an agent that serves a better endpoint may coordinate
// instead. It may only before the first world. Two agents can take themselves for the
// first one for a moment, as their views of the others differ. The first world's need
// for a majority of the endpoints keeps that harmless.
func (m *Machine) mayStepDown() bool {
	return m.coord != nil && m.coord.job.last == nil && m.coord.round.state == roundForming && m.mem.end.stop == nil
}

// findBetterCoordinator dials the agent that should coordinate instead of this agent.
func (m *Machine) findBetterCoordinator() {
	if m.mem.link.dialing != "" {
		return
	}
	if led := m.leader(); led != "" && m.mayFollow(m.mem.search.leader) {
		m.mem.link.caller, m.mem.link.dialing = m.mem.search.leader, led
		m.emit(Dial{led})
		return
	}
	if !m.mayStepDown() {
		return
	}
	if addr, self := m.firstChoice(); !self && addr != "" {
		m.mem.link.dialing = addr
		m.emit(Dial{addr})
	}
}

// stepDown sends this agent's nodes to a better coordinator.
func (m *Machine) stepDown(to string) {
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
	m.mem.link.open, m.mem.link.at, m.mem.program.proposed, m.mem.link.committed = false, "", nil, false
}

// coordinate makes this agent the coordinator.
func (m *Machine) coordinate() {
	m.mem.link.dialing = ""
	m.coord = newCoordinator(m)
	if m.cfg.Fenced {
		m.emit(Lead{})
	}
	m.mem.search.until = time.Time{}
	m.follow(Self, "")
}

// nextCoordinator returns the member of the last world whose turn it is to coordinate.
func (m *Machine) nextCoordinator() (addr string, self bool) {
	if !m.now.Before(m.mem.search.until) {
		return "", true
	}
	for _, p := range m.mem.work.sealed.Members {
		if _, out := m.mem.search.unreachable[p.ID]; out {
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

// markUnreachable takes a member of the last world out of the order of succession.
func (m *Machine) markUnreachable(control string, ended bool) {
	for _, p := range m.mem.work.sealed.Members {
		if p.Control == control && p.ID != m.self.ID {
			m.mem.search.unreachable[p.ID] = m.mem.search.unreachable[p.ID] || ended
		}
	}
}

// coordinatorLost handles the end of the stream to the coordinator. The workers stop
// and the search for its successor begins.
func (m *Machine) coordinatorLost(e Closed) {
	mem := &m.mem
	at := mem.link.at
	mem.link.open, mem.link.at, mem.program.proposed, mem.link.committed = false, "", nil, false
	if mem.end.outcome != nil {
		if e.Clean || mem.work.sealed == nil {
			m.finish(*mem.end.outcome)
			return
		}
		// The coordinator crashed while it sent the outcome: pass it on.
		mem.end.finishBy = m.now.Add(ackTimeout)
		mem.search.until = mem.end.finishBy
		m.markUnreachable(at, !e.Silent)
		return
	}
	m.avoidAddress(at, m.cfg.Retry)
	mem.link.lastErr, mem.link.silent = e.Text, e.Silent
	if mem.search.spare { // the job's next coordinator has as long as for any rendezvous
		m.joinBy = m.now.Add(m.cfg.Join)
	}
	m.adoptSealed()
	if !mem.hasPlace() {
		return
	}
	lost := m.lostMember(at, e)
	if e.Silent {
		m.markUnreachable(at, false)
	} else if m.cfg.Takeover { // perhaps only the connection broke: ask it first
		mem.link.dialing = at
		m.emit(Dial{at})
	}
	if mem.work.abortedBy == nil && len(mem.work.failures) == 0 {
		mem.work.failures = append(mem.work.failures, lost)
	}
	if mem.work.abortedBy != nil {
		lost = *mem.work.abortedBy
	}
	if mem.work.state == workRunning { // workers that are done need no stop: the job may succeed without this node
		m.stopWorkers(lost, false)
	}
	if mem.search.until.IsZero() { // the search goes on, it does not begin again
		mem.search.until = m.now.Add(m.cfg.Rejoin)
	}
	if !m.cfg.Takeover {
		m.coordinate() // no other agent can be asked: decide here, for this node
	}
}

// lostMember returns the cause for the loss of the member of the last world at that
// address.
func (m *Machine) lostMember(control string, e Closed) Cause {
	c := m.nodeCause(KindLost, lostText(e.Silent, e.Text))
	c.Node, c.Host, c.Addr, c.GroupRank = "", control, "", -1
	for i, p := range m.mem.work.sealed.Members {
		if p.Control == control {
			c.Node, c.Host, c.Addr, c.GroupRank = p.ID, p.Host, p.Addr, i
		}
	}
	return c
}

// ConnectionEnded is the text of a Closed without a more precise reason.
const ConnectionEnded = "the connection ended"

// GaveUp begins the text of a Closed whose stream the other side ended, because it heard
// nothing from this node. What follows is what the other side says of this node.
const GaveUp = "it gave this node up: "

// lostText says why an agent counts as lost.
func lostText(silent bool, text string) string {
	switch {
	case !silent && text == ConnectionEnded:
		return "its agent closed the connection without a message; it was killed or crashed"
	case silent:
		return "no sign of life from its agent (" + text + "); the node or the network between is down"
	case strings.HasPrefix(text, GaveUp):
		return "its agent ended the connection, because it heard nothing from this node (" + strings.TrimPrefix(text, GaveUp) + "); the network between them loses messages"
	}
	return "its agent closed the connection without a message (" + text + "); it was killed or crashed"
}

// call is an attempt of a coordinator to reach an agent that should have a stream. An
// agent that answers gets the coordinator's address, as a redirect on a stream that
// it did not open. An agent that does not answer is perhaps lost.
type call struct {
	id     NodeID
	broken bool // the stream to it broke: if its host refuses now, it is lost
}

const maxCalls = 16 // at a time

// call dials an agent that should have a stream, unless a call is under way.
func (c *coordinator) call(addr string, to call) {
	if _, ok := c.calls[addr]; ok || len(c.calls) >= maxCalls || addr == "" || addr == c.m.self.Control || c.job.final {
		return
	}
	c.calls[addr] = to
	c.m.emit(Dial{addr})
}

// callMissing calls the members of the last world that are missing. It also calls
// agents that look for this job where it no longer is, as the endpoint's agent may be
// lost.
func (c *coordinator) callMissing() {
	if c.job.last == nil || c.job.final || c.round.state == roundDecided && !c.job.takeover {
		return
	}
	if !c.round.hasWorkers() && c.round.state != roundDecided {
		for _, p := range c.job.last.Members {
			if !c.seats.connected(p.ID) && !c.seats.ended(p.ID) {
				c.call(p.Control, call{id: p.ID})
			}
		}
	}
	if len(c.seats.here) >= c.m.self.Max && c.round.state != roundDecided {
		return
	}
	for _, p := range c.m.peers.all {
		if c.seats.connected(p.ID) || c.job.last.Index(p.ID) >= 0 {
			continue
		}
		if c.round.state == roundDecided { // a spare of the lost coordinator: it must hear how the job ended
			s := c.seats.get(p.ID)
			if s.state == seatCalled || s.state == seatLost || s.state == seatLeft {
				continue
			}
			c.move(s, seatCalled)
		}
		c.call(p.Control, call{id: p.ID})
	}
}

// callAnswered sends this coordinator's address to the node that answers a call.
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

// callFailed handles a call that was not answered. A node is lost if its stream broke
// and its host refuses now. The fence need not wait for the end of its membership.
// After silence even a refused connection proves nothing: the agent may have run
// another world and ended since.
func (c *coordinator) callFailed(e DialFailed) bool {
	to, ok := c.calls[e.Addr]
	delete(c.calls, e.Addr)
	s := c.seats.find(to.id)
	switch {
	case !ok || s == nil || s.connected():
	case s.state == seatCalled:
		c.move(s, seatLost)
	case to.broken && e.Refused && s.state != seatLost && s.state != seatLeft:
		c.move(s, seatLost)
		if c.round.state == roundSealing {
			c.seal()
		}
	}
	return ok
}

// callReceived handles the call of a coordinator that this agent does not follow.
func (m *Machine) callReceived(msg Message) {
	if msg.Addr == "" || msg.Addr == m.self.Control || checkNames(msg.Addr) != nil || m.mem.end.outcome != nil {
		return
	}
	if m.coord == nil && m.mem.link.open {
		return
	}
	if m.coord != nil && !m.mayFollow(msg) {
		m.coord.callBack(msg)
		return
	}
	if m.mem.link.dialing != "" { // next
		m.mem.search.leader = Message{Addr: msg.Addr, Term: msg.Term, Job: msg.Job, Round: msg.Round}
		return
	}
	m.mem.link.caller, m.mem.link.dialing = msg, msg.Addr
	m.emit(Dial{msg.Addr})
}

// callBack calls a coordinator that has to follow this coordinator. Its part of a cut network
// could not go on; now that the network heals it calls the nodes that it misses, and
// this coordinator may know nothing of them any more.
func (c *coordinator) callBack(other Message) {
	if c.job.last != nil && other.Job == c.job.id && c.precedes(other) {
		c.call(other.Addr, call{})
	}
}

// precedes reports whether another coordinator of this job has to follow this coordinator.
// The later world counts, because only one side of a cut network could seal it. Of
// two coordinators that have seen the same world and lost each other, the one with
// the later term goes on.
func (c *coordinator) precedes(other Message) bool {
	if other.Job == c.job.id && other.Round != c.job.last.Round {
		return other.Round < c.job.last.Round
	}
	return other.Term < c.job.term || other.Term == c.job.term && other.Addr > c.m.self.Control
}

// mayFollow reports whether this coordinator gives way to another one. A coordinator
// with an order to end the job gives way too and passes the order on, because two
// that both decide would give their nodes two outcomes. A world that is on its way to
// be sealed is given up only for a later world.
func (m *Machine) mayFollow(other Message) bool {
	c := m.coord
	switch {
	case m.mayStepDown():
		return true
	case c.sealing.refused != "":
		return true
	case c.job.final || c.job.last == nil:
		return false
	case c.round.isOffering():
		return other.Job == c.job.id && other.Round > c.job.last.Round
	default:
		return (c.round.state == roundRecovering || c.round.state == roundForming) && !c.precedes(other)
	}
}
