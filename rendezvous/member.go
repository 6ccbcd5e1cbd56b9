package rendezvous

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// workState says what the workers of the sealed world do on this node. See the
// package comment for the diagram.
type workState int

const (
	workIdle     workState = iota // no worker lives here
	workRunning                   // Start was emitted
	workDone                      // every worker ended with 0
	workStopping                  // Stop was emitted
)

// String is the state as an internal error names it.
func (s workState) String() string {
	return [...]string{"idle", "running", "done", "stopping"}[s]
}

// workTransitions has the states that may follow each state. A second Stop cuts the
// grace period short; Over may also come without a Stop.
var workTransitions = [...][]workState{
	workIdle:     {workRunning},
	workRunning:  {workDone, workStopping, workIdle},
	workDone:     {workStopping, workIdle},
	workStopping: {workStopping, workIdle},
}

// work is this node's part in the world.
type work struct {
	state     workState
	accepted  *World
	digest    string // of accepted
	env       []byte // for the workers of the accepted world
	sealed    *World // accepted and committed
	failures  []Cause
	ends      []End
	abortedBy *Cause    // why the coordinator aborted the round
	killed    bool      // the workers were killed, as others may go on without this node
	vacateAt  time.Time // when to say to the fence that no worker lives here; zero: never
}

// transition takes the workers to another state. It refuses what is impossible: an
// error of gorun's own.
func (w *work) transition(to workState) error {
	if !slices.Contains(workTransitions[w.state], to) {
		return fmt.Errorf("internal error: the workers cannot go from %s to %s", w.state, to)
	}
	w.state = to
	return nil
}

// forget drops what is known of the workers of the last round.
func (w *work) forget() { w.failures, w.ends, w.abortedBy = nil, nil, nil }

// member is the half of an agent that follows a coordinator.
type member struct {
	link    link
	program program
	work    work
	search  search
	end     end
	shown   map[string]bool // lines about refused nodes
}

// link is the stream to the coordinator.
type link struct {
	open      bool   // there is a coordinator at conn
	conn      Conn   // while open
	at        string // the coordinator's address, "" for Self
	committed bool   // the coordinator at conn committed the sealed world
	dialing   string // address, "" if not dialing
	lastErr   string // the last failed attempt to reach a coordinator
	silent    bool   // the coordinator fell silent: a node that does not answer now may run a world without this node
	caller    Message
	shownAt   time.Time
}

// program is what must be ready before this node accepts a world.
type program struct {
	ready        bool
	startFailure *Cause   // it cannot be started here
	proposed     *Message // not answered yet: the program is still being built
	facts        *Facts   // of this node; nil: not gathered yet
}

// end is how the job ends for this agent.
type end struct {
	stop     *Cause // why this agent is to end the job
	killBy   time.Time
	outcome  *Outcome
	finishBy time.Time
}

// hasPlace reports whether this agent is a member of the last world, as far as it
// knows.
func (mem *member) hasPlace() bool { return mem.work.sealed != nil && !mem.search.spare }

// newMember makes the member of an agent that starts now.
func newMember(now time.Time) member {
	return member{search: search{unreachable: map[NodeID]bool{}}, shown: map[string]bool{}, link: link{shownAt: now}}
}

// moveWork takes the workers to another state.
func (m *Machine) moveWork(to workState) {
	if err := m.mem.work.transition(to); err != nil {
		m.internalError(err)
	}
}

// wakeups are the times at which the member has something to do.
func (mem *member) wakeups(m *Machine) []time.Time {
	w := []time.Time{mem.search.until, mem.end.finishBy, mem.end.killBy, mem.work.vacateAt}
	if !mem.link.open {
		w = append(w, m.joinBy, mem.link.shownAt.Add(statusEvery))
		for addr, t := range m.avoid {
			if t.After(m.now) {
				w = append(w, t)
			} else {
				delete(m.avoid, addr)
			}
		}
	}
	return w
}

// sendToCoordinator sends a message to the coordinator, if there is a coordinator.
func (m *Machine) sendToCoordinator(msg Message) {
	if m.mem.link.open {
		m.send(m.mem.link.conn, true, msg)
	}
}

