package rendezvous

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Exit codes of gorun that are not a worker's own.
const (
	// ExitUsage is returned for a command line or a file that cannot be used.
	ExitUsage = 2
	// ExitRendezvous (EX_TEMPFAIL of sysexits.h) is returned when the nodes did
	// not come together: time-out, refusal, wrong run id.
	ExitRendezvous = 75
	// ExitPreflight (EX_CONFIG of sysexits.h) is returned when the nodes' facts
	// or the probes between them show that the job cannot work.
	ExitPreflight = 78
	// ExitLost is returned when the first failure is the loss of an agent or of
	// its node: what a shell reports for a process that was killed with SIGKILL,
	// and therefore also what the keeper of a killed agent returns.
	ExitLost = 128 + int(syscall.SIGKILL)
	// ExitHang is returned when the first failure is a hang: what timeout(1) returns for
	// a program that took too long.
	ExitHang = 124
)

// Kind says what sort of event a Cause is.
type Kind string

const (
	// KindExit means that a worker ended with a non-zero exit code.
	KindExit Kind = "exit"
	// KindSignal means that a worker was killed by a signal that gorun did not send.
	KindSignal Kind = "signal"
	// KindReport means that a worker reported its failure through the worker socket.
	KindReport Kind = "report"
	// KindStart means that a worker could not be started (no such program, no
	// permission).
	KindStart Kind = "start"
	// KindLost means that an agent died or its node cannot be reached any more.
	KindLost Kind = "lost"
	// KindStopped means that gorun itself received a signal to stop (SIGTERM, Ctrl-C,
	// ...).
	KindStopped Kind = "stopped"
	// KindAborted means that a person ordered the end of the job (gorun abort).
	// Message has the person, the place and the reason. Signal is SIGTERM.
	KindAborted Kind = "aborted"
	// KindRendezvous means that the nodes did not come together.
	KindRendezvous Kind = "rendezvous"
	// KindPreflight means that the nodes would not work together. The outcome's
	// Preflight says why.
	KindPreflight Kind = "preflight"
	// KindWitness is not a failure. A worker that was stopped after another worker's
	// failure had written what explains that failure.
	KindWitness Kind = "witness"
	// KindJoined and KindLeft are not failures. A node came to an elastic job, or was
	// asked to leave it. The next round has other members and is not a restart.
	KindJoined Kind = "joined"
	KindLeft   Kind = "left"
	// KindGPU means that the driver reports an error of a GPU from which a worker
	// cannot recover. Message says which.
	KindGPU Kind = "gpu"
	// KindHang means that the ranks of the world wait without end. Message says for which
	// ranks, and where they are. Rank is the first of them, -1 if no rank is at fault.
	KindHang Kind = "hang"
	// KindAgent means that gorun itself cannot go on at a node (no port left, no
	// descriptor).
	KindAgent Kind = "agent"
)

// final reports whether no restart follows, because the job was ordered to end or an
// agent cannot serve it any more.
func (c *Cause) final() bool {
	return c.Kind == KindHang && c.Final || c.Kind == KindStopped || c.Kind == KindAborted || c.Kind == KindAgent || c.Kind == KindRendezvous || c.Kind == KindPreflight
}

// ofWorker reports whether a worker failed.
func (c *Cause) ofWorker() bool {
	return c.Kind == KindExit || c.Kind == KindSignal || c.Kind == KindReport || c.Kind == KindWitness
}

// changesNodes reports whether the cause is a change of the job's nodes and not a
// failure.
func (c *Cause) changesNodes() bool { return c.Kind == KindJoined || c.Kind == KindLeft }

