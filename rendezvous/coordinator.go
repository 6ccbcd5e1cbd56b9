package rendezvous

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// coordinator is the half of an agent that forms worlds. It owns no workers. The
// member of its own node has a seat like any other, at Self.
type coordinator struct {
	m     *Machine
	seats seats
	job   job
	round round

	check          *check         // of the world, from checking on
	newcomerChecks map[int]NodeID // newcomers that are compared with a running world, by serial
	sealing        sealing
	calls          map[string]call // by address, not answered yet
	refused        refusals
	surveys        []*survey // that are on their way, or have just ended
	serial         int       // of the last question; begins with the time, which no other coordinator's answer has
	statusAt       time.Time // when the waiting nodes get the next status
}

// job is what lasts from round to round.
type job struct {
	id                   string // the same for all worlds of a job
	term, round, restart int
	maxRestarts          int
	last                 *World // the last world that was committed
	records              []Record
	takeover             bool // the job was taken over from a lost coordinator
	final                bool // no further round follows; this agent decides for its node alone
	outcome              *Outcome
}

// newCoordinator starts as a first coordinator, or as the successor of another one.
func newCoordinator(m *Machine) *coordinator {
	c := &coordinator{
		m: m, seats: seats{byID: map[NodeID]*seat{}}, calls: map[string]call{}, newcomerChecks: map[int]NodeID{},
		job:      job{id: m.cfg.Token(), term: 1, maxRestarts: m.cfg.MaxRestarts},
		round:    round{state: roundForming, deadline: m.joinBy},
		statusAt: m.now.Add(statusEvery), serial: int(m.now.UnixNano()),
	}
	if m.mem.work.sealed != nil {
		c.takeOver(m.mem.work.sealed)
	}
	return c
}

// takeOver goes on from the last world of another coordinator, which was lost or
// has handed the job over.
func (c *coordinator) takeOver(w *World) {
	m := c.m
	c.job = job{
		id: w.Job, term: w.Term + 1, round: w.Round, restart: w.Restart, maxRestarts: w.MaxRestarts,
		last: w, takeover: true, final: !m.cfg.Takeover,
	}
	c.round = round{state: roundRecovering, world: w, deadline: m.now.Add(m.cfg.Rejoin), began: m.now}
	for id, ended := range m.mem.search.unreachable {
		if ended {
			c.move(c.seats.get(id), seatLost)
		}
	}
	for _, p := range w.Members {
		if _, unreachable := m.mem.search.unreachable[p.ID]; !unreachable && p.ID != m.self.ID && !c.job.final {
			c.move(c.seats.get(p.ID), seatMissing)
		}
	}
	text := "the coordinator was lost; %s coordinates from now on"
	if h := m.mem.search.handover; h != nil {
		m.mem.search.handover = nil
		c.round.state, c.round.deadline = roundForming, m.now.Add(m.cfg.Join)
		c.job.restart, c.job.round = h.Restart, max(c.job.round+1, h.Round)
		text = "%s coordinates from now on"
	}
	m.emit(Note{Text: fmt.Sprintf(text, m.self.Name())})
}

// wakeups are the times at which the coordinator has something to do.
func (c *coordinator) wakeups() []time.Time {
	w := append(c.surveyWakeups(), c.round.lastCall, c.round.growAt, c.refused.by)
	if c.round.state == roundChecking {
		w = append(w, c.check.askedBy)
	}
	if c.round.isOffering() { // Step must see when this process was stopped for a while
		w = append(w, c.m.now.Add(c.m.cfg.Rejoin/4))
	}
	if c.round.state != roundRunning {
		w = append(w, c.round.deadline)
	}
	if c.round.state != roundDecided && (c.round.state != roundRunning || c.hasWaitingNode()) {
		w = append(w, c.statusAt)
	}
	return w
}

// hasWaitingNode reports whether a node waits for a place in the next round.
func (c *coordinator) hasWaitingNode() bool {
	return slices.ContainsFunc(c.seats.here, func(s *seat) bool { return !s.inWorld() })
}

