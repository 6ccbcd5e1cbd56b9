package diagnose

import (
	"regexp"
	"strings"
	"sync"
)

// lazily compiles an expression when it is first used: together they would cost
// half a millisecond at the start of every process, and most never look at one.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// anyOf makes one expression of several.
func anyOf(patterns ...string) func() *regexp.Regexp {
	return lazily("(?:" + strings.Join(patterns, ")|(?:") + ")")
}

// gone are the words of the system for a connection whose other side is gone.
const gone = `(?:[Cc]onnection closed|[Cc]onnection reset by peer|[Bb]roken pipe|[Ss]ocket closed)`

// lostPeer are lines that only a lost peer or store explains. The words are
// those of gloo, NCCL (all versions from 2.3.7) and torch's c10d.
var lostPeer = anyOf(
	// gloo names its source file, also where the build folder differs.
	`gloo/transport/\S+:\d+\].*`+gone,
	`gloo/transport/\S+:\d+\] Timed out waiting \d+ ?ms for (?:recv|send) operation`,

	`remote process exited or there was a network error`,
	`ncclRemoteError`,
	`Connection closed by remote peer`,
	`Call to \w+ (?:from|to) \S+ failed ?: `+gone,
	// A local proxy that went away, after an abort: never the first to fail.
	`Socket recv failed while polling for opId`,
	`Could not receive type from localRank \d+, res=3`,
	`NCCL WARN .*Accept failed Resource temporarily unavailable`,
	`communicator encountered a fatal error`,

	// torch. A time-out means that some other rank did not come.
	`Watchdog caught collective operation timeout`,
	`NCCL communicator was aborted on rank`,
	`(?i)dump signal .*(?:from|by) (?:another |other )?rank`,
	`Timed out initializing process group in store based barrier`,

	// torch's store.
	`Connection was likely closed\. Did the remote server shutdown or crash`,
	`store->\w+\(.*got error: .*`+gone,
	`This may indicate a possible application crash on rank 0`,
	`TCPStore.*`+gone,
	`Stop_waiting response is expected`,

	// Programs that link gorun's worker package.
	`\bgorun: aborted: `,
	`\bgorun: .* failed: rank \d+ (?:is gone|gave up|cannot be reached)`,
)

// weakLostPeer are words that other connections of a program (data, logging)
// lose as well: they need to come out of torch.distributed.
var weakLostPeer = lazily(gone)

// ownFault are failures of the worker itself, even where NCCL or its watchdog
// tells of them.
var ownFault = anyOf(
	`(?i)CUDA error`, `Cuda failure`, `unhandled cuda error`, `CUDA out of memory`,
	`OutOfMemoryError`, `device-side assert`, `illegal memory access`, `ncclInvalidUsage`,
)

// ownNative are the last words of programs that die of their own failure
// without a Python exception.
var ownNative = anyOf(
	`^panic: `, `^fatal error: `, `^Fatal Python error: `, `^\s*what\(\):`,
	`[Ss]egmentation fault`, `SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGFPE`,
	`double free or corruption`, `Assertion .*failed`, `AddressSanitizer`,
	`No space left on device`, `Killed process \d+`,
	`^(?:\w+\.)*\w*(?:Error|Exception)(?::|$)`,
)

// harmless are lines that tell nothing of why a program ended: stack frames,
// NCCL's chatter.
var harmless = anyOf(
	`^frame #\d+: `, `NCCL INFO `, `^terminate called after throwing an instance of`,
	`^Exception raised from `, `^goroutine \d+ \[`, `^\t\S+\.go:\d+`, `^exit status \d+$`,
)
