// Package timer is the server that torch.distributed.elastic.timer's FileTimerClient
// talks to. A process of a worker sets a timer before work that may hang, and clears it
// afterwards. When a timer expires, the server sends the process the signal that it
// asked for, which is SIGKILL unless the program chose another one.
//
// Requests come through a named pipe, one JSON object a line.
//
// Invariants: what a line says is bounded and never trusted. Only processes of this
// node's workers get a signal. The pipe has mode 0600 and goes with the server.
package timer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxLine   = 4096  // bytes: clients write no more, because longer writes are not atomic (PIPE_BUF)
	maxTimers = 10000 // that are set at one time
	maxSignal = 64
	maxNotes  = 100 // lines for the user in the life of a server
	// maxWait bounds the time between two looks at the clock, because expiration
	// times are those of a wall clock, which may jump.
	maxWait = time.Second
)

// Options says whose timers a server has.
type Options struct {
	Path string // of the named pipe
	// IsWorkers reports whether a process belongs to one of this node's workers.
	IsWorkers func(pid int) bool
	Note      func(text string) // receives lines for the user
}

// Server has the timers of a node's workers.
type Server struct {
	opts   Options
	pipe   *os.File
	timers map[key]request
	notes  atomic.Int64 // that were written
	now    func() time.Time
	kill   func(pid int, sig syscall.Signal) error
}

// key names a timer.
type key struct {
	pid   int
	scope string
}

// request is one line of a client. A negative expiration time clears the timer.
type request struct {
	PID        int     `json:"pid"`
	Scope      string  `json:"scope_id"`
	Expiration float64 `json:"expiration_time"` // Unix time in seconds
	Signal     int     `json:"signal"`          // 0 or less: none
}

// Open makes the named pipe. The caller must call Run next, or Close. A pipe that another
// server left at the path is replaced.
func Open(o Options) (*Server, error) {
	switch info, err := os.Lstat(o.Path); {
	case err == nil && info.Mode()&fs.ModeNamedPipe == 0:
		return nil, fmt.Errorf("cannot make the pipe of the timers: %s exists and is no named pipe; remove it, or name another path in TORCHELASTIC_TIMER_FILE", o.Path)
	case err == nil:
		if err := os.Remove(o.Path); err != nil {
			return nil, fmt.Errorf("cannot make the pipe of the timers: %w", err)
		}
	}
	if err := unix.Mkfifo(o.Path, 0o600); err != nil {
		return nil, fmt.Errorf("cannot make the pipe of the timers: mkfifo %s: %w", o.Path, err)
	}
	// A server that can write, too, sees no end when the last client closes the pipe.
	pipe, err := os.OpenFile(o.Path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		_ = os.Remove(o.Path)
		return nil, fmt.Errorf("cannot open the pipe of the timers: %w", err)
	}
	return &Server{opts: o, pipe: pipe, timers: map[key]request{}, now: time.Now, kill: sendSignal}, nil
}

// Close removes the pipe.
func (s *Server) Close() {
	s.pipe.Close()
	_ = os.Remove(s.opts.Path)
}

// Run serves until ctx ends, and closes the server.
func (s *Server) Run(ctx context.Context) {
	requests := make(chan request)
	var wg sync.WaitGroup
	wg.Go(func() { s.read(ctx, requests) })
	defer wg.Wait()
	defer s.Close()
	clock := time.NewTimer(maxWait)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-requests:
			s.apply(r)
		case <-clock.C:
		}
		clock.Reset(s.expire())
	}
}

// read passes the requests of the pipe on until the pipe is closed.
func (s *Server) read(ctx context.Context, requests chan<- request) {
	in := bufio.NewReaderSize(s.pipe, maxLine+1)
	for {
		line, err := in.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			if !errors.Is(err, os.ErrClosed) && !errors.Is(err, io.EOF) {
				s.note("the timers of the workers have ended: cannot read %s: %v", s.opts.Path, err)
			}
			return
		}
		r, ok := parse(line)
		if tooLong || !ok {
			s.note("a line in %s is no request for a timer and is ignored", s.opts.Path)
			continue
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return
		}
	}
}

// parse reads one line of a client.
func parse(line []byte) (r request, ok bool) {
	err := json.Unmarshal(line, &r)
	return r, err == nil && r.PID > 1 && r.PID <= math.MaxInt32 && r.Signal <= maxSignal
}

// apply sets or clears a timer.
func (s *Server) apply(r request) {
	k := key{r.PID, r.Scope}
	if r.Expiration < 0 {
		delete(s.timers, k)
		return
	}
	if _, known := s.timers[k]; !known && len(s.timers) >= maxTimers {
		s.note("the workers have set more than %d timers; the timer %q of process %d is ignored", maxTimers, r.Scope, r.PID)
		return
	}
	s.timers[k] = r
}

// expire signals each process with an expired timer and clears all timers of that
// process. It returns the time until the next look.
func (s *Server) expire() time.Duration {
	now := float64(s.now().UnixNano()) / 1e9
	wait := maxWait
	expired := map[int][]request{}
	for k, r := range s.timers {
		if left := r.Expiration - now; left <= 0 {
			expired[k.pid] = append(expired[k.pid], r)
		} else if left < maxWait.Seconds() {
			wait = min(wait, max(time.Duration(left*float64(time.Second)), time.Millisecond))
		}
	}
	for pid, requests := range expired {
		s.end(pid, requests)
		for k := range s.timers {
			if k.pid == pid {
				delete(s.timers, k)
			}
		}
	}
	return wait
}

// end sends a process the signal of its first expired timer that has one.
func (s *Server) end(pid int, expired []request) {
	slices.SortFunc(expired, func(a, b request) int {
		if a.Expiration < b.Expiration {
			return -1
		}
		return 1
	})
	i := slices.IndexFunc(expired, func(r request) bool { return r.Signal > 0 })
	if i < 0 {
		return
	}
	r := expired[i]
	if !s.opts.IsWorkers(pid) {
		s.note("the timer %q of process %d has expired; it is ignored, because no worker of this node has that process (in a container it may have another number here)", r.Scope, pid)
		return
	}
	sig := syscall.Signal(r.Signal)
	switch err := s.kill(pid, sig); {
	case errors.Is(err, unix.ESRCH): // it has ended by itself
	case err != nil:
		s.note("the timer %q of process %d has expired, and %s cannot be sent: %v", r.Scope, pid, name(sig), err)
	default:
		s.note("the timer %q of process %d has expired: sent %s", r.Scope, pid, name(sig))
	}
}

// note writes a line for the user, unless there were too many.
func (s *Server) note(format string, args ...any) {
	if s.notes.Add(1) <= maxNotes {
		s.opts.Note(fmt.Sprintf(format, args...))
	}
}

func name(sig syscall.Signal) string {
	if text := unix.SignalName(sig); text != "" {
		return text
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// sendSignal signals one process.
func sendSignal(pid int, sig syscall.Signal) error { return unix.Kill(pid, sig) }