// enter takes the round to another state, which may last for limit: 0 is without
// a limit, sameDeadline keeps the deadline of the state before.
func (c *coordinator) enter(to roundState, limit time.Duration) {
	from := c.round.state
	if err := c.round.transition(to); err != nil {
		c.m.internalError(err)
		return
	}
	if from == roundSealing && to != roundRunning && to != roundSealing {
		c.m.emit(GiveUp{})
	}
	c.round.lastCall, c.statusAt = time.Time{}, c.m.now.Add(statusEvery)
	switch {
	case limit > 0:
		c.round.deadline = c.m.now.Add(limit)
	case limit != sameDeadline:
		c.round.deadline = time.Time{}
	}
}

const sameDeadline time.Duration = -1

// send sends a message to the node of a seat.
func (c *coordinator) send(s *seat, msg Message) { c.m.send(s.conn, false, msg) }

// receive handles a message from a seat, or the hello of a newcomer.
func (c *coordinator) receive(conn Conn, msg Message) {
	s := c.seats.at(conn)
	if s == nil {
		if msg.Type == MsgHello && msg.Node != nil {
			c.helloReceived(conn, msg)
		} else {
			c.m.emit(Close{conn})
		}
		return
	}
	current := c.round.world != nil && s.inWorld() && msg.Round == c.round.world.Round
	switch msg.Type {
	case MsgAccept:
		if current && s.state == seatProposed && c.round.state == roundProposing && msg.Term == c.round.world.Term && msg.Digest == c.round.digest {
			c.move(s, seatAccepted)
		}
	case MsgFacts:
		c.factsReceived(s, msg)
	case MsgAnswer:
		c.answerReceived(s, msg)
	case MsgQuery:
		c.queryReceived(s, msg)
	case MsgReport:
		c.reportReceived(s, msg)
	case MsgSuspect:
		if current && c.round.state == roundRunning {
			c.m.emit(Investigate{msg.Round})
		}
	case MsgFailed:
		c.failureReceived(s, msg, current)
	case MsgDone:
		if current && s.state == seatRunning && (c.round.state == roundRunning || c.round.state == roundStopping) {
			c.move(s, seatDone)
			c.round.ends = append(c.round.ends, msg.Ends...)
		}
	case MsgOver:
		c.overReceived(s, msg, current)
	case MsgAck:
		switch {
		case c.round.state == roundDecided:
			c.dismiss(s, seatLeft)
		case !s.inWorld(): // it was dismissed while it waited for a place
			c.dismiss(s, seatAbsent)
		}
	}
}

// overReceived notes that no worker of a round lives on a node any more.
func (c *coordinator) overReceived(s *seat, msg Message, current bool) {
	if msg.Store != "" && checkNames(msg.Store) == nil {
		s.node.Store = msg.Store
	}
	if s.state == seatClearing {
		c.move(s, seatWaiting)
	}
	if !current || c.round.state != roundStopping || s.state == seatStopped {
		return
	}
	c.addFailures(slices.DeleteFunc(msg.Failures, func(f Cause) bool { return s.leaving != nil && f.Kind == KindStopped })...)
	if s.state != seatDone {
		c.round.ends = append(c.round.ends, msg.Ends...)
	}
	c.move(s, seatStopped)
}

// disconnect takes away the stream of a seat.
func (c *coordinator) disconnect(s *seat, to seatState) {
	c.m.peers.changed = true
	c.seats.remove(s)
	c.move(s, to)
}

// dismiss ends the stream of a node that has its outcome.
func (c *coordinator) dismiss(s *seat, to seatState) {
	c.disconnect(s, to)
	if s.conn != Self {
		c.m.emit(Close{s.conn})
	}
	s.forget()
}

