package rendezvous

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// helloReceived gives a newcomer a seat, or refuses it.
func (c *coordinator) helloReceived(conn Conn, msg Message) {
	n, last := *msg.Node, msg.Last
	if c.round.state == roundDecided {
		c.helloAfterEnd(conn, msg)
		return
	}
	why := c.refusal(conn, n, last)
	if why == "" && last != nil && last.World != nil {
		if err := last.World.validate(); err != nil {
			why = fmt.Sprintf("its report of the last world is not valid: %v", err)
		} else if w := last.World; w.RunID != c.m.self.RunID {
			why = fmt.Sprintf("its last world belongs to run %q", clip(w.RunID))
		}
	}
	if why != "" {
		sameRun := n.RunID == c.m.self.RunID && n.Validate() == nil && (n.Protocol != Protocol || !c.unproven(conn, n))
		c.noteRefusal(refusedNode{clip(n.Name()), why, sameRun})
		c.m.send(conn, false, Message{Type: MsgRefuse, Text: why})
		c.m.emit(Close{conn})
		return
	}
	if old := c.seats.find(n.ID); old != nil && old.connected() { // the loss of its old stream was not seen yet
		c.drop(old, false, "it connected again")
		c.m.emit(Close{old.conn})
	}
	c.forgetRefusal(clip(n.Name()))
	s := c.seats.add(conn, n)
	s.fits = !c.m.cfg.Check || !n.Facts
	clear := last == nil || last.World == nil || last.Over
	c.move(s, map[bool]seatState{false: seatClearing, true: seatWaiting}[clear])
	if c.round.state == roundRunning && !c.wasMember(last) {
		next := "it takes part in the next round"
		if len(c.round.world.Members) >= c.m.self.Max {
			next = "it waits as a hot spare"
		}
		c.m.emit(Note{Text: fmt.Sprintf("%s came: %s", n.Name(), next), Kind: "came"})
	}
	if last != nil && last.World != nil {
		c.readmit(s, last)
	}
	if c.round.state == roundRunning && !s.inWorld() { // it must not succeed this coordinator by what an earlier world says
		c.send(s, Message{Type: MsgStatus, Status: c.status()})
	}
}

// helloAfterEnd gives the outcome of a decided job to a node that it concerns.
func (c *coordinator) helloAfterEnd(conn Conn, msg Message) {
	n := *msg.Node
	if c.unproven(conn, n) || !(concerns(n, msg.Last, c.job.last) || msg.Job != "" && msg.Job == c.job.id) || n.RunID != c.m.self.RunID || n.Protocol != Protocol {
		c.m.send(conn, false, Message{Type: MsgRedirect})
		c.m.emit(Close{conn})
		return
	}
	c.m.send(conn, false, Message{Type: MsgFinish, Outcome: c.job.outcome})
	c.move(c.seats.add(conn, n), seatWaiting)
}

// unproven reports whether a node has not proven an id that it must prove. An id is
// no secret, and a hello with it takes the node's seat.
func (c *coordinator) unproven(conn Conn, n Node) bool {
	return c.m.cfg.Proofs && !n.Proven && conn != Self
}

// concerns reports whether the outcome of a decided job, whose last world was w,
// concerns a node: it must not end the next job, which may meet at the same endpoint.
// The outcome of a job without any world concerns every node that came.
func concerns(n Node, last *Last, w *World) bool {
	return w == nil || w.Index(n.ID) >= 0 || last != nil && last.World != nil && last.World.Job == w.Job
}

// wasMember reports whether a node was in a world of this job before. If another node
// has its place by now, the node waits for a new place and gets the job's outcome.
func (c *coordinator) wasMember(last *Last) bool {
	return last != nil && last.World != nil && last.World.Job == c.job.id
}

