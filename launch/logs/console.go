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
	isOne          bool // both are one file, pipe or terminal
}

// NewConsole makes a console of gorun's standard output and standard error. It does
// not close these two. Close the Console after the last worker.
func NewConsole(stdout, stderr *os.File) (*Console, error) {
	out, err := newSink(stdout)
	if err != nil {
		return nil, err
	}
	serr, err := newSink(stderr)
	if err != nil {
		out.dup.Close()
		return nil, err
	}
	c := &Console{stdout: out, stderr: serr}
	// Both files are often one terminal or one pipe. Then they share a lock, so
	// that a write to one does not split a line of the other.
	if a, err := stdout.Stat(); err == nil {
		if b, err := stderr.Stat(); err == nil && os.SameFile(a, b) {
			c.isOne, serr.lock = true, out.lock
		}
	}
	return c, nil
}

// Close closes the files that NewConsole opened. No worker may use the Console any
// more.
func (c *Console) Close() {
	c.stdout.dup.Close()
	c.stderr.dup.Close()
}

// Print writes p to standard output.
func (c *Console) Print(p []byte) error { return c.stdout.write(p, nil) }

// Stderr returns standard error, for gorun's own lines.
func (c *Console) Stderr() io.Writer { return c.stderr }

// sink is standard output or standard error of the console.
type sink struct {
	file *os.File // gorun's file, for a child to inherit
	// dup is a duplicate for gorun's own writes, because the Go runtime ends the program
	// with SIGPIPE when fd 1 or 2 itself is a broken pipe. A write to any other
	// fd only fails.
	dup      *os.File
	terminal bool
	lock     chan struct{} // full while a writer writes; a channel, so that a writer can stop waiting
}

func newSink(f *os.File) (*sink, error) {
	s := &sink{file: f, lock: make(chan struct{}, 1)}
	err := withFD(f, func(fd int) error {
		_, termErr := unix.IoctlGetTermios(fd, unix.TCGETS)
		s.terminal = termErr == nil
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			s.dup = os.NewFile(uintptr(dup), f.Name())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", f.Name(), err)
	}
	return s, nil
}

// write shows p while no other writer of this process writes. If another writer
// holds the lock when giveUp is closed, write drops p.
func (s *sink) write(p []byte, giveUp <-chan struct{}) error {
	select {
	case s.lock <- struct{}{}:
	default:
		select {
		case s.lock <- struct{}{}:
		case <-giveUp:
			return nil
		}
	}
	defer func() { <-s.lock }()
	return s.writeLines(p)
}

// Write waits for the other writers of this process and writes p.
func (s *sink) Write(p []byte) (int, error) {
	if err := s.write(p, nil); err != nil {
		return 0, err
	}
	return len(p), nil
}

// maxWrite is PIPE_BUF of Linux. The kernel keeps a write of at most so many bytes to
// a pipe in one piece beside the writes of other processes.
const maxWrite = 4096

// writeLines writes whole lines, as many at once as fit into maxWrite. A longer line
// is one write, and the write of another process to the same pipe may split it.
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
		if _, err := s.dup.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
