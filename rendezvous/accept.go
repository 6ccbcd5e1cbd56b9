package rendezvous

import (
	"errors"
	"fmt"
)

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