// readmit takes from a node that lost its coordinator the node's state in the last
// world, and the outcome if that coordinator had decided one.
func (c *coordinator) readmit(s *seat, last *Last) {
	w := last.World
	c.mergeLast(s, last)
	if s.state == seatClearing {
		c.stopOldWorkers(s, w.Round)
	}
	undecided := c.round.state == roundRecovering || c.round.state == roundStopping || c.round.state == roundForming
	if last.Outcome != nil && undecided && c.job.last != nil && c.job.last.Digest() == w.Digest() {
		c.sendOutcome(*last.Outcome)
	}
}

// stopOldWorkers stops the workers of a round that goes on without the node.
func (c *coordinator) stopOldWorkers(s *seat, round int) {
	cause := c.m.nodeCause(KindLost, "its round went on without it")
	c.send(s, Message{Type: MsgAbort, Round: round, Cause: &cause})
}

// mergeLast gives a node its place in the world of the round, if it has one.
func (c *coordinator) mergeLast(s *seat, last *Last) {
	w := last.World
	c.job.term = max(c.job.term, w.Term)
	c.job.round = max(c.job.round, w.Round)
	switch c.round.state {
	case roundForming:
		c.job.round = max(c.job.round, w.Round+1)
		if l := c.job.last; l != nil && last.Started && w.Job == l.Job && (w.Term > l.Term || w.Term == l.Term && w.Round > l.Round) {
			c.job.last, c.job.restart = w, max(c.job.restart, w.Restart) // its members decide which part of a cut network goes on
		}
		return
	case roundRecovering:
		if last.Started && w.Round > c.round.world.Round { // sealed, but the commit did not reach this agent
			c.adoptLater(s, w)
		}
	case roundStopping:
		if w.Digest() != c.round.world.Digest() {
			return
		}
	case roundRunning: // its workers are done, or this round would have ended with its stream
		if last.Done && w.Digest() == c.round.digest {
			c.move(s, seatDone)
		}
		return
	default:
		return
	}
	switch {
	case c.round.world.Index(s.node.ID) < 0:
	case last.Over:
		c.move(s, seatStopped)
	case last.Done && w.Digest() == c.round.world.Digest():
		c.move(s, seatDone)
	default:
		c.move(s, seatRunning)
	}
	c.addFailures(last.Failures...)
	c.round.ends = append(c.round.ends, last.Ends...)
	if c.round.state == roundStopping && !last.Over {
		cause := c.round.firstCause()
		c.send(s, Message{Type: MsgAbort, Round: c.round.world.Round, Cause: &cause})
	}
}

// adoptLater goes on from a later world than this agent knew. The members of that
// world have the places now. s is the node that reported it.
func (c *coordinator) adoptLater(s *seat, w *World) {
	before := c.round.world.Round
	c.round.world, c.job.last = w, w
	for _, o := range c.seats.here {
		in := w.Index(o.node.ID) >= 0
		switch {
		case o == s || in == o.inWorld():
		case in:
			c.move(o, seatRunning)
		case o.state == seatStopped:
			c.move(o, seatWaiting)
		default:
			c.move(o, seatClearing)
			c.stopOldWorkers(o, before)
		}
	}
}

// refusal says why a node cannot take part. It is empty if the node can.
func (c *coordinator) refusal(conn Conn, n Node, last *Last) string {
	me := c.m.self
	invalid := n.Validate()
	switch {
	case n.Protocol != Protocol:
		return fmt.Sprintf("it speaks protocol %d (gorun %s), this job speaks %d (gorun %s); start the same gorun on every node", n.Protocol, clip(n.Version), Protocol, me.Version)
	case n.RunID != me.RunID:
		return fmt.Sprintf("it belongs to run %q, this is run %q; give both the same --rdzv-id, or another --rdzv-endpoint", clip(n.RunID), me.RunID)
	case invalid != nil:
		return fmt.Sprintf("its description of itself is not valid: %v", invalid)
	case c.unproven(conn, n):
		return fmt.Sprintf("it does not prove that the id %q is its own", clip(string(n.ID)))
	case n.ID == me.ID && conn != Self:
		return "it uses the id of the coordinator"
	case n.Min != me.Min || n.Max != me.Max:
		return fmt.Sprintf("it was started with --nnodes %s, %s with --nnodes %s", nnodes(n), me.Name(), nnodes(me))
	case n.Endpoint >= max(1, c.m.cfg.Endpoints):
		return fmt.Sprintf("it serves endpoint %d, this job has %d; give every node the same --rdzv-endpoint", n.Endpoint+1, c.m.cfg.Endpoints)
	case n.NodeRank >= me.Max:
		return fmt.Sprintf("its --node-rank %d is not below --nnodes %s", n.NodeRank, nnodes(n))
	}
	for _, s := range c.seats.here {
		if n.NodeRank >= 0 && s.node.NodeRank == n.NodeRank && s.node.ID != n.ID {
			return fmt.Sprintf("--node-rank %d is taken by %s; give every node a rank of its own", n.NodeRank, s.node.Name())
		}
	}
	return ""
}

