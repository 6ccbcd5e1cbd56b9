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
