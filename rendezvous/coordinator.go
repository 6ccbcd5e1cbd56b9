package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// stage of the round, seen by its coordinator.
type stage int

const (
	recovering stage = iota // collecting the survivors of a lost coordinator
	forming                 // waiting for enough nodes
	checking                // the chosen nodes are compared
	proposing               // waiting for every acceptance
	sealing                 // waiting for the fence
	executing               // every member has accepted; workers run
	halting                 // waiting until no worker of the round lives
	decided                 // waiting until everyone has the outcome
)

func (s stage) String() string {
	return [...]string{"recovering", "forming", "checking", "accepting", "sealing", "running", "stopping", "ending"}[s]
}

// chair is one member, seen by the coordinator.
type chair struct {
	conn     Conn
	node     Node
	inWorld  bool // in the world that is proposed or runs
	accepted bool
	done     bool
	over     bool
	fit      bool            // its facts, if it tells any, fit to the running world
	leaving  *Cause          // it was told to leave a job that goes on without it
	facts    json.RawMessage // nil: not told yet
	env      []byte          // what it told of its environment, with the facts
	given    []byte          // what its workers' environment is to be in the world that is offered
	busy     bool            // it came while workers of an earlier round were being stopped there
}

// coordinator is the half of an agent that forms worlds. It owns no workers:
// its own node's member is one of its seats, at Self.
//
//	recovering ─► forming ─► checking ─► proposing ─► sealing ─► executing ─► halting ─┬─► decided
//	                 ▲           │           │           │ a member left: round burnt    │
//	                 ├───────────┴───────────┴───────────┘                               │
//	                 └───────────────── restarts left, a node came or left ──────────────┘
type coordinator struct {
	m     *Machine
	phase stage
	seats []*chair // in order of arrival

	term, round, restart int
	maxRestarts          int
	job                  string         // identity of the worlds that follow each other
	world                *World         // proposed or running
	digest               string         // of the world that was proposed
	asked                int            // serial of the last Seal
	waits                string         // what that waits for
	outvoted             string         // why the fence refused: another agent coordinates
	killed               bool           // the workers' grace period was cut short
	exam                 *exam          // of the world, while checking
	serial               int            // of the last question; begins with the time, so that no answer to another coordinator fits
	late                 map[int]NodeID // by serial: nodes that are examined while a world runs
	last                 *World         // the last one that was committed
	dead                 map[NodeID]bool
	calls                map[string]call // by address, not answered yet
	away                 map[NodeID]bool // stream broke, may come back
	expired              map[NodeID]bool // of dead: their membership ended, and may begin again
	gone                 map[NodeID]bool // of the world: left when no worker of it lived there
	took                 bool            // over from a coordinator that was lost
	sought               map[NodeID]bool // who was called to hear the outcome
	final                bool            // no further round: this agent decides for its node alone
	outcome              *Outcome

	refused  refusals
	deadline time.Time // of the phase
	lastCall time.Time
	growAt   time.Time // when a running elastic job takes in who has come
	statusAt time.Time
	survey   survey

	failures []failure // of the round
	ends     []End
	records  []Record
	began    time.Time // of the round's workers
}

// newCoordinator starts as a first coordinator, or as the successor of one that
// was lost.
func newCoordinator(m *Machine) *coordinator {
	c := &coordinator{
		m: m, phase: forming, term: 1, maxRestarts: m.cfg.MaxRestarts,
		dead: map[NodeID]bool{}, calls: map[string]call{}, away: map[NodeID]bool{}, gone: map[NodeID]bool{}, sought: map[NodeID]bool{}, expired: map[NodeID]bool{}, late: map[int]NodeID{}, deadline: m.joinBy, statusAt: m.now.Add(statusEvery),
		serial: int(m.now.UnixNano()),
	}
	c.job = m.cfg.Token()
	if w := m.mem.sealed; w != nil {
		c.phase, c.last, c.world, c.took = recovering, w, w, true
		c.job = w.Job
		c.term, c.round, c.restart, c.maxRestarts = w.Term+1, w.Round, w.Restart, w.MaxRestarts
		c.deadline, c.began = m.now.Add(m.cfg.Rejoin), m.now
		c.final = !m.cfg.Takeover
		for id, dead := range m.mem.gone {
			c.dead[id] = c.dead[id] || dead
		}
		for _, p := range w.Members {
			if _, gone := m.mem.gone[p.ID]; !gone && p.ID != m.self.ID && !c.final {
				c.away[p.ID] = true
			}
		}
		if h := m.mem.handed; h != nil {
			m.mem.handed = nil
			c.phase, c.restart, c.round = forming, h.Restart, max(c.round+1, h.Round)
			c.deadline = m.now.Add(m.cfg.Join)
			m.emit(Note{Text: fmt.Sprintf("%s coordinates from now on", m.self.Name())})
			return c
		}
		m.emit(Note{Text: fmt.Sprintf("the coordinator was lost; %s coordinates from now on", m.self.Name())})
	}
	return c
}

