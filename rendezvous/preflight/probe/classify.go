package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// classify returns the result that an error of a connection stands for, and the
// system's words.
func classify(err error) (preflight.Result, string) {
	var no syscall.Errno
	if errors.As(err, &no) {
		return resultOf(no), errorText(err, no)
	}
	var timeout net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return preflight.TimedOut, ""
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return preflight.Reset, "it closed the connection in the middle"
	}
	return preflight.Failed, term.Truncate(err.Error(), maxText)
}

func resultOf(no syscall.Errno) preflight.Result {
	switch no {
	case syscall.ECONNREFUSED:
		return preflight.Refused
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN, syscall.ENONET:
		return preflight.NoRoute
	case syscall.ETIMEDOUT:
		return preflight.TimedOut
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return preflight.Reset
	case syscall.EPERM, syscall.EACCES:
		return preflight.Denied
	case syscall.EADDRNOTAVAIL:
		return preflight.NoAddress
	}
	return preflight.Failed
}

// errorText returns the failed call and the errno's text, without the
// addresses, which the finding shows anyway.
func errorText(err error, no syscall.Errno) string {
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Syscall + ": " + no.Error()
	}
	return no.Error()
}

// isNetwork reports whether an error is of the connection, not of the data that
// came over it.
func isNetwork(err error) bool {
	var e net.Error
	return errors.As(err, &e)
}
