package rendezvous

import (
	"context"
	"encoding/json"
	"syscall"
	"time"
)

// Conn names one control stream of this agent. Self is the stream between the
// agent's own member and its own coordinator, which never leaves the Machine.
type Conn int64

// Self is the Conn of an agent that coordinates itself.
const Self Conn = 0

// Event is something that happened to this agent.
type Event interface{ event() }

type (
	// Peers: the backend sees exactly these agents, this one included. Trouble is
	// why it may not see more, for the person that waits.
	Peers struct {
		All     []Peer
		Whole   bool // of a Fence: these are all whose membership has not ended
		Trouble string
	}
	// Dialed: the stream that Dial asked for is open.
	Dialed struct {
		Addr string
		Conn Conn
	}
	// DialFailed: no agent answered at Addr. Refused: the host is up and nothing listens.
	DialFailed struct {
		Addr    string
		Refused bool
		Text    string
	}
	// Received: a message came in on an open stream, incoming or outgoing.
	Received struct {
		Conn Conn
		Msg  Message
	}
	// Closed: a stream ended. Clean: the other side ended it on purpose. Silent:
	// by lack of any sign of life, which is no proof that its process has ended.
	Closed struct {
		Conn   Conn
		Clean  bool
		Silent bool
		Text   string
	}
	// Ready: the program can be started here; nil Cause. With a Cause: it cannot.
	Ready struct{ Cause *Cause }
	// Failed: the first failure of a worker of the round on this node.
	Failed struct {
		Round int
		Cause Cause
	}
	// Done: every worker of the round on this node ended with 0.
	Done struct {
		Round int
		Ends  []End
	}
	// Over: after Stop, nothing of the round lives on this node. Store is the
	// address of the store that is bound for the next round.
	Over struct {
		Round    int
		Failures []Cause
		Ends     []End
		Store    string
	}
	// StopJob: the job is to end on every node: a signal, a trouble of
	// this agent's own that it cannot get over. Its Cause is of a final kind.
	StopJob struct {
		Cause Cause
		Kill  bool // at once, without a grace period
	}
	// Facts: the facts of this node are gathered; JSON, never nil. Env is what it says
	// of its environment, MaxEnv bytes at most, or nil: apart from the facts, as it may
	// hold what no record or report may have.
	Facts struct {
		Body json.RawMessage
		Env  []byte
	}
	// Answered: the answer to Ask.
	Answered struct {
		Serial int
		Body   json.RawMessage
	}
	// Compared answers Compare. An Outcome ends the job before this world starts, or,
	// with Only, these nodes' part in it. An Outcome without a Cause ends the job when
	// every member has accepted the world. Ask, one body
	// a member, asks the members (at most twice a world). Else the world is offered, with Env,
	// the environment of its workers, for each member (MaxGiven bytes at most). Only
	// that member gets it; the world has its hash.
	Compared struct {
		Serial  int
		Outcome *Outcome
		Only    []NodeID
		Ask     []json.RawMessage
		Env     [][]byte
	}
	// Refused: an agent was refused here before it could say hello. Ours: it is of this
	// run, and has proven that if the run has a secret.
	Refused struct {
		Name string // "": Why names it
		Why  string
		Ours bool
	}
	// Query: a person at this node asks how the job stands; answered by Present.
	Query struct{}
	// Reported: what this node does, to Report; JSON.
	Reported struct {
		Serial int
		Body   json.RawMessage
	}
	// Tick: the time that Next asked for has come.
	Tick struct{}
)

func (Peers) event()      {}
func (Dialed) event()     {}
func (DialFailed) event() {}
func (Received) event()   {}
func (Closed) event()     {}
func (Ready) event()      {}
func (Failed) event()     {}
func (Done) event()       {}
func (Over) event()       {}
func (StopJob) event()    {}
func (Facts) event()      {}
func (Answered) event()   {}
func (Compared) event()   {}
func (Refused) event()    {}
func (Query) event()      {}
func (Reported) event()   {}
func (Tick) event()       {}

// Command is something that the agent must do.
type Command interface{ command() }

type (
	// Dial opens a control stream; answered by Dialed or DialFailed.
	Dial struct{ Addr string }
	// Send puts a message on a stream; nothing happens if it has ended.
	Send struct {
		Conn Conn
		Msg  Message
	}
	// Close ends a stream after what was sent on it has left. No Closed follows.
	Close struct{ Conn Conn }
	// Admit names the clients that this node's store must answer, before any of the
	// world's workers starts: addresses and networks in text, of all its nodes.
	Admit struct{ Clients []string }
	// Start starts this node's workers of the world; Index is the group rank, and Env
	// what Compared gave for this node.
	Start struct {
		World World
		Index int
		Env   []byte
	}
	// Stop ends this node's workers of the round; answered by Over. A second one
	// with Kill cuts the grace period short.
	Stop struct {
		Round  int
		Cause  Cause
		Signal syscall.Signal
		Kill   bool
	}
	// Finish ends the agent.
	Finish struct{ Outcome Outcome }
	// Compare asks whether the nodes of a world fit together; answered by Compared.
	// Facts, Envs and Answers (to the last question, the Questions-th) stand in the order
	// of group ranks; nil for a member without any. New are the group ranks of nodes
	// that no committed world has had; nil in a job's first world. Late: the world
	// runs already without the new node, which waits for the next round.
	Compare struct {
		Serial    int
		World     World
		New       []int
		Late      bool
		Facts     []json.RawMessage
		Envs      [][]byte
		Questions int
		Answers   []json.RawMessage
		Asked     time.Time   // when the question left
		Heard     []time.Time // when each answer came
	}
	// Ask is the coordinator's question to this node; answered by Answered.
	Ask struct {
		Serial int
		Body   json.RawMessage
	}
	// Report asks what this node does; answered by Reported, from memory and at once.
	Report struct{ Serial int }
	// Present answers every Query that has come: a View, as JSON.
	Present struct{ View json.RawMessage }
	// Show says at the terminal what the job waits for; nil: nothing any more.
	Show struct{ Status *Status }
	// Note is one line for the terminal. Strangers may cause lines of one Kind without
	// end; "" is no such Kind.
	Note struct{ Text, Kind string }
)