func (c *coordinator) wakeups() []time.Time {
	w := []time.Time{c.lastCall, c.growAt, c.survey.by, c.refused.by}
	if c.phase == checking {
		w = append(w, c.exam.askedBy)
	}
	if c.offering() { // see away in Step
		w = append(w, c.m.now.Add(c.m.cfg.Rejoin/4))
	}
	if c.phase != executing {
		w = append(w, c.deadline)
	}
	if c.phase != decided && (c.phase != executing || c.queued()) {
		w = append(w, c.statusAt)
	}
	return w
}

// offering reports whether a world is on its way to be sealed.
func (c *coordinator) offering() bool {
	return c.phase == checking || c.phase == proposing || c.phase == sealing
}

// queued reports whether a node waits for a place in the next round.
func (c *coordinator) queued() bool {
	return slices.ContainsFunc(c.seats, func(s *chair) bool { return !s.inWorld })
}

func (c *coordinator) enter(s stage, limit time.Duration) {
	if c.phase == sealing && s != executing && s != sealing {
		c.m.emit(GiveUp{})
	}
	c.phase, c.lastCall = s, time.Time{}
	c.statusAt = c.m.now.Add(statusEvery)
	c.deadline = time.Time{}
	if limit > 0 {
		c.deadline = c.m.now.Add(limit)
	}
}

func (c *coordinator) send(s *chair, msg Message) { c.m.send(s.conn, false, msg) }

// each calls f for the members of the current world that are still connected.
func (c *coordinator) each(f func(*chair)) {
	for _, s := range slices.Clone(c.seats) {
		if s.inWorld {
			f(s)
		}
	}
}

// all reports whether f holds for every connected member of the current world.
func (c *coordinator) all(f func(*chair) bool) bool {
	return !slices.ContainsFunc(c.seats, func(s *chair) bool { return s.inWorld && !f(s) })
}

func (c *coordinator) seat(conn Conn) *chair {
	if i := slices.IndexFunc(c.seats, func(s *chair) bool { return s.conn == conn }); i >= 0 {
		return c.seats[i]
	}
	return nil
}

// receive handles a message from a seat, or the hello of a newcomer.
func (c *coordinator) receive(conn Conn, msg Message) {
	s := c.seat(conn)
	if s == nil {
		if msg.Type == MsgHello && msg.Node != nil {
			c.hello(conn, msg)
		} else {
			c.m.emit(Close{conn})
		}
		return
	}
	current := c.world != nil && s.inWorld && msg.Round == c.world.Round
	switch msg.Type {
	case MsgAccept:
		if current && c.phase == proposing && msg.Term == c.world.Term && msg.Digest == c.digest {
			s.accepted = true
		}
	case MsgFacts, MsgAnswer:
		c.told(s, msg)
	case MsgQuery:
		c.queried(s, msg.Serial)
	case MsgReport:
		c.reported(s, msg)
	case MsgFailed:
		c.failed(s, msg, current)
	case MsgDone:
		if current && !s.done && (c.phase == executing || c.phase == halting) {
			s.done = true
			c.ends = append(c.ends, msg.Ends...)
		}
	case MsgOver:
		s.busy = false
		if msg.Store != "" && words(msg.Store) == nil {
			s.node.Store = msg.Store
		}
		if current && c.phase == halting && !s.over {
			s.over = true
			c.add(slices.DeleteFunc(msg.Failures, func(f Cause) bool { return s.leaving != nil && f.Kind == KindStopped })...)
			if !s.done {
				c.ends = append(c.ends, msg.Ends...)
			}
		}
	case MsgAck:
		if c.phase == decided || !s.inWorld { // one that only waited for a place may leave before
			c.leave(s)
		}
	}
}

func (c *coordinator) remove(s *chair) {
	c.m.changed = true
	c.seats = slices.DeleteFunc(c.seats, func(o *chair) bool { return o == s })
}

// leave ends a seat after it has taken the outcome.
func (c *coordinator) leave(s *chair) {
	c.remove(s)
	if s.conn != Self {
		c.m.emit(Close{s.conn})
	}
}
