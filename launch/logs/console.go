package logs

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Console is gorun's own standard output and standard error, which all workers
// of the node share.
type Console struct {
	stdout, stderr *sink
}

// NewConsole uses gorun's standard output and standard error, which still
// belong to the caller. Close the Console after the last worker.
func NewConsole(stdout, stderr *os.File) (*Console, error) {
	out, err := newSink(stdout)
	if err != nil {
		return nil, err
	}
	serr, err := newSink(stderr)
	if err != nil {
		out.own.Close()
		return nil, err
	}
	// Both files are often one terminal or one pipe. Then they share a lock, so
	// that their lines do not tear each other.
	if a, err := stdout.Stat(); err == nil {
		if b, err := stderr.Stat(); err == nil && os.SameFile(a, b) {
			serr.lock = out.lock
		}
	}
	return &Console{stdout: out, stderr: serr}, nil
}

// Close releases what NewConsole opened. Nothing may be using the Console.
func (c *Console) Close() {
	c.stdout.own.Close()
	c.stderr.own.Close()
}

// sink is one place where output is shown.
type sink struct {
	file *os.File // gorun's file, for a child to inherit
	// own is a duplicate to write to, because the Go runtime ends the program
	// with SIGPIPE when fd 1 or 2 itself is a broken pipe. A write to any other
	// fd only fails.
	own      *os.File
	terminal bool
	lock     chan struct{} // full while a writer writes; a channel, so that a writer can stop waiting
}

func newSink(f *os.File) (*sink, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", f.Name(), err)
	}
	s := &sink{file: f, lock: make(chan struct{}, 1)}
	var dup int
	ctlErr := raw.Control(func(fd uintptr) {
		dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
		_, termErr := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		s.terminal = termErr == nil
	})
	if ctlErr != nil {
		err = ctlErr
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", f.Name(), err)
	}
	s.own = os.NewFile(uintptr(dup), f.Name())
	return s, nil
}

// write shows p while no other writer of this process writes. It drops p if
// giveUp is closed while another writer holds the lock. It drops errors,
// because the job goes on when nobody reads the console any more (`gorun ... |
// head`).
func (s *sink) write(p []byte, giveUp <-chan struct{}) {
	select {
	case s.lock <- struct{}{}:
	default:
		select {
		case s.lock <- struct{}{}:
		case <-giveUp:
			return
		}
	}
	_ = s.writeLines(p)
	<-s.lock
}

// maxWrite is PIPE_BUF of Linux. The kernel keeps a write to a pipe of up to so
// many bytes in one piece beside those of other processes.
const maxWrite = 4096

// writeLines writes whole lines, as many at once as maxWrite has room for. A
// longer line is one write, which the write of another process may tear in a
// pipe.
func (s *sink) writeLines(p []byte) error {
	for len(p) > 0 {
		n := len(p)
		if n > maxWrite {
			n = bytes.LastIndexByte(p[:maxWrite], '\n') + 1
		}
		if n == 0 {
			n = bytes.IndexByte(p, '\n') + 1
		}
		if n == 0 {
			n = len(p)
		}
		if _, err := s.own.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Print writes p to standard output.
func (c *Console) Print(p []byte) error {
	_, err := c.stdout.Write(p)
	return err
}

// Remarks returns standard error for what gorun itself says.
func (c *Console) Remarks() io.Writer { return c.stderr }

// Write waits for the other writers of this process and writes p.
func (s *sink) Write(p []byte) (int, error) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if err := s.writeLines(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
