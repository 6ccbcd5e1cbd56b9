package rendezvous

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// phase of the workers of the accepted world on this node.
type phase int

const (
	workIdle     phase = iota // no worker lives here
	workRunning               // Start was emitted
	workDone                  // every worker ended with 0
	workStopping              // Stop was emitted
)

// member is the half of an agent that follows a coordinator.
type member struct {
	linked  bool   // there is a coordinator at conn
	conn    Conn   // meaningful if linked
	at      string // the coordinator's address, "" for Self
	dialing string // address, "" if not dialing

	isReady  bool
	facts    *Facts   // what this agent tells of its node; nil: not gathered yet
	unfit    *Cause   // the program cannot be started here
	proposed *Message // not answered yet: the program is still being built
	accepted *World
	digest   string // of accepted
	env      []byte // for the workers of the accepted world
	sealed   *World // accepted and committed

	work     phase
	failures []Cause
	ends     []End
	told     *Cause // why the coordinator aborted the round
	stop     *Cause // somebody asked this agent to end the job
	killBy   time.Time
	killed   bool      // the workers were killed, as others may go on without this node
	vacateAt time.Time // when to tell the fence that no worker lives here; zero: told, or not asked for
	handed   *Message  // the coordinator left and handed the job over
	leads    Message   // where the fence has seen a coordinator: Addr, Term
	// elsewhere is the world that the fence has seen.
	elsewhere Elsewhere
	// spare: a world runs in which this agent has no place. It waits to be called,
	// and has no vote in who goes on, whatever world it was in before.
	spare bool
	job   string // of that world

	orphanBy time.Time       // no coordinator since the last world: deadline
	follows  bool            // the coordinator at conn committed the sealed world
	silent   bool            // the coordinator fell silent: who does not answer now may have gone on without this node
	summons  Message         // of the coordinator that called this agent last
	gone     map[NodeID]bool // members of the last world that cannot be asked; true: known to be dead

	outcome *Outcome
	byeBy   time.Time
	lastErr string // the last failed attempt to reach a coordinator
	shownAt time.Time
	refused map[string]bool // lines that were shown
}

// placed reports whether this agent is a member of the last world, for all it knows.
func (mem *member) placed() bool { return mem.sealed != nil && !mem.spare }

func newMember(now time.Time) member {
	return member{gone: map[NodeID]bool{}, refused: map[string]bool{}, shownAt: now}
}

