// Package rendezvous brings the agents of one run together.
//
// It holds the domain's words (Node, World, Cause) and the state machine of a round:
// a pure, deterministic step function. Events go in, commands come out, the time is
// an argument. It knows no socket, no process and no clock.
//
// Invariants, held by Machine whatever the order of its events:
//
//   - a world starts only after every one of its members has accepted exactly
//     that (term, round, digest); a member accepts at most one world a round;
//   - round numbers only grow; a round whose proposal fails is burnt;
//   - no round starts while a worker of an earlier one may live on a node that
//     answers;
//   - of two parts of a cut network at most one forms the next world.
//
// Rounds, seats and workers have a state each, and a transition method that refuses
// what its table does not allow. A refused transition is an internal error, which
// ends the job.
//
// The coordinator's round. A first coordinator begins with forming, the successor of
// a lost coordinator with recovering. A member that leaves while a world is offered
// burns the round. Every state may end in decided.
//
//	recovering ────────────────────────────────────────┐
//	                                                   ▼
//	forming ─► checking ─► proposing ─► sealing ─► running ─► stopping ─► decided
//	   ▲          │            │           │                     │
//	   └──────────┴────────────┴───────────┴─────────────────────┘
//	        the round is burnt                  another round follows
//
// The coordinator's seat for one node. A seat with a stream that ends becomes absent,
// then missing while the coordinator tries to reach the node.
//
//	without a stream     absent ─► missing ─► lost      (its process has ended)
//	                              absent ◄─► expired   (the fence ended its membership)
//	                              called ─► lost       (it is called to hear the outcome)
//	                                        left       (it left in order)
//	without a place      clearing ─► waiting
//	in the world         proposed ─► accepted ─► running ─► done ─► stopped
//	                                                └─────────────────┘
//
// A node that comes gets the state clearing while workers of an earlier round live
// there, else waiting; a member that lost its coordinator goes on from there to
// running, done or stopped. After the round, a stopped seat waits for the next one.
//
// The workers of the world on this node (member).
//
//	idle ─► running ─► done
//	  ▲        └────────┴──► stopping
//	  └────────────────────────┘
//
// The packages below put a Machine to work (drive), find peers (gossip, etcd), send
// messages (control), derive keys (secret), share a port (portshare), compare nodes
// (preflight) and serve the workers' key-value store (tcpstore). This package imports
// none of them. The drive, the control plane and the backends import this package and
// never each other.
package rendezvous

import (
	"slices"
	"time"
)

// Machine is one agent's part in the rendezvous: a member and, when it is this
// agent's turn, the coordinator as well. It is deterministic, so the same events at
// the same times give the same commands. It is not safe for concurrent use.
type Machine struct {
	cfg     Config
	self    Node
	now     time.Time
	joinBy  time.Time
	out     []Command
	local   []localMessage // between own member and own coordinator
	peers   peers
	fence   membership
	avoid   map[string]time.Time // address → not before
	mem     member
	coord   *coordinator
	queries queries
	leaving *Outcome // decided; the workers here are being stopped
	ended   bool     // Finish was emitted
}

// localMessage is a message within the agent.
type localMessage struct {
	toCoordinator bool
	msg           Message
}

// peers are the agents that the backend shows.
type peers struct {
	all        []Peer
	known      map[NodeID]time.Time // since when
	complete   bool                 // all has every agent with a membership
	candidates int                  // how many nodes the endpoints stand for; 0: each is one node
	changed    bool                 // all, or the streams, since expired nodes were marked
}

// New makes the machine of an agent that starts now.
func New(cfg Config, now time.Time) *Machine {
	return &Machine{
		cfg: cfg, self: cfg.Self, now: now,
		avoid: map[string]time.Time{}, fence: membership{silent: map[Conn]bool{}}, mem: newMember(now), joinBy: now.Add(cfg.Join),
	}
}