// formWorld proposes a world as soon as enough nodes are here.
func (c *coordinator) formWorld(elapsed bool) {
	me := c.m.self
	n := 0
	for _, s := range c.seats.here {
		if s.state != seatClearing {
			n++
		}
	}
	ok := n >= me.Min && c.quorumProblem() == ""
	switch {
	case ok && n >= me.Max:
		c.propose()
	case ok && c.round.lastCall.IsZero():
		c.round.lastCall = c.m.now.Add(c.m.cfg.LastCall)
	case ok && !c.m.now.Before(c.round.lastCall):
		c.propose()
	case !ok:
		c.round.lastCall = time.Time{}
	}
	switch {
	case c.round.state != roundForming:
	case elapsed:
		c.joinElapsed()
	case c.incomplete(n):
		c.endIncomplete()
	}
}

// quorumProblem returns why these nodes may not form a world although they are enough:
// another part of a cut network might form a world too. It is empty if they may.
func (c *coordinator) quorumProblem() string {
	if c.m.cfg.Fenced { // it decides when it is asked to seal
		return c.sealing.refused
	}
	if c.job.last == nil {
		return c.firstQuorumProblem()
	}
	alive, here, lowest := 0, 0, false
	for _, p := range c.job.last.Members {
		if c.seats.ended(p.ID) {
			continue
		}
		if alive == 0 {
			lowest = c.seats.connected(p.ID)
		}
		alive++
		if c.seats.connected(p.ID) {
			here++
		}
	}
	if here*2 > alive || here*2 == alive && lowest {
		return ""
	}
	return fmt.Sprintf("only %d of the %d nodes of the last world that may be alive are here; the others may go on without them", here, alive)
}

// firstQuorumProblem is quorumProblem for the first world. If each endpoint is one node,
// the world needs the nodes of a majority of the endpoints. If a name stands for several
// nodes, coordinators may count different numbers of candidates, because names become
// known one after the other. Any first world has at least least members, and needs more
// nodes than there are candidates without these. So any two have a node in common.
func (c *coordinator) firstQuorumProblem() string {
	if me := c.m.self; c.m.peers.candidates > 0 {
		all, least := max(c.m.peers.candidates, me.Max), max(me.Min, me.Max/2+1)
		if here, need := len(c.seats.here), max(least, all-least+1); here < need {
			return fmt.Sprintf("only %d nodes came: %s may stand for %d nodes, of which the first world needs %d", here, c.m.cfg.Where, all, need)
		}
		return ""
	}
	served := map[int]bool{}
	for _, s := range c.seats.here {
		if e := c.endpointOf(&s.node); e >= 0 {
			served[e] = true
		}
	}
	if len(served)*2 <= c.m.cfg.Endpoints {
		return fmt.Sprintf("only %d of %d endpoints are served by the nodes that came", len(served), c.m.cfg.Endpoints)
	}
	return ""
}

// endpointOf returns the index of the endpoint that a node serves, -1 if none. A node
// whose name became known after it joined says so to the backend only.
func (c *coordinator) endpointOf(n *Node) int {
	if n.Endpoint >= 0 {
		return n.Endpoint
	}
	for _, p := range c.m.peers.all {
		if p.ID == n.ID && p.Endpoint < c.m.cfg.Endpoints {
			return p.Endpoint
		}
	}
	return -1
}

// propose makes a world of the nodes that wait, to be checked and offered. Survivors
// of the last world come before newcomers. Before the first world, nodes that serve
// an endpoint come first, because the nodes left out must not form a world too.
func (c *coordinator) propose() {
	chosen := slices.DeleteFunc(slices.Clone(c.seats.here), func(s *seat) bool { return s.state != seatWaiting })
	slices.SortStableFunc(chosen, func(a, b *seat) int {
		if c.job.last == nil {
			return min(c.endpointOf(&b.node), 0) - min(c.endpointOf(&a.node), 0)
		}
		return min(oldRank(c.job.last, a.node.ID), MaxNodes) - min(oldRank(c.job.last, b.node.ID), MaxNodes)
	})
	chosen = chosen[:min(len(chosen), c.m.self.Max)]
	var nodes []Node
	for _, s := range c.seats.here {
		s.workerEnv = nil
		if slices.Contains(chosen, s) {
			c.move(s, seatProposed)
			nodes = append(nodes, s.node)
		}
	}
	if e := c.m.mem.search.sealed; e.Job == c.job.id { // no round twice
		c.job.term, c.job.round = max(c.job.term, e.Term), max(c.job.round, e.Round+1)
	}
	w := newWorld(orderNodes(nodes, c.job.last), World{
		Term: c.job.term, Round: c.job.round, Restart: c.job.restart, MaxRestarts: c.job.maxRestarts,
		Coordinator: c.m.self.ID, Job: c.job.id, Token: c.m.cfg.Token(),
	})
	c.round.world, c.round.digest, c.round.failures, c.round.hang, c.round.ends, c.round.killed = &w, "", nil, nil, nil, false
	if c.m.cfg.Check {
		c.startCheck()
	} else {
		c.offer()
	}
}

