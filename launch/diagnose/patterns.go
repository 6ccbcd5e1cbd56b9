package diagnose

import (
	"github.com/gorun/gorun/launch/diagnose/match"

	"github.com/gorun/gorun/launch/diagnose/catalogue"
)

// weakLostPeer matches words that programs also print about other connections
// (data, logging). They count only in an exception of torch.distributed.
var weakLostPeer = match.Lazy("(?i)" + catalogue.ConnectionClosed + `|(?:read|write) error \[.*timed out`)

// closedConnection matches what programs print about a connection that the other side
// closed.
var closedConnection = match.AnyOf(
	"(?i)"+catalogue.ConnectionClosed, `ConnectionResetError`, `BrokenPipeError`, `ConnectionAbortedError`, `^EOFError\b`,
	`(?i)\bunexpected eof\b`, `(?i)\bclosed by (?:the )?(?:remote |other )?(?:peer|host|side)\b`,
)

// workerFault matches failures of the worker itself, even where NCCL or its
// watchdog reports them.
var workerFault = match.AnyOf(
	`(?i)CUDA error`, `Cuda failure`, `unhandled cuda error`, `CUDA out of memory`,
	`OutOfMemoryError`, `device-side assert`, `illegal memory access`, `ncclInvalidUsage`,
)
