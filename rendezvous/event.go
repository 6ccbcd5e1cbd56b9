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
	// Peers says that the backend sees exactly these agents, this agent included.
	// Trouble is why it may not see more, for the user.
	Peers struct {
		All      []Peer
		Complete bool // of a Fence: All has every agent with a membership
		// Candidates is how many nodes the endpoints stand for, as far as this agent
		// knows, where a name stands for several nodes; 0: each endpoint is one node.
		Candidates int
		Trouble    string
	}
	// Dialed says that the stream that Dial asked for is open.
	Dialed struct {
		Addr string
		Conn Conn
	}
	// DialFailed says that no agent answered at Addr. Refused means that the host is
	// up and nothing listens.
	DialFailed struct {
		Addr    string
		Refused bool
		Text    string
	}
	// Received says that a message came in on an open stream, incoming or outgoing.
	Received struct {
		Conn Conn
		Msg  Message
	}
	// Closed says that a stream ended. Clean means that the other side ended it on
	// purpose. Silent means that it ended by lack of any sign of life, which does not
	// prove that the other process has ended.
	Closed struct {
		Conn   Conn
		Clean  bool
		Silent bool
		Text   string
	}
	// Ready says that the program can be started here if Cause is nil, and cannot
	// otherwise.
	Ready struct{ Cause *Cause }
	// Failed reports the first failure of a worker of the round on this node.
	Failed struct {
		Round int
		Cause Cause
	}
	// Done says that every worker of the round on this node ended with 0.
	Done struct {
		Round int
		Ends  []End
	}
	// Over says, after Stop, that nothing of the round lives on this node. Store is
	// the address of the store that is bound for the next round.
	Over struct {
		Round    int
		Failures []Cause
		Ends     []End
		Store    string
	}
	// StopJob orders the job to end on every node, because of a signal or of a
	// trouble from which this agent cannot recover. Its Cause is of a final kind.
	StopJob struct {
		Cause Cause
		Kill  bool // at once, without a grace period
	}
	// Facts says that the facts of this node are gathered. Body is JSON, never nil.
	// Env is what the node says of its environment, MaxEnv bytes at most, or nil. It
	// is apart from the facts, as it may hold what no record or report may have.
	Facts struct {
		Body json.RawMessage
		Env  []byte
	}
	// Answered is the answer to Ask.
	Answered struct {
		Serial int
		Body   json.RawMessage
	}
	// Compared answers Compare. An Outcome ends the job before this world starts or,
	// with Only, the part of these nodes in it. An Outcome without a Cause ends the
	// job when every member has accepted the world. Ask, one body a member, asks the
	// members (at most twice a world). Otherwise the world is offered. Env is the
	// environment of its workers, for each member (MaxAssignment bytes at most). Only that
	// member gets it. The world has the hash of it.
	Compared struct {
		Serial  int
		Outcome *Outcome
		Only    []NodeID
		Ask     []json.RawMessage
		Env     [][]byte
	}
	// Refused says that an agent was refused here before its hello. SameRun
	// means that it is of this run and, if the run has a secret, has proven that.
	Refused struct {
		Name    string // "": Why names it
		Why     string
		SameRun bool
	}
	// Query asks every node of the job, for a person at this node or for this agent.
	// Present answers it.
	Query struct{ Question Question }
	// Reported answers Report with what this node does, as JSON.
	Reported struct {
		Serial int
		Body   json.RawMessage
	}
	// Suspect says that the workers of the round on this node may hang. Investigate
	// hands it to the coordinator's agent.
	Suspect struct{ Round int }
	// Hung says, at the coordinator, that the round hangs, and why. With Stop it ends the
	// round. Without Stop the round goes on, and Cause explains the round's end if the
	// workers fail before a Hung without a Cause takes it back.
	Hung struct {
		Round int
		Cause *Cause
		Stop  bool
	}
	// Tick says that the time that Next asked for has come.
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
func (Suspect) event()    {}
func (Hung) event()       {}
func (Tick) event()       {}

// Command is something that the agent must do.
type Command interface{ command() }

