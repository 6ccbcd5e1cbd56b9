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

// stream copies src to a file, the tail and the console, in this order, because a
// slow console must not delay the others.
type stream struct {
	src     *os.File // non-blocking
	file    *os.File // nil: not kept
	tail    *tail    // nil: not kept
	display display  // nil: not shown
	// filtered gets the lines that the user filters, in a file that the node's workers
	// share; nil: none.
	filtered *filterFile
	// onLoss, if set, is called once with the error after which file lacks output.
	onLoss func(error)

	lastRead atomic.Int64 // time of the last read, Unix nanoseconds; 0: never
	done     chan struct{}
	err      error // the loss of output; read it after done is closed

	mu     sync.Mutex
	drains []chan struct{} // of calls of drain, closed when their output is consumed
	stop   bool
}

// copy consumes src until src ends or end is called. Then it closes the files.
func (s *stream) copy() {
	defer close(s.done)
	defer s.release()
	buf := make([]byte, readSize)
	for {
		n, err := s.src.Read(buf)
		s.consume(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if s.handleInterrupt(buf) {
				return
			}
		} else if err != nil {
			// The error is EOF or, of a pseudo-terminal, EIO. No output follows any
			// error.
			return
		}
	}
}

// release ends the display and closes the files.
func (s *stream) release() {
	if s.display != nil {
		s.display.finish()
	}
	if s.filtered != nil {
		s.recordLoss(s.filtered.close())
	}
	if s.file != nil {
		s.recordLoss(s.file.Close())
	}
	s.src.Close()
}

// abandon closes the files of a stream that has no source.
func (s *stream) abandon() {
	if s.filtered != nil {
		_ = s.filtered.close()
	}
	if s.file != nil {
		s.file.Close()
	}
}

// consume copies p to the file, the tail and the console.
func (s *stream) consume(p []byte) {
	if len(p) == 0 {
		return
	}
	s.lastRead.Store(time.Now().UnixNano())
	if s.file != nil {
		if _, err := s.file.Write(p); err != nil {
			// Later output may fit again, and would then hide the gap before it.
			_ = s.file.Close()
			s.file = nil
			s.recordLoss(err)
		}
	}
	if s.filtered != nil {
		s.filtered.lines.show(p)
	}
	if s.tail != nil {
		s.tail.write(p)
	}
	if s.display != nil {
		s.display.show(p)
	}
}

// recordLoss records the error after which the file lacks output, if there is one.
func (s *stream) recordLoss(err error) {
	if err == nil {
		return
	}
	s.err = fmt.Errorf("cannot keep all of a worker's output: %w", err)
	if s.onLoss != nil {
		s.onLoss(err)
	}
}

// drain waits until copy has consumed everything that was written before the call.
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

// end makes copy consume the available output and return.
func (s *stream) end() { s.interrupt(func() { s.stop = true }) }

// interrupt applies change and ends the read in copy.
func (s *stream) interrupt(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	_ = s.src.SetReadDeadline(time.Unix(1, 0)) // fails only when copy has returned
}

// handleInterrupt consumes the available output, ends the calls of drain, and
// reports whether copy must return.
func (s *stream) handleInterrupt(buf []byte) bool {
	s.mu.Lock()
	drains, stop := s.drains, s.stop
	s.drains = nil
	// The lock is held, so that the deadline of a later interrupt stays in
	// place.
	_ = s.src.SetReadDeadline(time.Time{})
	s.mu.Unlock()

	ended := s.consumeAvailable(buf)
	for _, c := range drains {
		close(c)
	}
	return stop || ended
}

// consumeAvailable reads until src has no output for now. It reads at most maxDrain
// bytes, because the writer may go on.
func (s *stream) consumeAvailable(buf []byte) (ended bool) {
	for total := 0; total < maxDrain; {
		n, err := 0, error(nil)
		// File.Read would wait; a read of the descriptor itself does not.
		if ctlErr := withFD(s.src, func(fd int) error { n, err = syscall.Read(fd, buf); return nil }); ctlErr != nil {
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
		s.consume(buf[:n])
		total += n
	}
	return false
}
