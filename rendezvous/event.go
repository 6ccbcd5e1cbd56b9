package rendezvous

import (
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
	// why it may not see more, for the person who waits.
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
	// DialFailed: nobody answered at Addr. Refused: the host is up and nothing listens.
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
	// by lack of any sign of life, which is no proof that its process is dead.
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
	// Facts: what this agent tells of its node is gathered; JSON, never nil. Env is
	// what it tells of its environment, MaxEnv bytes at most, or nil: apart from the
	// facts, as it may hold what no record or report may have.
	Facts struct {
		Body json.RawMessage
		Env  []byte
	}
	// Answered: the answer to Ask.
	Answered struct {
		Serial int
		Body   json.RawMessage
	}
	// Compared: the verdict that Compare asked for. An Outcome ends the job
	// before this world starts, or, with Only, dismisses these nodes. One without a
	// Cause ends it when every member has accepted the world. Ask, one body
	// a member, asks the members (at most twice a world). Else the world is offered, with Env,
	// what its workers' environment is to be, for each member (MaxGiven bytes at most).
	// Nobody but the member hears it; the world has its hash.
	Compared struct {
		Serial  int
		Outcome *Outcome
		Only    []NodeID
		Ask     []json.RawMessage
		Env     [][]byte
	}
	// Refused: an agent was turned away here before it could say hello. Ours: it is of
	// this run, and has proven that if the run has a secret.
	Refused struct {
		Name string // "": Why names it
		Why  string
		Ours bool
	}
	// Query: somebody at this node asks how the job stands; answered by Present.
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
	// Admit tells whose clients this node's store must answer, before any of the
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
	// of group ranks; nil for a member that told none. New are the group ranks of nodes
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
	// Show tells the person at the terminal what the job waits for; nil: nothing any more.
	Show struct{ Status *Status }
	// Note is one line for the person at the terminal. Lines of one Kind are what
	// strangers may cause without end; "" is none.
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
