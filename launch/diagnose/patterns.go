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

var groupName = lazily(`\(\?P<\w+>`)

// lostPeer are lines that only a lost peer or store explains.
var lostPeer = sync.OnceValue(func() *regexp.Regexp {
	var patterns []string
	for _, row := range Rows() {
		if row.PeerLost {
			patterns = append(patterns, groupName().ReplaceAllString(row.Pattern, "(?:"))
		}
	}
	return regexp.MustCompile("(?i)(?:" + strings.Join(patterns, ")|(?:") + ")")
})

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
