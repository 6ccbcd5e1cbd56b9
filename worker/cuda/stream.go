package cuda

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/worker/cuda/internal/driver"
)

// The calls of a stream are counted in segments, with an event behind each.
const (
	segments = 4
	segment  = 64 // calls
)

// Stream is a queue of work on the GPU of this process: what is in it runs in order.
type Stream struct {
	c       *core
	handle  driver.Stream
	foreign bool
	events  [segments]driver.Event // behind the last call of a segment
	calls   atomic.Uint64          // that went in
}

// newStream makes a stream of c.
func (d *Device) newStream(c *core) (*Stream, error) {
	s := &Stream{c: c}
	err := d.enter()
	if err == nil {
		defer d.leave()
		s.handle, err = d.driver.NewStream()
	}
	if err != nil {
		return nil, err
	}
	return s, s.makeEvents()
}

// makeEvents makes the events of the segments and hands the stream to its communicator.
func (s *Stream) makeEvents() (err error) {
	for i := range s.events {
		if s.events[i], err = s.c.dev.driver.NewEvent(false); err != nil {
			return err
		}
	}
	s.c.own.mu.Lock()
	defer s.c.own.mu.Unlock()
	s.c.own.streams = append(s.c.own.streams, s)
	return nil
}

// NewStream makes a stream for calls that need not wait for those of other streams.
func (c *Comm) NewStream() (*Stream, error) {
	if c == nil {
		return nil, errNoComm
	}
	if f := c.failed.Load(); f != nil {
		return nil, f.err
	}
	s, err := c.dev.newStream(c.core)
	return s, voiced(err)
}

// ForeignStream wraps a CUstream (or cudaStream_t) that another library made in the primary
// context of this process's GPU. It stays that library's, and must live until Stream.Free or
// Comm.Close, which wait for it.
func (c *Comm) ForeignStream(handle uintptr) (*Stream, error) {
	if c == nil {
		return nil, errNoComm
	}
	if f := c.failed.Load(); f != nil {
		return nil, f.err
	}
	if err := c.dev.enter(); err != nil {
		return nil, voiced(err)
	}
	defer c.dev.leave()
	s := &Stream{c: c.core, handle: driver.Stream(handle), foreign: true}
	return s, voiced(s.makeEvents())
}

// Stream is the stream of c's calls, nil if c is nil.
func (c *Comm) Stream() *Stream {
	if c == nil {
		return nil
	}
	return c.stream
}

// Handle is the CUstream, for kernels of the program's own; 0 of a nil Stream.
func (s *Stream) Handle() uintptr {
	if s == nil {
		return 0
	}
	return uintptr(s.handle)
}

// On returns the same communicator with another stream for its calls.
func (c *Comm) On(s *Stream) *Comm {
	if c == nil || s == nil {
		return nil
	}
	return &Comm{c.core, s}
}

// Free waits for the calls in a stream of NewStream or ForeignStream and gives back what it
// has of the GPU. Without it Comm.Close does. No other call uses the stream any more.
func (s *Stream) Free(ctx context.Context) error {
	if s == nil {
		return nil
	}
	own := &s.c.own
	own.mu.Lock()
	at := slices.Index(own.streams, s)
	own.mu.Unlock()
	switch {
	case at == 0:
		return errors.New("gorun: cannot free the stream that Open made: Comm.Close does")
	case at < 0:
		return nil
	}
	ctx, cancel := s.c.at.Deadline(ctx)
	defer cancel()
	if err := s.c.await(ctx, s, 0); err != nil {
		return err
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	if at = slices.Index(own.streams, s); at < 0 || own.closed {
		return nil
	}
	own.streams = slices.Delete(own.streams, at, at+1)
	if err := s.c.dev.enter(); err != nil {
		return voiced(err)
	}
	defer s.c.dev.leave()
	return voiced(s.release())
}

// release gives the stream back.
func (s *Stream) release() error {
	var errs []error
	for _, e := range s.events {
		errs = append(errs, s.c.dev.driver.DestroyEvent(e))
	}
	if !s.foreign {
		errs = append(errs, s.c.dev.driver.DestroyStream(s.handle))
	}
	return errors.Join(errs...)
}

// reserve makes room for a call: it waits until the segment whose event is used next has
// ended.
func (s *Stream) reserve(ctx context.Context) error {
	calls := s.calls.Load()
	if calls%segment != 0 || calls < segments*segment {
		return nil
	}
	return s.c.await(ctx, s, s.events[calls/segment%segments])
}

// count counts a call that went in. The thread has the GPU's context, and the goroutine the
// communicator's mutex.
func (s *Stream) count() error {
	calls := s.calls.Add(1)
	if calls%segment != 0 {
		return nil
	}
	return s.c.dev.driver.Record(s.events[(calls-1)/segment%segments], s.handle)
}

// Event is a place in a stream.
type Event struct {
	s *Stream
	e driver.Event
}

// Record marks the end of what is in the stream now.
func (s *Stream) Record() (*Event, error) {
	if s == nil {
		return nil, errNoStream
	}
	if f := s.c.failed.Load(); f != nil { // Close has given the stream back
		return nil, f.err
	}
	if err := s.c.dev.enter(); err != nil {
		return nil, voiced(err)
	}
	defer s.c.dev.leave()
	e, err := s.c.dev.driver.NewEvent(true)
	if err == nil {
		err = s.c.dev.driver.Record(e, s.handle)
	}
	if err != nil {
		return nil, voiced(err)
	}
	return &Event{s, e}, nil
}

// WaitFor makes what goes into s from now on wait for e, which may be of another stream.
func (s *Stream) WaitFor(e *Event) error {
	if s == nil || e == nil {
		return errNoStream
	}
	if f := s.c.failed.Load(); f != nil {
		return f.err
	}
	if err := s.c.dev.enter(); err != nil {
		return voiced(err)
	}
	defer s.c.dev.leave()
	return voiced(s.c.dev.driver.WaitEvent(s.handle, e.e))
}

// Wait waits until the GPU has come to e.
func (e *Event) Wait(ctx context.Context) error {
	if e == nil {
		return errNoStream
	}
	ctx, cancel := e.s.c.at.Deadline(ctx)
	defer cancel()
	return e.s.c.await(ctx, e.s, e.e)
}

// Since returns the time from before to e on the GPU. It has come to both.
func (e *Event) Since(before *Event) (time.Duration, error) {
	if e == nil || before == nil {
		return 0, errNoStream
	}
	if err := e.s.c.dev.enter(); err != nil {
		return 0, voiced(err)
	}
	defer e.s.c.dev.leave()
	ms, err := e.s.c.dev.driver.Elapsed(before.e, e.e)
	return time.Duration(float64(ms) * float64(time.Millisecond)), voiced(err)
}

// Free gives e back.
func (e *Event) Free() error {
	if e == nil {
		return nil
	}
	if err := e.s.c.dev.enter(); err != nil {
		return voiced(err)
	}
	defer e.s.c.dev.leave()
	return voiced(e.s.c.dev.driver.DestroyEvent(e.e))
}