func (mem *member) wakeups(m *Machine) []time.Time {
	w := []time.Time{mem.orphanBy, mem.byeBy, mem.killBy, mem.vacateAt}
	if !mem.linked {
		w = append(w, m.joinBy, mem.shownAt.Add(statusEvery))
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

// tell sends a message to the coordinator, if there is one.
func (m *Machine) tell(msg Message) {
	if m.mem.linked {
		m.send(m.mem.conn, true, msg)
	}
}

// link makes conn the stream to the coordinator and says hello.
func (m *Machine) link(c Conn, at string) {
	m.mem.linked, m.mem.conn, m.mem.at, m.mem.dialing = true, c, at, ""
	m.mem.handed = nil
	node := m.self
	msg := Message{Type: MsgHello, Node: &node, Job: m.mem.job}
	if m.mem.accepted != nil {
		msg.Last = m.last()
	}
	m.tell(msg)
	if m.mem.facts != nil {
		m.tell(Message{Type: MsgFacts, Body: m.mem.facts.Body, Env: m.mem.facts.Env})
	}
	if m.mem.stop != nil {
		m.tell(Message{Type: MsgFailed, Failures: m.aged([]Cause{*m.mem.stop})})
	}
}

func (m *Machine) last() *Last {
	mem := &m.mem
	l := &Last{
		World: mem.accepted, Started: mem.sealed == mem.accepted, Done: mem.work == workDone,
		Over: mem.work == workIdle, Failures: m.aged(mem.failures), Ends: mem.ends, Outcome: mem.outcome,
	}
	if mem.told != nil && len(l.Failures) == 0 {
		l.Failures = []Cause{*mem.told}
	}
	return l
}

// fromCoordinator handles what the coordinator says.
func (m *Machine) fromCoordinator(msg Message) {
	mem := &m.mem
	if msg.Type != MsgRedirect { // it coordinates: the search is over
		mem.orphanBy = time.Time{}
	}
	switch msg.Type {
	case MsgStatus:
		if msg.Status != nil {
			if msg.Status.Phase == roundForming.String() && mem.work == workIdle { // the last round is settled
				mem.failures, mem.ends, mem.told = nil, nil, nil
			}
			if msg.Status.Phase == roundRunning.String() {
				mem.spare, mem.job = true, msg.Status.Job
			}
			m.showRefused(msg.Status.Refused)
			m.emit(Show{msg.Status})
		}
	case MsgRefuse:
		m.refused(msg.Text)
	case MsgRedirect:
		if mem.follows && mem.work != workIdle { // it committed the world and now denies it
			m.emit(Close{mem.conn})
			m.lostCoordinator(Closed{Conn: mem.conn, Text: "it does not coordinate any more"})
			return
		}
		m.redirected(msg.Addr)
	case MsgAsk:
		m.asked(msg)
	case MsgInquire:
		m.emit(Report{msg.Serial})
	case MsgView:
		m.viewed(msg)
	case MsgPropose:
		m.considered(msg)
	case MsgCommit:
		if w := mem.accepted; w != nil && mem.sealed != w && w.Round == msg.Round && w.Term == msg.Term && mem.digest == msg.Digest {
			mem.sealed, mem.work, mem.follows, mem.killed, mem.vacateAt = w, workRunning, true, false, time.Time{}
			mem.spare, mem.gone = false, map[NodeID]bool{} // who was lost once may be in it
			mem.failures, mem.ends, mem.told = nil, nil, nil
			m.emit(Show{nil})
			m.emit(Start{*w, w.Index(m.self.ID), mem.env})
		}
	case MsgAbort:
		m.aborted(msg)
	case MsgHandover:
		m.handedOver(msg)
	case MsgFinish:
		if msg.Outcome == nil {
			return
		}
		if mem.outcome == nil {
			mem.outcome, mem.byeBy = msg.Outcome, m.now.Add(ackTimeout/2)
		}
		m.tell(Message{Type: MsgAck})
	}
}

// memberTick does what the time demands of the member.
func (m *Machine) memberTick() {
	mem := &m.mem
	if !m.ended && !mem.vacateAt.IsZero() && !m.now.Before(mem.vacateAt) && mem.work == workIdle {
		mem.vacateAt = time.Time{}
		m.emit(Vacate{mem.sealed.Round})
	}
	switch {
	case m.ended:
	case mem.outcome != nil && m.coord == nil:
		if !m.now.Before(mem.byeBy) {
			m.finish(*mem.outcome)
		} else if !mem.linked && mem.sealed != nil {
			m.seek()
		}
	case !mem.killBy.IsZero() && !m.now.Before(mem.killBy) && mem.work == workIdle:
		m.finish(m.alone(*mem.stop))
	case m.coord != nil:
		m.probe()
	case mem.linked:
	case mem.stop != nil && !mem.placed():
		m.finish(m.alone(*mem.stop))
	case !mem.placed() && !m.now.Before(m.joinBy):
		m.finish(m.alone(m.here(KindRendezvous, m.nobody())))
	default:
		m.seek()
		if !mem.linked && m.coord == nil && !m.now.Before(mem.shownAt.Add(statusEvery)) {
			mem.shownAt = m.now
			m.emit(Show{m.seekStatus()})
		}
	}
}

// alone is an outcome that this agent had to decide without the others.
func (m *Machine) alone(c Cause) Outcome {
	return Outcome{Code: c.Code(), Cause: &c, Failures: []Cause{c}}
}

func (m *Machine) nobody() string {
	text := fmt.Sprintf("no coordinator of run %q answered at %s within %v", m.self.RunID, m.cfg.Where, m.cfg.Join)
	if m.mem.lastErr != "" {
		text += " (last attempt: " + m.mem.lastErr + ")"
	}
	if m.cfg.Fenced { // nobody leads before this agent reaches it
		return text + "; check that every node reaches it and was started with the same --rdzv-id"
	}
	return text + "; check that gorun runs on the endpoint's node, that the address is right and that no firewall drops the port"
}

func (m *Machine) seekStatus() *Status {
	s := &Status{Phase: "seeking", Min: m.self.Min, Max: m.self.Max, Left: m.joinBy.Sub(m.now), Note: m.mem.lastErr, Here: []string{m.self.Name()}}
	if !m.mem.orphanBy.IsZero() {
		s.Phase, s.Left = "recovering", m.mem.orphanBy.Sub(m.now)
	}
	return s
}

// ready: the program can be started here, or cannot; a proposal that waited for
// that is answered.
func (m *Machine) ready(cause *Cause) {
	m.mem.isReady, m.mem.unfit = true, cause
	if m.mem.proposed != nil {
		msg := *m.mem.proposed
		m.mem.proposed = nil
		m.answer(msg)
	}
}

// considered looks at a proposal before the program is asked for.
func (m *Machine) considered(msg Message) {
	mem, w := &m.mem, msg.World
	if w == nil || mem.work != workIdle || mem.accepted != nil && (w.Round <= mem.accepted.Round || w.Term < mem.accepted.Term) {
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
	if err == nil && (w.Members[i].Env != envHash(msg.Env) || len(msg.Env) > MaxGiven) {
		err = errors.New("the environment that came with it is not the one that belongs to it")
	}
	if err != nil {
		c := m.here(KindRendezvous, fmt.Sprintf("%s cannot take part in the world that the coordinator proposes: %v", m.self.Name(), err))
		m.tell(Message{Type: MsgFailed, Round: w.Round, Failures: []Cause{c}})
		return
	}
	m.answer(msg)
}

// answer accepts a proposed world once the program can be started here.
func (m *Machine) answer(msg Message) {
	w := msg.World
	switch {
	case !m.mem.isReady:
		m.mem.proposed = &msg
	case m.mem.unfit != nil:
		m.tell(Message{Type: MsgFailed, Round: w.Round, Failures: m.aged([]Cause{*m.mem.unfit})})
	default:
		m.mem.accepted, m.mem.digest, m.mem.env = w, w.Digest(), msg.Env
		if len(msg.Clients) > 0 {
			m.emit(Admit{msg.Clients})
		}
		m.tell(Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: m.mem.digest})
	}
}

// vacateAfter spares the fence a word from every node at every restart: mostly
// the next round begins sooner.
const vacateAfter = time.Second

func (m *Machine) aborted(msg Message) {
	mem := &m.mem
	if mem.work == workIdle {
		m.tellOver(msg.Round)
		return
	}
	if mem.sealed == nil || mem.sealed.Round != msg.Round || msg.Cause == nil {
		return
	}
	if mem.told == nil {
		mem.told = msg.Cause
	}
	m.stopWorkers(*msg.Cause, msg.Kill)
}

// stopWorkers ends the workers of the round on this node.
func (m *Machine) stopWorkers(c Cause, kill bool) {
	mem := &m.mem
	if mem.work == workIdle || mem.work == workStopping && !kill {
		return
	}
	mem.work = workStopping
	m.emit(Stop{Round: mem.sealed.Round, Cause: c, Signal: stopSignal(&c), Kill: kill})
}

func (m *Machine) tellOver(round int) {
	m.tell(Message{
		Type: MsgOver, Round: round, Store: m.self.Store,
		Failures: m.aged(m.mem.failures), Ends: m.mem.ends,
	})
}

func (m *Machine) localFailed(e Failed) {
	mem := &m.mem
	if mem.work != workRunning || mem.sealed.Round != e.Round {
		return
	}
	mem.failures = append(mem.failures, e.Cause)
	m.stopWorkers(e.Cause, false)
	m.tell(Message{Type: MsgFailed, Round: e.Round, Failures: m.aged([]Cause{e.Cause})})
}

func (m *Machine) localDone(e Done) {
	mem := &m.mem
	if mem.work != workRunning || mem.sealed.Round != e.Round {
		return
	}
	mem.work, mem.ends = workDone, e.Ends
	m.tell(Message{Type: MsgDone, Round: e.Round, Ends: e.Ends})
}

func (m *Machine) localOver(e Over) {
	mem := &m.mem
	if e.Store != "" {
		m.self.Store = e.Store
	}
	if mem.work == workIdle || mem.sealed.Round != e.Round {
		return
	}
	// What concerns the whole node (a lost coordinator, a signal) is not the workers' to tell.
	mine := slices.DeleteFunc(slices.Clone(mem.failures), func(c Cause) bool { return c.Rank >= 0 })
	mem.work, mem.failures, mem.ends = workIdle, append(mine, e.Failures...), e.Ends
	if m.cfg.Fenced {
		mem.vacateAt = m.now // who coordinates this node knows it, unless it is the one that has to stop
		if mem.follows {
			mem.vacateAt = m.now.Add(vacateAfter)
		}
	}
	m.tellOver(e.Round)
}

// stopJob: this agent was told to end the job.
func (m *Machine) stopJob(e StopJob) {
	mem := &m.mem
	if mem.stop == nil {
		c := e.Cause
		mem.stop = &c
		if mem.work == workRunning {
			mem.failures = append(mem.failures, c)
		}
	}
	if e.Kill && mem.killBy.IsZero() {
		mem.killBy = m.now.Add(killTimeout)
	}
	round := 0
	if mem.sealed != nil {
		round = mem.sealed.Round
	}
	m.stopWorkers(*mem.stop, e.Kill)
	m.tell(Message{Type: MsgFailed, Round: round, Kill: e.Kill, Failures: m.aged([]Cause{*mem.stop})})
}