// nnodes formats the node's --nnodes.
func nnodes(n Node) string {
	if n.Min == n.Max {
		return fmt.Sprint(n.Max)
	}
	return fmt.Sprintf("%d:%d", n.Min, n.Max)
}

// Bounds of what is remembered of refused nodes. Other programs can cause any number
// of refusals.
const (
	maxRefused      = 16
	maxRefusedText  = 2 << 10 // bytes of a line
	maxRefusedShown = 64      // lines that one agent prints
)

// refusals are the nodes that the coordinator refused and that did not come back.
// The coordinator names them to every waiting node. If the job cannot be complete
// without them, it ends after a last call.
type refusals struct {
	nodes []refusedNode
	by    time.Time // the last call; zero: the job can be complete without them
}

// refusedNode is a node that was refused.
type refusedNode struct {
	name, why string // without a name: why names it
	sameRun   bool   // a node of this job: the job may be incomplete without it
}

// line names the node and the reason.
func (r refusedNode) line() string {
	if r.name == "" {
		return cut(r.why, maxRefusedText)
	}
	return cut(fmt.Sprintf("refused %s: %s", r.name, r.why), maxRefusedText)
}

// noteRefusal remembers a refused node and names it to the nodes that wait. A job
// whose workers run lacks no node.
func (c *coordinator) noteRefusal(r refusedNode) {
	r.sameRun = r.sameRun && !c.round.hasWorkers()
	known := &c.refused.nodes
	i := slices.IndexFunc(*known, func(o refusedNode) bool { return o.name == r.name && (r.name != "" || o.why == r.why) })
	switch {
	case i >= 0 && (*known)[i] == r, i < 0 && len(*known) >= maxRefused:
		c.m.emit(Note{Text: r.line(), Kind: "refused"}) // again, or one of many
		return
	case i >= 0:
		(*known)[i] = r
	default:
		*known = append(*known, r)
	}
	c.m.showRefused([]string{r.line()})
	if c.round.state != roundDecided {
		c.sendStatus()
	}
}

// forgetRefusal forgets the refusal of a node that has a seat now.
func (c *coordinator) forgetRefusal(name string) {
	c.refused.nodes = slices.DeleteFunc(c.refused.nodes, func(o refusedNode) bool { return o.name == name })
}

// lines formats the refusals as every waiting node shows them.
func (r *refusals) lines() (out []string) {
	for _, o := range r.nodes {
		out = append(out, o.line())
	}
	return out
}

// incomplete reports whether a last call has ended and the n nodes of the job are too
// few only because others were refused. The agents of refused nodes have ended, but a
// person may correct the command and start it again during the last call.
func (c *coordinator) incomplete(n int) bool {
	r := &c.refused
	missing := 0
	for _, o := range r.nodes {
		if o.sameRun {
			missing++
		}
	}
	if missing == 0 || n >= c.m.self.Min || n+missing < c.m.self.Max {
		r.by = time.Time{}
		return false
	}
	if r.by.IsZero() {
		r.by = c.m.now.Add(c.m.cfg.LastCall)
	}
	return !c.m.now.Before(r.by)
}

