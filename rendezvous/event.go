package rendezvous

import "syscall"

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
	// StopJob: somebody wants the job to end: a signal, a dead keeper.
	StopJob struct {
		Cause Cause
		Kill  bool // at once, without a grace period
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
	// Start starts this node's workers of the world; Index is the group rank.
	Start struct {
		World World
		Index int
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
	// Show tells the person at the terminal what the job waits for; nil: nothing any more.
	Show struct{ Status *Status }
	// Note is one line for the person at the terminal.
	Note struct{ Text string }
)

func (Dial) command()   {}
func (Send) command()   {}
func (Close) command()  {}
func (Start) command()  {}
func (Stop) command()   {}
func (Finish) command() {}
func (Show) command()   {}
func (Note) command()   {}
