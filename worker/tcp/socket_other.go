//go:build !unix

package tcp

import (
	"errors"
	"io"
	"net"
)

// tryWrite leaves everything to the writer.
func (o *outbox) tryWrite(uintptr) bool { return true }

func newSpinningReader(*net.TCPConn) (io.Reader, error) { return nil, errors.ErrUnsupported }