// Step takes one event, at a time that never goes back, and returns the commands to
// carry out, in order.
func (m *Machine) Step(now time.Time, e Event) []Command {
	paused := now.Sub(m.now) >= m.cfg.Rejoin/2
	if now.After(m.now) {
		m.now = now
	}
	m.out = nil
	if m.ended {
		return nil
	}
	if paused && m.coord != nil && m.coord.round.isOffering() {
		m.coord.burn() // this process was stopped for a while: the members may have gone on
	}
	switch e := e.(type) {
	case Peers:
		m.peersChanged(e)
	case Dialed:
		m.streamOpened(e)
	case DialFailed:
		m.dialFailed(e)
	case Received:
		m.received(e.Conn, e.Msg)
	case Closed:
		m.streamClosed(e)
	case Ready:
		m.programReady(e.Cause)
	case Failed:
		m.workerFailed(e)
	case Done:
		m.workersDone(e)
	case Over:
		m.workersStopped(e)
	case StopJob:
		m.stopJob(e)
	case Facts:
		m.factsGathered(e)
	case Answered:
		m.localAnswerReceived(e)
	case Compared:
		if m.coord != nil {
			m.coord.compared(e)
		}
	case Unconfirmed:
		m.membershipChanged(e)
	case Silence:
		m.silenceChanged(e)
	case Elsewhere:
		m.sealedElsewhere(e)
	case Sealed:
		if m.coord != nil {
			m.coord.sealed(e)
		}
	case Waiting:
		if m.coord != nil && m.coord.round.state == roundSealing && e.Serial == m.coord.sealing.serial {
			m.coord.sealing.waitsFor = e.Text
		}
	case Refused:
		m.agentRefused(e)
	case Query:
		m.queryReceived(e)
	case Reported:
		m.localReportReceived(e)
	case Suspect:
		m.sendToCoordinator(Message{Type: MsgSuspect, Round: e.Round})
	case Hung:
		if m.coord != nil {
			m.coord.hung(e)
		}
	case Tick:
	}
	m.handleSilence()
	m.settle()
	return m.out
}

// peersChanged takes what the backend shows.
func (m *Machine) peersChanged(e Peers) {
	before := m.peers.known
	m.peers = peers{all: e.All, complete: e.Complete, candidates: e.Candidates, changed: true, known: make(map[NodeID]time.Time, len(e.All))}
	for _, p := range e.All {
		m.peers.known[p.ID] = m.now
		if since, known := before[p.ID]; known {
			m.peers.known[p.ID] = since
		}
	}
	if e.Trouble != "" {
		m.mem.link.lastErr = e.Trouble
	}
	if m.coord != nil {
		m.coord.callMissing()
	}
}

// settle delivers the messages between the two halves of this agent and does what
// the time demands, until nothing is left to do.
func (m *Machine) settle() {
	for {
		for len(m.local) > 0 {
			l := m.local[0]
			m.local = m.local[1:]
			if l.toCoordinator {
				if m.coord != nil {
					m.coord.receive(Self, l.msg)
				}
			} else {
				m.fromCoordinator(l.msg)
			}
		}
		if m.ended {
			return
		}
		m.queryTick()
		if m.leaving != nil {
			m.finish(*m.leaving)
			return
		}
		if m.coord != nil {
			m.coord.tick()
		}
		if m.coord != nil { // it may have left the job
			m.coord.surveyTick()
		}
		m.memberTick()
		if len(m.local) == 0 {
			return
		}
	}
}

// Next returns when the machine wants a Tick, the zero time if it does not.
func (m *Machine) Next() time.Time {
	if m.ended {
		return time.Time{}
	}
	next := append(m.mem.wakeups(m), m.queries.wakeups()...)
	if m.coord != nil {
		next = append(next, m.coord.wakeups()...)
	}
	// settle has done what was due. Asking for it again would spin.
	next = slices.DeleteFunc(next, func(t time.Time) bool { return !t.After(m.now) })
	if len(next) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(next, time.Time.Compare)
}

// World returns the world that runs on this node, or ran last. It is nil before the
// first.
func (m *Machine) World() *World { return m.mem.work.sealed }

// internalError ends the job because this agent's own state is impossible.
func (m *Machine) internalError(err error) {
	m.emit(Note{Text: err.Error(), Kind: "internal"})
	m.stopJob(StopJob{Cause: m.nodeCause(KindAgent, err.Error())})
}