// follow makes conn the stream to the coordinator and says hello.
func (m *Machine) follow(c Conn, at string) {
	m.mem.link.open, m.mem.link.conn, m.mem.link.at, m.mem.link.dialing = true, c, at, ""
	m.mem.search.handover = nil
	node := m.self
	msg := Message{Type: MsgHello, Node: &node, Job: m.mem.search.job}
	if m.mem.work.accepted != nil {
		msg.Last = m.lastState()
	}
	m.sendToCoordinator(msg)
	if m.mem.program.facts != nil {
		m.sendToCoordinator(Message{Type: MsgFacts, Body: m.mem.program.facts.Body, Env: m.mem.program.facts.Env})
	}
	if m.mem.end.stop != nil {
		m.sendToCoordinator(Message{Type: MsgFailed, Failures: m.withAges([]Cause{*m.mem.end.stop})})
	}
}

// lastState returns what the next coordinator must know of this node's last world.
func (m *Machine) lastState() *Last {
	mem := &m.mem
	l := &Last{
		World: mem.work.accepted, Started: mem.work.sealed == mem.work.accepted, Done: mem.work.state == workDone,
		Over: mem.work.state == workIdle, Failures: m.withAges(mem.work.failures), Ends: mem.work.ends, Outcome: mem.end.outcome,
	}
	if mem.work.abortedBy != nil && len(l.Failures) == 0 {
		l.Failures = []Cause{*mem.work.abortedBy}
	}
	return l
}

// fromCoordinator handles a message of the coordinator. Any message but a redirect
// ends the search.
func (m *Machine) fromCoordinator(msg Message) {
	mem := &m.mem
	if msg.Type != MsgRedirect {
		mem.search.until = time.Time{}
	}
	switch msg.Type {
	case MsgStatus:
		if msg.Status != nil {
			if msg.Status.Phase == roundForming.String() && mem.work.state == workIdle { // the last round is settled
				mem.work.forget()
			}
			if msg.Status.Phase == roundRunning.String() {
				mem.search.spare, mem.search.job = true, msg.Status.Job
			}
			m.showRefused(msg.Status.Refused)
			m.emit(Show{msg.Status})
		}
	case MsgRefuse:
		m.refusalReceived(msg.Text)
	case MsgRedirect:
		if mem.link.committed && mem.work.state != workIdle { // it committed the world and now denies it
			m.emit(Close{mem.link.conn})
			m.coordinatorLost(Closed{Conn: mem.link.conn, Text: "it does not coordinate any more"})
			return
		}
		m.redirectReceived(msg.Addr)
	case MsgAsk:
		m.questionReceived(msg)
	case MsgInquire:
		m.emit(Report{msg.Serial, msg.Question.Bounded()})
	case MsgView:
		m.viewReceived(msg)
	case MsgNotice:
		m.emit(Note{Text: cut(msg.Text, maxText), Kind: "hang"})
	case MsgPropose:
		m.proposalReceived(msg)
	case MsgCommit:
		if w := mem.work.accepted; w != nil && mem.work.sealed != w && w.Round == msg.Round && w.Term == msg.Term && mem.work.digest == msg.Digest {
			m.startWorkers(w)
		}
	case MsgAbort:
		m.abortReceived(msg)
	case MsgHandover:
		m.handoverReceived(msg)
	case MsgFinish:
		if msg.Outcome == nil {
			return
		}
		if mem.end.outcome == nil {
			mem.end.outcome, mem.end.finishBy = msg.Outcome, m.now.Add(ackTimeout/2)
		}
		m.sendToCoordinator(Message{Type: MsgAck})
	}
}

// memberTick does what the time demands of the member.
func (m *Machine) memberTick() {
	mem := &m.mem
	if !m.ended && !mem.work.vacateAt.IsZero() && !m.now.Before(mem.work.vacateAt) && mem.work.state == workIdle {
		mem.work.vacateAt = time.Time{}
		m.emit(Vacate{mem.work.sealed.Round})
	}
	switch {
	case m.ended:
	case mem.end.outcome != nil && m.coord == nil:
		if !m.now.Before(mem.end.finishBy) {
			m.finish(*mem.end.outcome)
		} else if !mem.link.open && mem.work.sealed != nil {
			m.findCoordinator()
		}
	case !mem.end.killBy.IsZero() && !m.now.Before(mem.end.killBy) && mem.work.state == workIdle:
		m.finish(m.localOutcome(*mem.end.stop))
	case m.coord != nil:
		m.findBetterCoordinator()
	case mem.link.open:
	case mem.end.stop != nil && !mem.hasPlace():
		m.finish(m.localOutcome(*mem.end.stop))
	case !mem.hasPlace() && !m.now.Before(m.joinBy):
		m.finish(m.localOutcome(m.nodeCause(KindRendezvous, m.noCoordinator())))
	default:
		m.findCoordinator()
		if !mem.link.open && m.coord == nil && !m.now.Before(mem.link.shownAt.Add(statusEvery)) {
			mem.link.shownAt = m.now
			m.emit(Show{m.searchStatus()})
		}
	}
}