// offer asks the members of the world to accept it.
func (c *coordinator) offer() {
	c.round.digest = c.round.world.Digest()
	c.enter(roundProposing, sameDeadline)
	for _, s := range c.seats.members() {
		msg := Message{Type: MsgPropose, World: c.round.world, Env: s.workerEnv}
		if s.node.ID == c.round.world.Members[0].ID {
			msg.Clients = c.clients()
		}
		c.send(s, msg)
	}
}

// clients lists where the workers of the world may connect from.
func (c *coordinator) clients() []string {
	all := map[string]bool{}
	for _, s := range c.seats.members() {
		for _, at := range append([]string{s.node.Addr, s.node.SourceIP}, s.node.Networks...) {
			all[at] = true
		}
	}
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
}

// burn gives a proposal up. Its round number is never used again.
func (c *coordinator) burn() {
	c.enter(roundForming, sameDeadline)
	c.job.round++
	for _, s := range c.seats.members() {
		c.move(s, seatWaiting)
	}
}

// commit starts the workers of the world on every node. A node without a place learns
// first that the world runs, because it must not succeed this coordinator by what an
// earlier world says.
func (c *coordinator) commit() {
	c.enter(roundRunning, 0)
	c.m.peers.changed = true
	c.job.last, c.round.began = c.round.world, c.m.now
	c.refused = refusals{}
	for _, s := range c.seats.members() {
		c.move(s, seatRunning)
	}
	for _, s := range c.seats.here {
		if !s.inWorld() {
			c.send(s, Message{Type: MsgStatus, Status: c.status()})
		}
	}
	for _, s := range c.seats.members() {
		c.send(s, Message{Type: MsgCommit, Term: c.round.world.Term, Round: c.round.world.Round, Digest: c.round.digest})
	}
	for _, s := range c.seats.here { // newcomers of the time of the check
		if c.m.cfg.Check && !s.inWorld() && s.facts != nil {
			c.compareNewcomer(s)
		}
	}
}

// joinElapsed ends the job because the nodes did not come together in time.
func (c *coordinator) joinElapsed() {
	st := c.status()
	text := fmt.Sprintf("%d of %s nodes came within %v: %s", len(c.seats.here), nnodes(c.m.self), c.m.cfg.Join, strings.Join(st.Here, ", "))
	if len(st.Waiting) > 0 {
		text += "; not ready: " + strings.Join(st.Waiting, ", ")
	}
	if why := c.quorumProblem(); why != "" {
		text += "; " + why
	}
	if lines := c.refused.lines(); len(lines) > 0 {
		text += "; " + strings.Join(lines, "; ")
	}
	if n := len(c.job.records); n > 0 && c.job.records[n-1].Cause != nil {
		text += "; the round before ended because " + c.job.records[n-1].Cause.Line()
	}
	if c.round.state == roundSealing {
		text = fmt.Sprintf("no world of %d nodes could be sealed in %s within %v: %s", len(c.round.world.Members), c.m.cfg.Where, c.m.cfg.Join, c.sealing.waitsFor)
	} else {
		text += ". Check that gorun was started on the others with the same " + cmp.Or(c.m.cfg.Flags, "--rdzv-endpoint and --rdzv-id") + ", and that they reach " + c.m.cfg.Where + c.m.cfg.hint()
	}
	c.round.failures = nil
	c.addFailures(c.m.nodeCause(KindRendezvous, text))
	c.endJob()
}