// endIncomplete ends a job that cannot be complete.
func (c *coordinator) endIncomplete() {
	var lines []string
	for _, o := range c.refused.nodes {
		if o.sameRun {
			lines = append(lines, o.line())
		}
	}
	text := fmt.Sprintf("the job cannot be complete: it has %d of %s nodes, %s, and no other node came within %v; correct that node's command and start all nodes again",
		len(c.seats.here), nnodes(c.m.self), cmp.Or(strings.Join(lines, "; "), "the others were refused"), c.m.cfg.LastCall)
	c.round.failures = nil
	c.addFailures(c.m.nodeCause(KindRendezvous, text))
	c.endJob()
}

// showRefused shows at this terminal which nodes were refused, each once.
func (m *Machine) showRefused(lines []string) {
	for _, l := range lines[:min(len(lines), maxRefused)] {
		l = cut(l, maxRefusedText)
		if !m.mem.shown[l] && len(m.mem.shown) < maxRefusedShown {
			m.mem.shown[l] = true
			m.emit(Note{Text: l, Kind: "refused"})
		}
	}
}

// agentRefused notes an agent that was refused before it could say hello.
func (m *Machine) agentRefused(e Refused) {
	r := refusedNode{cut(e.Name, maxName), e.Why, e.SameRun}
	if m.coord != nil {
		m.coord.noteRefusal(r)
		return
	}
	m.showRefused([]string{r.line()})
}

// shouldGrow reports whether it is time to take newcomers into a running elastic job.
// The first of them starts a last call for others, unless the job can be full; the
// workers run meanwhile. A job with a node that is done does not grow, because it is
// about to end.
func (c *coordinator) shouldGrow() bool {
	me := c.m.self
	members := len(c.round.world.Members)
	fit := 0
	if c.seats.contains(seatDone) {
		return false
	}
	for _, s := range c.seats.here {
		if s.state == seatWaiting && s.fits {
			fit++
		}
	}
	if !c.m.cfg.Grow || members >= me.Max || fit == 0 {
		c.round.growAt = time.Time{}
		return false
	}
	if c.round.growAt.IsZero() {
		c.round.growAt = c.m.now.Add(c.m.cfg.LastCall)
	}
	return members+fit >= me.Max || !c.m.now.Before(c.round.growAt)
}

// grow ends the round so that the next one has the nodes that came.
func (c *coordinator) grow() {
	for _, s := range c.seats.here {
		if s.state == seatWaiting && s.fits {
			cause := c.m.nodeCause(KindJoined, "")
			cause.Node, cause.Host, cause.Addr, cause.GroupRank = s.node.ID, s.node.Host, s.node.Addr, -1
			c.addFailures(cause)
		}
	}
	c.round.growAt = time.Time{}
	c.abort(false)
}

// canRunWithout reports whether the job can go on without a node whose agent was
// stopped. SIGTERM takes one node out of an elastic job that has enough others, for
// example when its machine is reclaimed. Every other signal ends the job. A node of the
// last world must remain to coordinate the next one.
func (c *coordinator) canRunWithout(s *seat, msg Message) bool {
	f := msg.Failures[0]
	if c.m.self.Min == c.m.self.Max || c.job.final || c.job.last == nil || msg.Kill || f.Kind != KindStopped || f.Signal != syscall.SIGTERM {
		return false
	}
	if c.round.state == roundRecovering || c.round.state == roundDecided {
		return false
	}
	rest, hasSuccessor := 0, false
	for _, o := range c.seats.here {
		if o != s && o.leaving == nil && !(o.state == seatDone && c.round.state == roundRunning) {
			rest++
			hasSuccessor = hasSuccessor || o.conn == Self || c.job.last.Index(o.node.ID) >= 0
		}
	}
	return rest >= c.m.self.Min && hasSuccessor
}

// letLeave takes a node out of the job, which goes on.
func (c *coordinator) letLeave(s *seat, why Cause) {
	s.leaving = &why
	left := why
	left.Kind, left.Message = KindLeft, "its agent received "+SignalName(why.Signal)
	switch {
	case c.round.state == roundForming:
		c.releaseLeaving()
	case c.round.isOffering():
		c.burn()
		c.releaseLeaving()
	default:
		c.addFailures(left)
		c.abort(false)
	}
}