// startWorkers starts this node's workers of a world that was committed.
func (m *Machine) startWorkers(w *World) {
	mem := &m.mem
	m.moveWork(workRunning)
	mem.work.sealed, mem.work.killed, mem.work.vacateAt = w, false, time.Time{}
	mem.work.forget()
	mem.link.committed = true
	mem.search.spare, mem.search.unreachable = false, map[NodeID]bool{} // a node that was lost once may be in it
	m.emit(Show{nil})
	m.emit(Start{*w, w.Index(m.self.ID), mem.work.env})
}

// localOutcome makes an outcome that this agent decides without the others.
func (m *Machine) localOutcome(c Cause) Outcome {
	return Outcome{Code: c.Code(), Cause: &c, Failures: []Cause{c}}
}

// noCoordinator says why this agent gives up its search.
func (m *Machine) noCoordinator() string {
	text := fmt.Sprintf("no coordinator of run %q answered at %s within %v", m.self.RunID, m.cfg.Where, m.cfg.Join)
	if m.mem.link.lastErr != "" {
		text += " (last attempt: " + m.mem.link.lastErr + ")"
	}
	if m.cfg.Fenced { // no agent coordinates before this agent reaches the fence
		return text + "; check that every node reaches it and was started with the same --rdzv-id"
	}
	return text + "; check that gorun runs on the endpoint's node, that the address is right and that no firewall drops the port" + m.cfg.hint()
}

// searchStatus returns what an agent without a coordinator waits for.
func (m *Machine) searchStatus() *Status {
	s := &Status{Phase: "seeking", Min: m.self.Min, Max: m.self.Max, Left: m.joinBy.Sub(m.now), Note: m.mem.link.lastErr, Here: []string{m.self.Name()}}
	if !m.mem.search.until.IsZero() {
		s.Phase, s.Left = "recovering", m.mem.search.until.Sub(m.now)
	}
	return s
}

// programReady notes that the program can be started here, or cannot, and answers a
// proposal that waited for that.
func (m *Machine) programReady(cause *Cause) {
	m.mem.program.ready, m.mem.program.startFailure = true, cause
	if m.mem.program.proposed != nil {
		msg := *m.mem.program.proposed
		m.mem.program.proposed = nil
		m.accept(msg)
	}
}

// proposalReceived answers a proposal, or refuses a world that is not valid.
func (m *Machine) proposalReceived(msg Message) {
	mem, w := &m.mem, msg.World
	if w == nil || mem.work.state != workIdle || mem.work.accepted != nil && (w.Round <= mem.work.accepted.Round || w.Term < mem.work.accepted.Term) {
		return
	}
	err := w.validate()
	i := w.Index(m.self.ID)
	switch {
	case err != nil:
	case w.RunID != m.self.RunID:
		err = fmt.Errorf("it is run %q's, not %q's", clip(w.RunID), m.self.RunID)
	case i < 0:
		err = errors.New("this node is not in it")
	case w.Members[i].Workers != m.self.Workers || w.Members[i].Role != m.self.Role:
		err = fmt.Errorf("this node has %d workers of role %q in it, not %d of %q", w.Members[i].Workers, w.Members[i].Role, m.self.Workers, m.self.Role)
	}
	if err == nil && (w.Members[i].Env != envHash(msg.Env) || len(msg.Env) > MaxAssignment) {
		err = errors.New("its environment does not have the hash that the world names")
	}
	if err != nil {
		c := m.nodeCause(KindRendezvous, fmt.Sprintf("%s cannot take part in the world that the coordinator proposes: %v", m.self.Name(), err))
		m.sendToCoordinator(Message{Type: MsgFailed, Round: w.Round, Failures: []Cause{c}})
		return
	}
	m.accept(msg)
}