// emit adds a command.
func (m *Machine) emit(c Command) { m.out = append(m.out, c) }

// send puts a message on a stream or hands it over within the agent.
func (m *Machine) send(c Conn, toCoordinator bool, msg Message) {
	if c == Self {
		m.local = append(m.local, localMessage{toCoordinator, msg})
		return
	}
	m.emit(Send{c, msg})
}

// received routes a message. The coordinator of this agent gets what its seats say,
// the member what its coordinator says. A hello is for the coordinator.
func (m *Machine) received(c Conn, msg Message) {
	msg.trim()
	switch {
	case c == m.mem.link.conn && m.mem.link.open:
		m.fromCoordinator(msg)
	case msg.Type == MsgRedirect:
		m.emit(Close{c})
		m.callReceived(msg)
	case m.coord != nil:
		m.coord.receive(c, msg)
	case msg.Type == MsgHello && m.mem.end.outcome != nil && msg.Node != nil && concerns(*msg.Node, msg.Last, m.mem.work.sealed):
		m.emit(Send{c, Message{Type: MsgFinish, Outcome: m.mem.end.outcome}})
	case msg.Type == MsgHello:
		addr := m.mem.link.at
		if msg.Node != nil && msg.Node.Control == addr {
			addr = "" // this agent expected the other one to coordinate
		}
		m.emit(Send{c, Message{Type: MsgRedirect, Addr: addr}})
		m.emit(Close{c})
	case msg.Type != MsgAck:
		m.emit(Close{c}) // this agent does not wait for it
	}
}

// streamClosed handles the end of a stream.
func (m *Machine) streamClosed(e Closed) {
	delete(m.fence.silent, e.Conn)
	if m.mem.link.open && e.Conn == m.mem.link.conn {
		m.coordinatorLost(e)
		return
	}
	if m.coord != nil {
		m.coord.streamClosed(e.Conn, e.Silent, e.Text)
	}
}

// finish ends the agent after the workers that still run here have stopped.
func (m *Machine) finish(o Outcome) {
	if m.ended {
		return
	}
	if w := m.mem.work.state; w == workRunning || w == workStopping {
		m.leaving = &o
		cause := o.Cause
		if cause == nil {
			cause = &Cause{Kind: KindLost, Node: m.self.ID, Host: m.self.Host, GroupRank: m.groupRank(), Rank: -1, LocalRank: -1, Message: "the job ended without this node", Time: m.now}
		}
		m.stopWorkers(*cause, false)
		return
	}
	m.ended = true
	m.emit(Show{nil})
	m.emit(Finish{o})
}

// Config is what a Machine needs to know, once.
type Config struct {
	Self        Node
	MaxRestarts int
	Endpoints   int           // number of endpoints; the first world needs nodes that serve a majority of them
	Where       string        // the endpoints, for messages
	Flags       string        // flags that every node needs alike to meet there, for messages; "": those of endpoints
	Hint        string        // what may keep the others from this node, for messages; "": nothing known
	Proofs      bool          // as coordinator: seat only nodes whose id is proven
	Check       bool          // as coordinator: compare the nodes before a world is proposed
	Fenced      bool          // the backend is a Fence: it makes worlds unique
	Grow        bool          // a node that comes while an elastic job runs starts the next round
	Takeover    bool          // another agent may coordinate when the coordinator is lost
	Token       func() string // draws a world's token
	Timeouts
}

// hint returns the end of a message about nodes that did not meet.
func (c *Config) hint() string {
	if c.Hint == "" {
		return ""
	}
	return "; " + c.Hint
}

// Timeouts are the times that a Machine waits.
type Timeouts struct {
	Join     time.Duration // for the whole rendezvous of a round
	LastCall time.Duration // for more nodes above the minimum
	Rejoin   time.Duration // for survivors after the loss of the coordinator
	Retry    time.Duration // between two attempts to reach a coordinator
}

// The time that a decided job waits for the others to take the outcome.
const (
	ackTimeout  = 2 * time.Second
	killTimeout = 10 * time.Second // after a kill, the job ends here with or without the others
	statusEvery = time.Second
)
