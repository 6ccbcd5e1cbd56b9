package rendezvous

import (
	"errors"
	"fmt"
	"time"
)

// phase of the workers of the accepted world on this node.
type phase int

const (
	idle     phase = iota // no worker lives here
	running               // Start was emitted
	done                  // every worker ended with 0
	stopping              // Stop was emitted
)

// member is the half of an agent that follows a coordinator.
type member struct {
	linked  bool   // there is a coordinator at conn
	conn    Conn   // meaningful if linked
	at      string // the coordinator's address, "" for Self
	dialing string // address, "" if not dialing

	isReady  bool
	unfit    *Cause // the program cannot be started here
	proposed *World // not answered yet: the program is still being built
	accepted *World
	sealed   *World // accepted and committed

	work     phase
	failures []Cause
	ends     []End
	told     *Cause // why the coordinator aborted the round
	stop     *Cause // somebody asked this agent to end the job
	killBy   time.Time

	orphanBy time.Time       // no coordinator since the last world: deadline
	follows  bool            // the coordinator at conn committed the sealed world
	silent   bool            // the coordinator fell silent: who does not answer now may have gone on without this node
	summons  Message         // of the coordinator that called this agent last
	gone     map[NodeID]bool // members of the last world that cannot be asked; true: known to be dead

	outcome *Outcome
	byeBy   time.Time
	lastErr string // the last failed attempt to reach a coordinator
	shownAt time.Time
}

func newMember(now time.Time) member { return member{gone: map[NodeID]bool{}, shownAt: now} }

func (mem *member) addr() string { return mem.at }

func (mem *member) wakeups(m *Machine) []time.Time {
	w := []time.Time{mem.orphanBy, mem.byeBy, mem.killBy}
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
	node := m.self
	msg := Message{Type: MsgHello, Node: &node}
	if m.mem.accepted != nil {
		msg.Last = m.last()
	}
	m.tell(msg)
	if m.mem.stop != nil {
		m.tell(Message{Type: MsgFailed, Failures: m.aged([]Cause{*m.mem.stop})})
	}
}

func (m *Machine) last() *Last {
	mem := &m.mem
	l := &Last{
		World: mem.accepted, Started: mem.sealed == mem.accepted, Done: mem.work == done,
		Over: mem.work == idle, Failures: m.aged(mem.failures), Ends: mem.ends, Outcome: mem.outcome,
	}
	if mem.told != nil && len(l.Failures) == 0 {
		l.Failures = []Cause{*mem.told}
	}
	return l
}

func (m *Machine) ready(cause *Cause) {
	m.mem.isReady, m.mem.unfit = true, cause
	if m.mem.proposed != nil {
		w := m.mem.proposed
		m.mem.proposed = nil
		m.answer(w)
	}
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
			if msg.Status.Phase == forming.String() && mem.work == idle { // the last round is settled
				mem.failures, mem.ends, mem.told = nil, nil, nil
			}
			m.emit(Show{msg.Status})
		}
	case MsgRefuse:
		m.refused(msg.Text)
	case MsgRedirect:
		if mem.follows && mem.work != idle { // it committed the world and now denies it
			m.emit(Close{mem.conn})
			m.lostCoordinator(Closed{Conn: mem.conn, Text: "it does not coordinate any more"})
			return
		}
		m.redirected(msg.Addr)
	case MsgPropose:
		m.considered(msg.World)
	case MsgCommit:
		if w := mem.accepted; w != nil && mem.sealed != w && w.Round == msg.Round && w.Term == msg.Term && w.Digest() == msg.Digest {
			mem.sealed, mem.work, mem.follows = w, running, true
			mem.failures, mem.ends, mem.told = nil, nil, nil
			m.emit(Show{nil})
			m.emit(Start{*w, w.Index(m.self.ID)})
		}
	case MsgAbort:
		m.aborted(msg)
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

// considered looks at a proposal before the program is asked for.
func (m *Machine) considered(w *World) {
	mem := &m.mem
	if w == nil || mem.work != idle || mem.accepted != nil && (w.Round <= mem.accepted.Round || w.Term < mem.accepted.Term) {
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
	if err != nil {
		c := m.here(KindRendezvous, fmt.Sprintf("%s cannot take part in the world that the coordinator proposes: %v", m.self.Name(), err))
		m.tell(Message{Type: MsgFailed, Round: w.Round, Failures: []Cause{c}})
		return
	}
	m.answer(w)
}

// answer accepts a proposed world once the program can be started here.
func (m *Machine) answer(w *World) {
	switch {
	case !m.mem.isReady:
		m.mem.proposed = w
	case m.mem.unfit != nil:
		m.tell(Message{Type: MsgFailed, Round: w.Round, Failures: m.aged([]Cause{*m.mem.unfit})})
	default:
		m.mem.accepted = w
		m.tell(Message{Type: MsgAccept, Term: w.Term, Round: w.Round, Digest: w.Digest()})
	}
}

// memberTick does what the time demands of the member.
func (m *Machine) memberTick() {
	mem := &m.mem
	switch {
	case m.ended:
	case mem.outcome != nil && m.coord == nil:
		if !m.now.Before(mem.byeBy) {
			m.finish(*mem.outcome)
		} else if !mem.linked && mem.sealed != nil {
			m.seek()
		}
	case !mem.killBy.IsZero() && !m.now.Before(mem.killBy) && mem.work == idle:
		m.finish(m.alone(*mem.stop))
	case m.coord != nil:
		m.probe()
	case mem.linked:
	case mem.stop != nil && mem.sealed == nil:
		m.finish(m.alone(*mem.stop))
	case mem.sealed == nil && !m.now.Before(m.joinBy):
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
	return text + "; check that gorun runs on the endpoint's node, that the address is right and that no firewall drops the port"
}

func (m *Machine) seekStatus() *Status {
	s := &Status{Phase: "seeking", Min: m.self.Min, Max: m.self.Max, Left: m.joinBy.Sub(m.now), Note: m.mem.lastErr, Here: []string{m.self.Name()}}
	if !m.mem.orphanBy.IsZero() {
		s.Phase, s.Left = "recovering", m.mem.orphanBy.Sub(m.now)
	}
	return s
}