// tick moves the round on as far as the seats and the time allow.
func (c *coordinator) tick() {
	now := c.m.now
	elapsed := !c.round.deadline.IsZero() && !now.Before(c.round.deadline)
	switch c.round.state {
	case roundRecovering:
		if elapsed || c.job.final || c.allBack() {
			c.resume()
		}
	case roundForming:
		c.formWorld(elapsed)
	case roundChecking:
		if elapsed {
			c.joinElapsed()
		} else {
			c.compare()
		}
	case roundProposing:
		switch {
		case c.seats.all(seatAccepted):
			switch {
			case c.check != nil && c.check.passed != nil:
				c.sendOutcome(*c.check.passed)
			case c.m.cfg.Fenced:
				c.seal()
			default:
				c.commit()
			}
		case elapsed:
			c.joinElapsed()
		}
	case roundSealing:
		if elapsed {
			c.joinElapsed()
		}
	case roundRunning:
		if c.seats.all(seatDone) {
			c.recordRound(nil)
			c.sendOutcome(Outcome{Rounds: c.job.records})
		} else if c.shouldGrow() {
			c.grow()
		}
	case roundStopping:
		if c.seats.all(seatStopped) {
			c.endRound()
		}
	case roundDecided:
		mayMissNodes := c.job.takeover && c.m.cfg.Fenced && !c.m.peers.complete // other nodes may wait for the outcome
		if elapsed || len(c.seats.here) == 0 && !c.seats.awaited() && !mayMissNodes {
			for _, s := range slices.Clone(c.seats.here) {
				c.dismiss(s, seatLeft)
			}
			c.m.finish(*c.job.outcome)
		}
	}
	if c.m.coord != c || c.round.state == roundDecided || now.Before(c.statusAt) || c.round.state == roundRunning && !c.hasWaitingNode() {
		return
	}
	c.statusAt = now.Add(statusEvery)
	c.sendStatus()
	if c.round.state != roundRunning {
		c.callMissing()
	}
}

// sendStatus reports to the waiting nodes what they wait for.
func (c *coordinator) sendStatus() {
	st := c.status()
	for _, s := range c.seats.here {
		if c.round.state != roundRunning || !s.inWorld() {
			c.send(s, Message{Type: MsgStatus, Status: st})
		}
	}
}

// allBack reports whether all members of the last world are here, except those that
// are known to have ended.
func (c *coordinator) allBack() bool {
	return !slices.ContainsFunc(c.round.world.Members, func(p Member) bool { return !c.seats.connected(p.ID) && !c.seats.ended(p.ID) })
}

// resume ends the round of a lost coordinator, whose survivors are here. A world
// that was committed nowhere is only burnt.
func (c *coordinator) resume() {
	for i, p := range c.round.world.Members {
		if c.seats.member(p.ID) == nil {
			c.addFailures(Cause{
				Kind: KindLost, Node: p.ID, Host: p.Host, Addr: p.Addr, GroupRank: i, Rank: -1, LocalRank: -1,
				Message: "it did not come back after the loss of the coordinator", Time: c.m.now,
			})
		}
	}
	if len(c.round.failures) == 0 { // every node is back, without a decision of the lost coordinator
		c.addFailures(c.m.nodeCause(KindLost, "the coordinator's connection broke"))
	}
	c.abort(false)
}

// endRound ends the round after its last worker has ended.
func (c *coordinator) endRound() {
	cause := c.round.firstCause()
	c.recordRound(&cause)
	// The job is to end, whatever came first; or a node cannot start workers.
	over := slices.ContainsFunc(c.round.failures, func(f failure) bool { return f.final() || f.Kind == KindStart })
	counts := !cause.changesNodes()
	if over || c.job.final || counts && c.job.restart >= c.job.maxRestarts {
		c.endJob()
		return
	}
	if counts {
		c.job.restart++
	}
	c.job.round++
	if c.releaseLeaving() {
		return
	}
	c.enter(roundForming, c.m.cfg.Join)
	for _, s := range c.seats.members() {
		c.move(s, seatWaiting)
	}
	st := c.status() // also shows the members that the last round is settled
	for _, s := range c.seats.here {
		c.send(s, Message{Type: MsgStatus, Status: st})
	}
	c.round.failures, c.round.hang = nil, nil
}