// Cause is one failure: what failed, where, when and why. The first primary failure
// of a round is the round's cause, the same on every node.
type Cause struct {
	Kind Kind `json:"kind"`

	// The next fields say where it happened. Rank and LocalRank are -1 without a
	// worker; GroupRank is -1 for a node without a place.
	Node      NodeID `json:"node,omitempty"`
	Host      string `json:"host,omitempty"`
	Addr      string `json:"addr,omitempty"`
	GroupRank int    `json:"group_rank"`
	Rank      int    `json:"rank"`
	LocalRank int    `json:"local_rank"`
	Role      string `json:"role,omitempty"`
	PID       int    `json:"pid,omitempty"`

	// The next fields say what happened. ExitCode is the worker's exit code, and
	// Signal the signal that killed it (0: none) or, for KindStopped, that gorun
	// received.
	ExitCode int            `json:"exit_code"`
	Signal   syscall.Signal `json:"signal,omitempty"`
	// Message is one line for the reader: the exception, the start error, what
	// the worker reported, why an agent counts as lost.
	Message string `json:"message,omitempty"`
	// Traceback and ErrorFile come from the worker's TORCHELASTIC_ERROR_FILE, if it
	// wrote one. Where no worker is concerned, Traceback is what the compiler printed
	// about a program.
	Traceback string `json:"traceback,omitempty"`
	ErrorFile string `json:"error_file,omitempty"`
	// Logs are the files on Host that hold what the worker printed, if there are any.
	Logs []string `json:"logs,omitempty"`
	// Interpreter is the file of the Python that ran the worker. It is "" for other
	// programs.
	Interpreter string `json:"interpreter,omitempty"`
	// Tail is the end of the worker's standard error, at most 20 lines.
	Tail []string `json:"stderr_tail,omitempty"`

	Hang // of KindHang

	// Time is the wall clock of the node where the failure was seen. Clocks of
	// nodes differ, so Age (how long before it was sent the failure was seen)
	// is what orders failures of several nodes.
	Time time.Time     `json:"time"`
	Age  time.Duration `json:"age_ns,omitempty"`
	// ErrorTime is the time that the worker's error file names, in whole seconds. It
	// orders the failures of one node.
	ErrorTime time.Time `json:"told_time,omitzero"`

	// Consequence is set when what the worker printed shows that it fell over because
	// a peer was lost. Such a failure is never named as the cause while a primary one
	// exists.
	Consequence bool `json:"consequence,omitempty"`
	// PeerClosed is set when a closed connection ended the worker, of a peer or of
	// something else: SIGPIPE killed it, or its last words say so. Of two failures
	// without Consequence such a one is not the cause.
	PeerClosed bool `json:"peer_closed,omitempty"`
}

// Hang says which ranks hold up a round.
type Hang struct {
	Ranks      []int  `json:"ranks,omitempty"`      // for which the others wait, maxHangRanks at most
	Collective string `json:"collective,omitempty"` // which they did not enter
	Where      string `json:"where,omitempty"`      // in the program, where Ranks are: "load_data (data.py:13)"
	Final      bool   `json:"final,omitempty"`      // no restart follows
}

// maxHangRanks is the number of ranks that a Hang names.
const maxHangRanks = 64

// MayFollow reports whether another failure may have brought this one about.
func (c *Cause) MayFollow() bool { return c.Consequence || c.PeerClosed }

// CompareErrorTimes compares when two workers raised their exceptions, by their error
// files. It returns 0 if these do not tell: a worker has none, the clocks are not the
// same, or it was in the same second.
func CompareErrorTimes(a, b *Cause) int {
	if a.Node != b.Node || a.ErrorTime.IsZero() || b.ErrorTime.IsZero() {
		return 0
	}
	return a.ErrorTime.Compare(b.ErrorTime)
}

// Code returns the exit code that this cause gives to gorun on every node: the
// worker's own, 128+n for a signal, else the code of the kind.
func (c *Cause) Code() int {
	switch {
	case c.Kind == KindRendezvous:
		return ExitRendezvous
	case c.Kind == KindPreflight:
		return ExitPreflight
	case c.Kind == KindLost:
		return ExitLost
	case c.Kind == KindHang:
		return ExitHang
	case c.Signal != 0:
		return 128 + int(c.Signal)
	case c.ExitCode != 0:
		return c.ExitCode
	default:
		return 1
	}
}

// IsTransient reports whether the same job may succeed at another time or on other
// nodes: a node or a GPU was lost, the nodes did not meet, an agent lacked a resource, or
// SIGTERM ended the job from outside (a time limit, preemption, a machine that shuts
// down). Failures of the program, orders of a person and findings of the preflight are
// not transient.
func (c *Cause) IsTransient() bool {
	switch c.Kind {
	case KindLost, KindGPU, KindRendezvous, KindAgent:
		return true
	case KindStopped, KindSignal:
		return c.Signal == syscall.SIGTERM
	}
	return false
}

