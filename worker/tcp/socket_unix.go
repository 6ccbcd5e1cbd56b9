//go:build unix

package tcp

import (
	"io"
	"net"
	"os"
	"syscall"
)

// tryWrite writes rest until the socket takes no more.
func (o *outbox) tryWrite(fd uintptr) bool {
	for len(o.rest) > 0 {
		n, err := syscall.Write(int(fd), o.rest)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		o.rest = o.rest[n:]
	}
	return true // never wait
}

// spinReads is how often a spinning read asks the socket before it sleeps, a fraction of a
// microsecond each time. On a machine of its own a CPU that sleeps takes longer to wake.
const spinReads = 200

// spinningReader reads from a connection for a rank that has CPUs of its own.
type spinningReader struct {
	raw syscall.RawConn
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool
}

func newSpinningReader(conn *net.TCPConn) (io.Reader, error) {
	raw, err := conn.SyscallConn()
	s := &spinningReader{raw: raw}
	s.try = s.tryRead
	return s, err
}

// Read waits until there is something to read.
func (s *spinningReader) Read(p []byte) (int, error) {
	s.p, s.n, s.err = p, 0, nil
	err := s.raw.Read(s.try)
	s.p = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, os.NewSyscallError("read", s.err)
	case s.n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// tryRead reports whether the read has ended.
func (s *spinningReader) tryRead(fd uintptr) bool {
	for range spinReads {
		s.n, s.err = syscall.Read(int(fd), s.p)
		if s.err != syscall.EAGAIN && s.err != syscall.EINTR {
			s.n = max(s.n, 0)
			return true
		}
	}
	return false
}