func (Dial) command()    {}
func (Send) command()    {}
func (Close) command()   {}
func (Admit) command()   {}
func (Start) command()   {}
func (Stop) command()    {}
func (Finish) command()  {}
func (Compare) command() {}
func (Ask) command()     {}
func (Report) command()  {}
func (Present) command() {}
func (Show) command()    {}
func (Note) command()    {}

// Backend shows an agent the other agents of its run. Its answers may be late and may
// differ between agents; only what Fence says is the same for all.
type Backend interface {
	// Run takes this agent among the others and keeps it there until ctx ends,
	// then takes it out again. It posts Peers, first as soon as it can and then at
	// every change, and if it fences also Unconfirmed and Elsewhere. post never blocks.
	// The error is for the person at the terminal: this agent cannot take part.
	Run(ctx context.Context, post func(Event)) error
}

// Fence is a Backend that makes a round unique: of all the worlds that anyone
// may seal for a run, it lets one through at a time, and none while a node that
// the world leaves out may still run workers of an earlier one. Its word stands
// where otherwise a majority of the last world's nodes would be needed.
//
// A Fence marks the one agent that may form the first world with Endpoint 0 in
// Peers, all others with -1. Agents that do not lead need to see no one but it;
// to one that leads it shows everyone, and says so with Whole.
type Fence interface {
	Backend
	// Lead says that this agent coordinates from now on: it must see every agent.
	Lead()
	// Seal makes c.World the world of its round. It goes on until that is done,
	// until another agent has sealed a world, or until ctx ends. The later of two
	// calls is made after the earlier one's ctx has ended; an earlier one that is
	// on its way may still come true and does not stand in the later one's way.
	Seal(ctx context.Context, c Seal) Sealed
	// Vacate says that no worker of this round, or of an earlier one, lives here.
	Vacate(round int)
	// Unseal says that the job, whose last world was this round's, is over and that no
	// worker of it lives anywhere.
	Unseal(job string, round int)
}

// What a Fence reports, beside Peers.
type (
	// Unconfirmed: this agent's membership was not confirmed for so long that it may
	// end any moment (On), by this machine's own clock; or it is confirmed again.
	Unconfirmed struct {
		On   bool
		Text string // why
	}
	// Elsewhere: a world was sealed, by any agent. Control is where its coordinator is.
	Elsewhere struct {
		Job     string
		Term    int
		Round   int
		Members []NodeID
		Control string
	}
	// Sealed answers Seal. Neither OK nor Refused: it was given up.
	Sealed struct {
		Serial  int
		OK      bool
		Refused bool   // another agent has sealed a world meanwhile
		Ended   bool   // Refused, as the job is over
		Text    string // why not
	}
	// Waiting says what a Seal that goes on waits for.
	Waiting struct {
		Serial int
		Text   string
	}
)

func (Unconfirmed) event() {}
func (Elsewhere) event()   {}
func (Sealed) event()      {}
func (Waiting) event()     {}

// Silence says that nothing has come in on a stream for a part of the time after
// which its node counts as lost (On), or that something came again.
type Silence struct {
	Conn Conn
	On   bool
}

func (Silence) event() {}

// What a Machine with Config.Fenced asks of its Fence.
type (
	// Seal asks to make a world unique; answered by Sealed. GiveUp, Unseal or a
	// later Seal end a Seal that goes on.
	//
	// The world that was sealed last, by any agent, may leave workers behind: each
	// of its members must be a member of World, or be among Here or Lost, or have
	// left or expired, or have vacated that world's round. A later world of a job
	// is refused unless the world sealed last is of the same job: the job has ended,
	// and a node that was cut off meanwhile must not run it again.
	Seal struct {
		Serial int
		World  World
		Later  bool     // the job has had a world
		Here   []NodeID // answer, and no worker lives there
		Lost   []NodeID // their processes are known to have ended
	}
	// GiveUp ends a Seal that goes on: its ctx ends.
	GiveUp struct{}
	// Lead, Vacate and Unseal are the calls of Fence.
	Lead   struct{}
	Vacate struct{ Round int }
	Unseal struct {
		Job   string
		Round int
	}
)

func (Seal) command()   {}
func (GiveUp) command() {}
func (Lead) command()   {}
func (Vacate) command() {}
func (Unseal) command() {}
