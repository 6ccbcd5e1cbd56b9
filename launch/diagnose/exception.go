package diagnose

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
	"github.com/gorun/gorun/launch/diagnose/match"
	"github.com/gorun/gorun/launch/diagnose/python"
)

// codeOnly matches an exception that says no more than a constant.
var codeOnly = match.Lazy(`^[\w.]+: [A-Z0-9]+_[A-Z0-9_]+$`)

// rayLoss matches Ray's exceptions about another process that ended.
var rayLoss = match.Lazy(`^ray\.exceptions\.(?:Ray)?(?:Actor|Worker|Node|Owner|Object|Reference)\w*Error$`)

// ownerDied matches what Ray says of a process that it ended because its owner had ended.
var ownerDied = match.Lazy(`\bits owner has died\b.*\bOwner Ip address: ([\d.]+)`)

// ownerAddress returns the address of the node of the owner that ended before the process of
// which e tells, "" if e tells of none.
func ownerAddress(e *python.Exception) string {
	for _, line := range e.Message {
		if m := ownerDied().FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}

// unreached matches what the system says of a server that cannot be reached.
var unreached = match.Lazy(`(?i)connection refused|connection timed out|no route to host|(?:network|host) is unreachable|failed to connect to all addresses`)

// stopText matches the text of an exception that a handler of signals raised.
var stopText = match.Lazy(`(?i)\b(?:received|got|caught|handling) (?:a |the )?(?:termination )?(?:signal )?(?:SIG(?:TERM|INT|HUP)\b|15\b)`)

// toldToStop matches the end of a process by a signal from outside.
var toldToStop = match.Lazy(`died with <Signals\.SIG(?:TERM|INT|HUP)\b`)

// meaningOf returns the row and the kind of an exception. The row is "" if a launcher
// raised e because a worker failed.
func (m *matcher) meaningOf(e *python.Exception) (key string, kind catalogue.Kind) {
	switch name := e.Class[strings.LastIndexByte(e.Class, '.')+1:]; {
	case name == "ChildFailedError", name == "ProcessRaisedException", spawnedLine().MatchString(strings.TrimPrefix(e.Text(), "Exception: ")):
		return "", catalogue.NoKind
	case name == "KeyboardInterrupt":
		return catalogue.RowInterrupted, catalogue.Vague
	case name == "SystemExit", name == "SignalException":
		return catalogue.RowStopException, catalogue.Consequence
	case stopText().MatchString(e.Text()):
		return catalogue.RowStopSignal, catalogue.Ending
	case m.showsLostPeer(e):
		return catalogue.RowPeerException, catalogue.PeerLost
	case unreached().MatchString(e.Text()) && (peerIn(e.Text()) != "" || strings.Contains(e.Text(), "RpcError")):
		return catalogue.RowUnreached, catalogue.Catchable
	case e.FromLauncher && e.Script == "":
		return catalogue.RowLauncherException, catalogue.Vague
	case name == "ModuleNotFoundError":
		return catalogue.RowNoModule, catalogue.Catchable
	case name == "FileNotFoundError", name == "PermissionError", name == "NotADirectoryError", name == "IsADirectoryError":
		return catalogue.RowNoFile, catalogue.Catchable
	case rayLoss().MatchString(e.Class) && ownerAddress(e) != "":
		return catalogue.RowOwnerDied, catalogue.Vague
	case rayLoss().MatchString(e.Class):
		return catalogue.RowActorDied, catalogue.Vague
	case name == "BrokenPipeError", name == "ConnectionResetError", name == "ConnectionAbortedError": // the other side had ended
		return catalogue.RowException, catalogue.Symptom
	case strings.Contains(e.Source, "from_parent"): // the process that started it had ended
		return catalogue.RowStopException, catalogue.Consequence
	case name == "CalledProcessError" && toldToStop().MatchString(e.Text()):
		return catalogue.RowStopException, catalogue.Consequence
	case name == "CalledProcessError": // the process that failed printed more
		return catalogue.RowException, catalogue.Ending
	case codeOnly().MatchString(e.Text()), name == "ProcessExitedException", isDistributed(e):
		return catalogue.RowException, catalogue.CatchableClue
	}
	return catalogue.RowException, catalogue.Catchable
}

// showsLostPeer reports whether e was raised because a peer or the store was lost.
func (m *matcher) showsLostPeer(e *python.Exception) bool {
	text := e.Class + ": " + strings.Join(e.Message, "\n")
	showsLoss := func(line string) bool {
		row := m.rowOf([]byte(line))
		return row != nil && row.Kind.Has(catalogue.LossOfPeer)
	}
	isLost := isDistributed(e) && weakLostPeer().MatchString(text) || slices.ContainsFunc(strings.Split(text, "\n"), showsLoss)
	return isLost && !workerFault().MatchString(text)
}

// weakLostPeer matches words that programs also print about other connections
// (data, logging). They count only in an exception of torch.distributed.
var weakLostPeer = match.Lazy("(?i)" + catalogue.ConnectionClosed + `|(?:read|write) error \[.*timed out`)

// workerFault matches failures of the worker itself, even where NCCL or its
// watchdog reports them.
var workerFault = match.AnyOf(
	`(?i)CUDA error`, `Cuda failure`, `unhandled cuda error`, `CUDA out of memory`,
	`OutOfMemoryError`, `device-side assert`, `illegal memory access`, `ncclInvalidUsage`,
)

var (
	distributedFile = match.Lazy(`/torch/distributed/|torch[/\\]_?c10d`)
	// storeSource matches a call of the store. Old versions raise only
	// "RuntimeError: Connection reset by peer" from a method of the store. The
	// method has no Python frame, so only the line of its call shows the store.
	storeSource = match.Lazy(`(?i)store(?:\(\))?\.(?:get|set|add|wait|check|compare_set|delete_key|num_keys)\(`)
)

// isDistributed reports whether torch.distributed raised e.
func isDistributed(e *python.Exception) bool {
	return strings.HasPrefix(e.Class, "torch.distributed.") ||
		e.Class == "RuntimeError" && (distributedFile().MatchString(e.File) || storeSource().MatchString(e.Source))
}
