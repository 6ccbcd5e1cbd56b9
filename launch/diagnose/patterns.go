package diagnose

import (
	"regexp"
	"strings"
	"sync"
)

// lazyRegexp returns a function that compiles pattern at its first call. All
// expressions together take half a millisecond, and most processes use none.
func lazyRegexp(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// anyOf joins patterns into one expression.
func anyOf(patterns ...string) func() *regexp.Regexp {
	return lazyRegexp("(?:" + strings.Join(patterns, ")|(?:") + ")")
}

// connectionClosed matches the system's words for a connection that the other
// side closed.
const connectionClosed = `(?:connection closed|connection reset by peer|broken pipe|socket closed)`

var groupName = lazyRegexp(`\(\?P<\w+>`)

// lostPeer matches lines that only a lost peer or store explains.
var lostPeer = sync.OnceValue(func() *regexp.Regexp {
	var patterns []string
	for _, row := range Rows() {
		if row.Kind.has(lossOfPeer) {
			patterns = append(patterns, groupName().ReplaceAllString(row.Pattern, "(?:"))
		}
	}
	return regexp.MustCompile("(?i)(?:" + strings.Join(patterns, ")|(?:") + ")")
})

// lostPeerWords finds the words without which lostPeer matches nothing.
var lostPeerWords = sync.OnceValue(func() *finder {
	var words [][]string
	for _, row := range Rows() {
		if row.Kind.has(lossOfPeer) && row.Pattern != noLine {
			words = append(words, literals(row.Pattern))
		}
	}
	return newFinder(words)
})

// weakLostPeer matches words that programs also print about other connections
// (data, logging). They count only in an exception of torch.distributed.
var weakLostPeer = lazyRegexp("(?i)" + connectionClosed + `|(?:read|write) error \[.*timed out`)

// closedConnection matches what programs print about a connection that the other side
// closed.
var closedConnection = anyOf(
	"(?i)"+connectionClosed, `ConnectionResetError`, `BrokenPipeError`, `ConnectionAbortedError`, `^EOFError\b`,
	`(?i)\bunexpected eof\b`, `(?i)\bclosed by (?:the )?(?:remote |other )?(?:peer|host|side)\b`,
)

// workerFault matches failures of the worker itself, even where NCCL or its
// watchdog reports them.
var workerFault = anyOf(
	`(?i)CUDA error`, `Cuda failure`, `unhandled cuda error`, `CUDA out of memory`,
	`OutOfMemoryError`, `device-side assert`, `illegal memory access`, `ncclInvalidUsage`,
)

// nativeFailure matches what a program that fails by itself prints last, if it
// raises no Python exception.
var nativeFailure = anyOf(
	`^panic: `, `^fatal error: `, `^Fatal Python error: `, `^\s*what\(\):`,
	`[Ss]egmentation fault`, `SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGFPE`,
	`double free or corruption`, `Assertion .*failed`, `AddressSanitizer`,
	`No space left on device`, `Killed process \d+`,
	`^(?:\w+\.)*\w*(?:Error|Exception)(?::|$)`,
)

// uninformative matches lines that do not say why a program ended, such as stack
// frames and NCCL's INFO lines.
var uninformative = anyOf(
	`^frame #\d+: `, `NCCL INFO `, `^terminate called after throwing an instance of`,
	`^Exception raised from `, `^goroutine \d+ \[`, `^\t\S+\.go:\d+`, `^exit status \d+$`,
)