// accept accepts a proposed world once the program can be started here.
func (m *Machine) accept(msg Message) {
	w := msg.World
	switch {
	case !m.mem.program.ready:
		m.mem.program.proposed = &msg
	case m.mem.program.startFailure != nil:
		m.sendToCoordinator(Message{Type: MsgFailed, Round: w.Round, Failures: m.withAges([]Cause{*m.mem.program.startFailure})})
	default:
		m.mem.work.accepted, m.mem.work.digest, m.mem.work.env = w, w.Digest(), msg.Env
		if len(msg.Clients) > 0 {
			m.emit(Admit{msg.Clients})
		}
		m.sendToCoordinator(Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: m.mem.work.digest})
	}
}

// vacateAfter delays the message to the fence that no worker lives here. It spares
// the fence a message of every node at every restart, because the next round mostly
// begins sooner.
const vacateAfter = time.Second

// abortReceived stops the workers of the round.
func (m *Machine) abortReceived(msg Message) {
	mem := &m.mem
	if mem.work.state == workIdle {
		m.reportOver(msg.Round)
		return
	}
	if mem.work.sealed == nil || mem.work.sealed.Round != msg.Round || msg.Cause == nil {
		return
	}
	if mem.work.abortedBy == nil {
		mem.work.abortedBy = msg.Cause
	}
	m.stopWorkers(*msg.Cause, msg.Kill)
}

// stopWorkers ends the workers of the round on this node.
func (m *Machine) stopWorkers(c Cause, kill bool) {
	mem := &m.mem
	if mem.work.state == workIdle || mem.work.state == workStopping && !kill {
		return
	}
	m.moveWork(workStopping)
	m.emit(Stop{Round: mem.work.sealed.Round, Cause: c, Signal: stopSignal(&c), Kill: kill})
}

// reportOver says to the coordinator that no worker of a round lives here.
func (m *Machine) reportOver(round int) {
	m.sendToCoordinator(Message{
		Type: MsgOver, Round: round, Store: m.self.Store,
		Failures: m.withAges(m.mem.work.failures), Ends: m.mem.work.ends,
	})
}

// workerFailed handles the first failure of a worker here.
func (m *Machine) workerFailed(e Failed) {
	mem := &m.mem
	if mem.work.state != workRunning || mem.work.sealed.Round != e.Round {
		return
	}
	mem.work.failures = append(mem.work.failures, e.Cause)
	m.stopWorkers(e.Cause, false)
	m.sendToCoordinator(Message{Type: MsgFailed, Round: e.Round, Failures: m.withAges([]Cause{e.Cause})})
}

// workersDone handles the success of the round here: every worker ended with 0.
func (m *Machine) workersDone(e Done) {
	mem := &m.mem
	if mem.work.state != workRunning || mem.work.sealed.Round != e.Round {
		return
	}
	m.moveWork(workDone)
	mem.work.ends = e.Ends
	m.sendToCoordinator(Message{Type: MsgDone, Round: e.Round, Ends: e.Ends})
}

// workersStopped handles the end of the round here: no worker of it lives any more.
func (m *Machine) workersStopped(e Over) {
	mem := &m.mem
	if e.Store != "" {
		m.self.Store = e.Store
	}
	if mem.work.state == workIdle || mem.work.sealed.Round != e.Round {
		return
	}
	// The workers do not know what concerns the whole node, such as a lost
	// coordinator or a signal.
	mine := slices.DeleteFunc(slices.Clone(mem.work.failures), func(c Cause) bool { return c.Rank >= 0 })
	m.moveWork(workIdle)
	mem.work.failures, mem.work.ends = append(mine, e.Failures...), e.Ends
	if m.cfg.Fenced {
		mem.work.vacateAt = m.now // at once for a coordinator that this node does not follow
		if mem.link.committed {
			mem.work.vacateAt = m.now.Add(vacateAfter)
		}
	}
	m.reportOver(e.Round)
}

// stopJob ends the job, by an order or a trouble of this agent.
func (m *Machine) stopJob(e StopJob) {
	mem := &m.mem
	if mem.end.stop == nil {
		c := e.Cause
		mem.end.stop = &c
		if mem.work.state == workRunning {
			mem.work.failures = append(mem.work.failures, c)
		}
	}
	if e.Kill && mem.end.killBy.IsZero() {
		mem.end.killBy = m.now.Add(killTimeout)
	}
	round := 0
	if mem.work.sealed != nil {
		round = mem.work.sealed.Round
	}
	m.stopWorkers(*mem.end.stop, e.Kill)
	m.sendToCoordinator(Message{Type: MsgFailed, Round: round, Kill: e.Kill, Failures: m.withAges([]Cause{*mem.end.stop})})
}
