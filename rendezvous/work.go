package rendezvous

import (
	"slices"
	"time"
)

// vacateAfter spares the fence a word from every node at every restart: mostly
// the next round begins sooner.
const vacateAfter = time.Second

func (m *Machine) aborted(msg Message) {
	mem := &m.mem
	if mem.work == idle {
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
	if mem.work == idle || mem.work == stopping && !kill {
		return
	}
	mem.work = stopping
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
	if mem.work != running || mem.sealed.Round != e.Round {
		return
	}
	mem.failures = append(mem.failures, e.Cause)
	m.stopWorkers(e.Cause, false)
	m.tell(Message{Type: MsgFailed, Round: e.Round, Failures: m.aged([]Cause{e.Cause})})
}

func (m *Machine) localDone(e Done) {
	mem := &m.mem
	if mem.work != running || mem.sealed.Round != e.Round {
		return
	}
	mem.work, mem.ends = done, e.Ends
	m.tell(Message{Type: MsgDone, Round: e.Round, Ends: e.Ends})
}

func (m *Machine) localOver(e Over) {
	mem := &m.mem
	if e.Store != "" {
		m.self.Store = e.Store
	}
	if mem.work == idle || mem.sealed.Round != e.Round {
		return
	}
	// What concerns the whole node (a lost coordinator, a signal) is not the workers' to tell.
	mine := slices.DeleteFunc(slices.Clone(mem.failures), func(c Cause) bool { return c.Rank >= 0 })
	mem.work, mem.failures, mem.ends = idle, append(mine, e.Failures...), e.Ends
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
		if mem.work == running {
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
