package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// readSize is how many bytes are read at once: half a pipe.
	readSize = 32 << 10
	// maxDrain is the most that a pipe can hold, in bytes
	// (/proc/sys/fs/pipe-max-size).
	maxDrain = 1 << 20
)

// stream copies what comes out of src to a file, the tail and the console, in
// this order, because a slow console must not delay the others.
type stream struct {
	src  *os.File // non-blocking
	file *os.File // nil: not kept
	tail *tail    // nil: not kept
	on   display  // nil: not shown
	// unkept, if set, is called once with the reason why file lacks output.
	unkept func(error)

	last atomic.Int64 // when something was last read, Unix nanoseconds; 0: never
	done chan struct{}
	err  error // why output was lost; read it after done is closed

	mu     sync.Mutex
	drains []chan struct{} // of calls of drain, closed when all has been taken
	stop   bool
}

// copy runs until src ends or end is called. Then it releases everything.
func (s *stream) copy() {
	defer close(s.done)
	defer s.release()
	buf := make([]byte, readSize)
	for {
		n, err := s.src.Read(buf)
		s.take(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.interrupted(buf) {
				return
			}
		} else if err != nil {
			// The error is EOF or, of a pseudo-terminal, EIO. After any error
			// nothing more comes.
			return
		}
	}
}

func (s *stream) release() {
	if s.on != nil {
		s.on.finish()
	}
	if s.file != nil {
		s.lost(s.file.Close())
	}
	s.src.Close()
}

func (s *stream) take(p []byte) {
	if len(p) == 0 {
		return
	}
	s.last.Store(time.Now().UnixNano())
	if s.file != nil {
		if _, err := s.file.Write(p); err != nil {
			// Output that fits later would hide that something is missing
			// before it.
			_ = s.file.Close()
			s.file = nil
			s.lost(err)
		}
	}
	if s.tail != nil {
		s.tail.write(p)
	}
	if s.on != nil {
		s.on.show(p)
	}
}

func (s *stream) lost(err error) {
	if err == nil {
		return
	}
	s.err = fmt.Errorf("cannot keep all of a worker's output: %w", err)
	if s.unkept != nil {
		s.unkept(err)
	}
}

// drain waits until everything that was written before the call has been taken.
func (s *stream) drain(ctx context.Context) error {
	c := make(chan struct{})
	s.interrupt(func() { s.drains = append(s.drains, c) })
	select {
	case <-c:
		return nil
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end makes copy take what is there and return.
func (s *stream) end() { s.interrupt(func() { s.stop = true }) }

// interrupt changes what copy has to do and ends copy's read.
func (s *stream) interrupt(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	_ = s.src.SetReadDeadline(time.Unix(1, 0)) // fails only when copy has returned
}

// interrupted takes what is in src, ends the calls of drain, and reports
// whether copy must return.
func (s *stream) interrupted(buf []byte) bool {
	s.mu.Lock()
	drains, stop := s.drains, s.stop
	s.drains = nil
	// The lock is held, so that the deadline of a later interrupt stays in
	// place.
	_ = s.src.SetReadDeadline(time.Time{})
	s.mu.Unlock()

	ended := s.takeAll(buf)
	for _, c := range drains {
		close(c)
	}
	return stop || ended
}

// takeAll reads until nothing is left for now, at most as much as can have been
// there at the start, because the writer may go on.
func (s *stream) takeAll(buf []byte) (ended bool) {
	for taken := 0; taken < maxDrain; {
		n, err := 0, error(nil)
		// File.Read would wait; a read of the descriptor itself does not.
		if ctlErr := control(s.src, func(fd int) error { n, err = syscall.Read(fd, buf); return nil }); ctlErr != nil {
			return true
		}
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return false
		case err != nil || n <= 0:
			return true
		}
		s.take(buf[:n])
		taken += n
	}
	return false
}