// Line describes the cause in one line, without a trailing full stop.
func (c *Cause) Line() string {
	at := c.Host
	if c.Addr != "" && c.Addr != c.Host {
		at = fmt.Sprintf("%s (%s)", c.Host, c.Addr)
	}
	subject := "node " + at
	if c.Rank >= 0 {
		subject = fmt.Sprintf("rank %d on %s, pid %d", c.Rank, at, c.PID)
	}
	var what string
	switch c.Kind {
	case KindExit:
		what = fmt.Sprintf("exited with code %d", c.ExitCode)
	case KindSignal:
		what = fmt.Sprintf("was killed by %s", SignalName(c.Signal))
	case KindReport:
		what = "reported a failure"
	case KindGPU:
		what = "has a GPU that failed"
	case KindStart:
		what = "could not be started"
	case KindLost:
		what = "was lost"
	case KindStopped:
		what = fmt.Sprintf("received %s", SignalName(c.Signal))
	case KindRendezvous, KindPreflight, KindAborted, KindHang:
		return c.Message
	case KindAgent:
		what = "cannot go on"
	case KindJoined:
		what = "joined the job"
	case KindLeft:
		what = "left the job"
	}
	if c.Message == "" {
		return subject + " " + what
	}
	return subject + " " + what + ": " + c.Message
}

// nodeCause makes a Cause that concerns this node as a whole.
func (m *Machine) nodeCause(k Kind, text string) Cause {
	return Cause{
		Kind: k, Node: m.self.ID, Host: m.self.Host, Addr: m.self.Addr,
		GroupRank: m.groupRank(), Rank: -1, LocalRank: -1, Message: text, Time: m.now,
	}
}

// groupRank returns this node's group rank in the last world, -1 without one.
func (m *Machine) groupRank() int {
	if m.mem.work.sealed == nil {
		return -1
	}
	return m.mem.work.sealed.Index(m.self.ID)
}

// withAges marks how long ago the failures were seen here. Clocks of nodes differ,
// durations do not.
func (m *Machine) withAges(fs []Cause) []Cause {
	out := slices.Clone(fs)
	for i := range out {
		out[i].Age = max(0, m.now.Sub(out[i].Time))
	}
	return out
}

// stopSignal returns the signal that stops the workers after a cause.
func stopSignal(c *Cause) syscall.Signal {
	if c.Kind == KindStopped && c.Signal != 0 && c.Signal != syscall.SIGKILL {
		return c.Signal
	}
	return syscall.SIGTERM
}

// Limits of what is kept of a job and sent to every node when it ends. With them an
// outcome fits into one message, whatever failed how often.
const (
	maxRounds    = 1024      // the latest ones
	maxInFull    = 1 << 15   // nodes and ranks of the rounds that are kept in full
	maxTexts     = 1 << 20   // bytes of the causes of all rounds, and of all failures of the last one
	maxTraceback = 256 << 10 // bytes, of one cause; its end says more than its beginning
	maxTailLines = 20
	maxText      = 4 << 10 // bytes of a message, of a line of stderr
)

// bounded returns the cause with no text longer than an agent may send.
func (c Cause) bounded() Cause {
	c.Host, c.Addr, c.Role = clip(c.Host), clip(c.Addr), clip(c.Role)
	c.Interpreter = clip(c.Interpreter)
	c.ErrorFile, c.Message = cut(c.ErrorFile, maxText), cut(c.Message, maxText)
	if n := len(c.Traceback) - maxTraceback; n > 0 {
		c.Traceback = "..." + strings.ToValidUTF8(c.Traceback[n:], "")
	}
	c.Tail, c.Logs = fewLines(c.Tail), fewLines(c.Logs)
	c.Ranks, c.Collective, c.Where = c.Ranks[:min(len(c.Ranks), maxHangRanks)], cut(c.Collective, maxText), cut(c.Where, maxText)
	return c
}

// fewLines gives the last lines, each shortened.
func fewLines(lines []string) []string {
	lines = slices.Clone(lines[max(0, len(lines)-maxTailLines):])
	for i := range lines {
		lines[i] = cut(lines[i], maxText)
	}
	return lines
}

// aborts reports whether a person ordered the whole job to end. The order counts at
// any node, even at a node that waits for a place.
func aborts(fs []Cause) bool {
	return slices.ContainsFunc(fs, func(f Cause) bool { return f.Kind == KindAborted })
}