// endJob ends the job with its cause.
func (c *coordinator) endJob() {
	cause := c.cause()
	o := Outcome{Code: cause.Code(), Cause: &cause, Rounds: c.job.records}
	if c.round.state == roundProposing && c.check != nil && c.check.passed != nil { // a program cannot be started
		o.Preflight = c.check.passed.Preflight
	}
	texts := budget(maxTexts)
	for _, f := range c.round.withHang() {
		o.Failures = append(o.Failures, texts.spend(f.Cause))
	}
	c.sendOutcome(o)
}

// sendOutcome sends the outcome of the job to every node.
func (c *coordinator) sendOutcome(o Outcome) {
	c.job.outcome = &o
	c.unseal()
	c.enter(roundDecided, ackTimeout)
	c.callMissing()
	for _, s := range slices.Clone(c.seats.here) {
		c.send(s, Message{Type: MsgFinish, Outcome: c.job.outcome})
	}
}

// failureReceived handles a member's message that the round, or the job, cannot go
// on. A node that only waits for a place cannot end a job, which goes on without it.
func (c *coordinator) failureReceived(s *seat, msg Message, current bool) {
	if len(msg.Failures) == 0 || c.round.state == roundDecided {
		return
	}
	ends := slices.ContainsFunc(msg.Failures, func(f Cause) bool { return f.final() })
	switch {
	case ends && !s.inWorld() && !aborts(msg.Failures) && (c.round.isOffering() || c.round.hasWorkers()):
		f := msg.Failures[0]
		c.send(s, Message{Type: MsgFinish, Outcome: partingOutcome(&f)})
	case s.leaving != nil:
	case ends && c.canRunWithout(s, msg):
		c.letLeave(s, msg.Failures[0])
	case c.round.hasWorkers() && (current || ends):
		c.addFailures(msg.Failures...)
		c.abort(msg.Kill)
	case (c.round.state == roundProposing || c.round.state == roundSealing) && current, ends && c.round.state != roundRecovering:
		c.round.failures = nil
		c.addFailures(msg.Failures...)
		c.endJob()
	case ends:
		c.addFailures(msg.Failures...)
	}
}

// hung handles what this agent found out about a round that hangs.
func (c *coordinator) hung(e Hung) {
	if c.round.state != roundRunning || c.round.world.Round != e.Round {
		return
	}
	c.round.hang = nil
	if e.Cause == nil {
		return
	}
	if e.Stop {
		c.addFailures(*e.Cause)
		c.abort(false)
		return
	}
	hang := failure{e.Cause.bounded(), c.m.now}
	c.round.hang = &hang
	for _, s := range c.seats.members() {
		c.send(s, Message{Type: MsgNotice, Text: hang.Line()})
	}
}

// addFailures notes failures of the round.
func (c *coordinator) addFailures(fs ...Cause) { c.round.add(c.m.now, fs...) }

// cause returns why the job ends. That is its first failure, unless another round
// would have followed it and an order ended the job.
func (c *coordinator) cause() Cause {
	if order := c.round.abortOrder(); order != nil && c.job.restart < c.job.maxRestarts {
		return *order
	}
	return c.round.firstCause()
}

// abort stops the workers of the round everywhere.
func (c *coordinator) abort(kill bool) {
	if c.round.state == roundStopping && !kill {
		return
	}
	if c.round.state != roundStopping {
		c.enter(roundStopping, 0)
	}
	cause := c.round.firstCause()
	for _, s := range c.seats.members() {
		c.send(s, Message{Type: MsgAbort, Round: c.round.world.Round, Cause: &cause, Kill: kill})
	}
}
