package logs

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Console is gorun's own standard output and standard error, shared by all
// workers of the node.
type Console struct {
	stdout, stderr *sink
}

// NewConsole takes gorun's standard output and standard error, which stay the
// caller's. Close the Console after the last worker.
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
	// Both often are one terminal or one pipe: then they are one place, and
	// their lines must not tear each other either.
	if a, err := stdout.Stat(); err == nil {
		if b, err := stderr.Stat(); err == nil && os.SameFile(a, b) {
			serr.lock = out.lock
		}
	}
	return &Console{stdout: out, stderr: serr}, nil
}

// Close releases what NewConsole took; nothing may be using the Console.
func (c *Console) Close() {
	c.stdout.own.Close()
	c.stderr.own.Close()
}

// sink is one place to show output at.
type sink struct {
	file *os.File // gorun's file, for a child to inherit
	// own is a duplicate to write to: when fd 1 or 2 itself is a broken pipe, the
	// Go runtime ends the program with SIGPIPE; any other fd only fails.
	own      *os.File
	terminal bool
	lock     chan struct{} // held while writing; a channel, so that waiting can be given up
	turn     *turn         // taken while writing; nil: no other process writes there
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

// write shows p in one piece, unless giveUp is closed while another writer is
// in the way. Errors are dropped: when nobody reads the console any more
// (`gorun ... | head`), the job goes on.
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
	if s.turn == nil {
		_, _ = s.own.Write(p)
	} else if s.turn.take(giveUp) {
		_, _ = s.own.Write(p)
		s.turn.free()
	}
	<-s.lock
}

// Print writes p to standard output in one piece.
func (c *Console) Print(p []byte) error {
	_, err := said{sink: c.stdout}.Write(p)
	return err
}

// Remarks returns standard error for what gorun itself says: each Write is in one
// piece. Once hurry is closed it waits for no other process: one that was stopped
// must not cost the last words.
func (c *Console) Remarks(hurry <-chan struct{}) io.Writer { return said{c.stderr, hurry} }

type said struct {
	sink  *sink
	hurry <-chan struct{}
}

func (w said) Write(p []byte) (int, error) {
	s := w.sink
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	if s.turn != nil && s.turn.take(w.hurry) {
		defer s.turn.free()
	}
	return s.own.Write(p)
}