// releaseLeaving ends the part of the leaving nodes. It returns true if this node is
// one of them. Another member coordinates from now on.
func (c *coordinator) releaseLeaving() bool {
	var local *seat
	for _, s := range slices.Clone(c.seats.here) {
		switch {
		case s.leaving == nil:
		case s.conn == Self:
			local = s
		default:
			c.send(s, Message{Type: MsgFinish, Outcome: partingOutcome(s.leaving)})
			s.wasIdle = true
			c.dismiss(s, seatLeft)
		}
	}
	if local == nil {
		return false
	}
	for _, s := range c.seats.here {
		if s.conn != Self {
			c.m.emit(Send{s.conn, Message{Type: MsgHandover, Round: c.job.round, Restart: c.job.restart, Digest: c.job.last.Digest()}})
			c.m.emit(Close{s.conn})
		}
	}
	c.m.emit(Note{Text: fmt.Sprintf("%s leaves the job; another node coordinates it", c.m.self.Name())})
	c.m.coord = nil
	c.m.mem.link.open = false
	c.m.finish(*partingOutcome(local.leaving))
	return true
}

// partingOutcome returns the outcome for a node that leaves the job.
func partingOutcome(why *Cause) *Outcome {
	return &Outcome{Code: why.Code(), Cause: why, OnlyThisNode: true}
}

// handoverReceived goes on without the coordinator, which has left the job in order.
// The next member in line forms the next round.
func (m *Machine) handoverReceived(msg Message) {
	at := m.mem.link.at
	m.unfollow()
	m.avoidAddress(at, m.cfg.Rejoin)                                  // the backend may still name it
	if w := m.mem.work.sealed; w == nil || w.Digest() != msg.Digest { // has no place in the last world: it will be called
		m.mem.search.spare, m.joinBy = true, m.now.Add(m.cfg.Join)
		return
	}
	m.mem.search.handover = &msg
	m.markUnreachable(at, true)
	m.mem.search.until = m.now.Add(m.cfg.Rejoin)
}

// streamClosed handles the end of a node's stream. A broken stream is a lost agent or
// a broken connection. The coordinator calls the node to distinguish the two, since a
// lost node has no vote on which nodes may go on.
func (c *coordinator) streamClosed(conn Conn, silent bool, text string) {
	s := c.seats.at(conn)
	if s == nil {
		return
	}
	c.drop(s, silent, text)
	switch {
	case c.job.last == nil:
		c.seats.delete(s)
	case silent:
	case s.node.Control == "":
		c.move(s, seatLost)
	default:
		c.move(s, seatMissing)
		c.call(s.node.Control, call{id: s.node.ID, broken: true})
	}
	s.forget()
}

// drop takes away a seat's stream and does what the node's absence demands.
func (c *coordinator) drop(s *seat, silent bool, text string) {
	was, inWorld := s.state, s.inWorld()
	c.disconnect(s, seatAbsent)
	switch {
	case c.round.state == roundDecided:
	case !inWorld || c.round.state == roundForming || c.round.isOffering():
		next := "the job"
		if c.job.last != nil {
			next = "the next round"
		}
		c.m.emit(Note{Text: fmt.Sprintf("%s left before %s started: %s", s.node.Name(), next, lostText(silent, text)), Kind: "left"})
		if c.round.isOffering() && inWorld {
			c.burn()
		}
	case was == seatStopped || was == seatDone && c.round.state == roundRunning || s.leaving != nil:
		s.wasIdle = true
	default:
		i := c.round.world.Index(s.node.ID)
		c.addFailures(Cause{
			Kind: KindLost, Node: s.node.ID, Host: s.node.Host, Addr: s.node.Addr, GroupRank: i,
			Rank: -1, LocalRank: -1, Message: lostText(silent, text), Time: c.m.now,
		})
		if c.round.state == roundRunning {
			c.abort(false)
		}
	}
}