type (
	// Dial opens a control stream. Dialed or DialFailed answers it.
	Dial struct{ Addr string }
	// Send puts a message on a stream. Nothing happens if the stream has ended.
	Send struct {
		Conn Conn
		Msg  Message
	}
	// Close ends a stream after what was sent on it has left. No Closed follows.
	Close struct{ Conn Conn }
	// Admit names the clients that this node's store must answer, before any of the
	// world's workers starts: addresses and networks in text, of all its nodes.
	Admit struct{ Clients []string }
	// Start starts this node's workers of the world. Index is the group rank, and Env
	// what Compared gave for this node.
	Start struct {
		World World
		Index int
		Env   []byte
	}
	// Stop ends this node's workers of the round. Over answers it. A second Stop with
	// Kill cuts the grace period short.
	Stop struct {
		Round  int
		Cause  Cause
		Signal syscall.Signal
		Kill   bool
	}
	// Finish ends the agent.
	Finish struct{ Outcome Outcome }
	// Compare asks whether the nodes of a world fit together. Compared answers it.
	// Facts, Envs and Answers (to the last question, the Questions-th) stand in the
	// order of group ranks, with nil for a member without any. New are the group
	// ranks of nodes that no committed world has had, nil in a job's first world.
	// WorldRuns means that the world runs already without the new node, which waits for
	// the next round.
	Compare struct {
		Serial     int
		World      World
		New        []int
		WorldRuns  bool
		Facts      []json.RawMessage
		Envs       [][]byte
		Questions  int
		Answers    []json.RawMessage
		AskedAt    time.Time   // when the question left
		AnsweredAt []time.Time // when each answer came
	}
	// Ask is the coordinator's question to this node. Answered answers it.
	Ask struct {
		Serial int
		Body   json.RawMessage
	}
	// Report asks this node a question. Reported answers it: from memory and at once, or
	// within the question's time.
	Report struct {
		Serial   int
		Question Question
	}
	// Present answers every Query with the question that has come: a View, as JSON.
	Present struct {
		Question Question
		View     json.RawMessage
	}
	// Investigate says, at the coordinator, that the workers of a node may hang.
	Investigate struct{ Round int }
	// Show says at the terminal what the job waits for. A nil Status means that it
	// waits for nothing any more.
	Show struct{ Status *Status }
	// Note is one line for the terminal. Other machines may cause any number of lines of one
	// Kind, except of the Kind "".
	Note struct{ Text, Kind string }
)

func (Dial) command()        {}
func (Send) command()        {}
func (Close) command()       {}
func (Admit) command()       {}
func (Start) command()       {}
func (Stop) command()        {}
func (Finish) command()      {}
func (Compare) command()     {}
func (Ask) command()         {}
func (Report) command()      {}
func (Present) command()     {}
func (Investigate) command() {}
func (Show) command()        {}
func (Note) command()        {}

// Backend shows an agent the other agents of its run. Its answers may be late and may
// differ between agents; only what Fence says is the same for all.
type Backend interface {
	// Run shows this agent to the others until ctx ends, then takes it out again. It
	// posts Peers, first as soon as it can and then at every change, and if it fences
	// also Unconfirmed and Elsewhere. post never blocks. The error is for the user:
	// this agent cannot take part.
	Run(ctx context.Context, post func(Event)) error
}

// Fence is a Backend that makes a round unique. Of all the worlds that agents may
// seal for a run, it lets one through at a time, and none while a node that the world
// leaves out may still run workers of an earlier one. Its word stands where otherwise
// a majority of the last world's nodes would be needed.
//
// A Fence marks the one agent that may form the first world with Endpoint 0 in Peers,
// all others with -1. An agent that does not lead needs to see only that agent. To an
// agent that leads the Fence shows all agents, and says so with Complete.
type Fence interface {
	Backend
	// Lead says that this agent coordinates from now on and must see every agent.
	Lead()
	// Seal makes c.World the world of its round. It goes on until that is done, until
	// another agent has sealed a world, or until ctx ends. The later of two calls is
	// made after the earlier call's ctx has ended. An earlier call that is on its way
	// may still come true and does not stand in the way of the later one.
	Seal(ctx context.Context, c Seal) Sealed
	// Vacate says that no worker of this round, or of an earlier one, lives here.
	Vacate(round int)
	// Unseal says that the job, whose last world was this round's, is over and that no
	// worker of it lives anywhere.
	Unseal(job string, round int)
}

// What a Fence reports, beside Peers.
type (
	// Unconfirmed says, with On, that this agent's membership was not confirmed for
	// so long that it may end any moment, by this machine's own clock. Without On the
	// membership is confirmed again.
	Unconfirmed struct {
		On   bool
		Text string // why
	}
	// Elsewhere says that an agent, maybe this agent, sealed a world. Control is the
	// address of its coordinator.
	Elsewhere struct {
		Job     string
		Term    int
		Round   int
		Members []NodeID
		Control string
	}
	// Sealed answers Seal. A Seal with neither OK nor Refused was given up.
	Sealed struct {
		Serial  int
		OK      bool
		Refused bool   // another agent has sealed a world meanwhile
		Ended   bool   // Refused, as the job is over
		Text    string // why not
	}
	// Waiting says why a Seal that goes on waits.
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
	// Seal asks to make a world unique. Sealed answers it. GiveUp, Unseal or a later
	// Seal end a Seal that goes on.
	//
	// The world that was sealed last, by any agent, may leave workers behind. Each of
	// its members must be a member of World, or be among Here or Lost, or have left
	// or expired, or have vacated that world's round. If another agent sealed it for
	// another job, each must be among Lost, or have left or expired, because a node may
	// have answered before it took part in that job. A later world of a job is
	// refused unless the world sealed last is of the same job. If it is not, the job
	// has ended, and a node that was cut off meanwhile must not run it again.
	Seal struct {
		Serial int
		World  World
		Later  bool     // the job has had a world
		Here   []NodeID // answer, and no worker lives there
		Lost   []NodeID // their processes are known to have ended
	}
	// GiveUp ends a Seal that goes on by ending its ctx.
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
