package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker/contract"
	"golang.org/x/sys/unix"
)

// socket is the agent's end of the worker socket: it hears what workers report
// and tells them why their round was aborted. A connection belongs to the round
// in which it said hello; one that names another round is not talked to.
type socket struct {
	l    net.Listener // nil: there is no place for it
	fail func(round, rank int, message string)

	mu    sync.Mutex
	round int               // that runs, or ran last
	conns map[net.Conn]bool // true: it has said hello
	cause *contract.Cause   // of the abort in progress: told to late comers too
	talks map[int]*talk     // of this round, by rank
}

// talk is what one worker has said.
type talk struct {
	message string        // of its failure, guarded by the socket's mu
	ended   chan struct{} // closed with its connection
}

// openSocket makes the socket, which only this user can connect to: Linux gives
// the file the mode that the socket has before it is bound.
func openSocket(ctx context.Context, pool *accept.Pool, path string, fail func(round, rank int, message string)) (*socket, error) {
	private := func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, e)
	}
	lc := net.ListenConfig{Control: private}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the worker socket: %w (is %s too long a path, or no place for sockets? TMPDIR names another)", err, filepath.Dir(path))
	}
	s := newSocket(fail)
	s.l = pool.Listen(l)
	return s, nil
}

// newSocket makes one that no worker can reach.
func newSocket(fail func(round, rank int, message string)) *socket {
	return &socket{fail: fail, conns: map[net.Conn]bool{}, talks: map[int]*talk{}}
}

// path is "" where there is no socket.
func (s *socket) path() string {
	if s.l == nil {
		return ""
	}
	return s.l.Addr().String()
}

func (s *socket) current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round
}

// serve accepts workers until ctx ends, and then closes all connections.
func (s *socket) serve(ctx context.Context) error {
	if s.l == nil {
		return nil
	}
	defer s.l.Close() // removes the file
	stop := context.AfterFunc(ctx, func() { s.l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.closeAll()
	for {
		c, err := s.l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("cannot accept on the worker socket: %w", err)
		}
		accept.Prove(c) // only this user can connect
		s.mu.Lock()
		s.conns[c] = false
		s.mu.Unlock()
		wg.Go(func() { s.talk(c) })
	}
}

func (s *socket) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// talk serves one worker. Anything that is no frame ends the connection.
func (s *socket) talk(c net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.Close()
	}()
	lines := bufio.NewScanner(c)
	lines.Buffer(make([]byte, 0, 512), contract.MaxFrame)
	hello, round := contract.Frame{}, 0
	said := &talk{ended: make(chan struct{})}
	defer close(said.ended)
	for lines.Scan() {
		var f contract.Frame
		if json.Unmarshal(lines.Bytes(), &f) != nil {
			return
		}
		switch {
		case f.Type == contract.TypeHello && hello.Type == "":
			hello, round = f, s.current()
			if f.Round != nil && *f.Round != round {
				return
			}
			s.write(c, contract.Frame{Type: contract.TypeWelcome, Version: contract.Version})
			s.mu.Lock()
			if s.round == round {
				s.talks[f.Rank] = said
			}
			s.conns[c] = true // from here on abort writes to it
			cause := s.cause
			s.mu.Unlock()
			if cause != nil {
				s.write(c, contract.Frame{Type: contract.TypeAbort, Cause: cause})
			}
		case f.Type == contract.TypeFail && hello.Type != "":
			s.mu.Lock()
			said.message = f.Message
			s.mu.Unlock()
			s.fail(round, hello.Rank, f.Message)
		case f.Type == contract.TypeBye:
			return
		}
	}
}

func (s *socket) write(c net.Conn, f contract.Frame) {
	b, err := json.Marshal(f)
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // a worker that does not read does not matter
	_, _ = c.Write(append(b, '\n'))
}

// maxTold keeps a cause's texts within contract.MaxFrame, in bytes: JSON takes
// up to six for one.
const maxTold = contract.MaxFrame / 16

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// abort tells every connected worker why its round is over.
func (s *socket) abort(c rendezvous.Cause) {
	told := &contract.Cause{
		Kind: string(c.Kind), Host: c.Host, Rank: c.Rank, ExitCode: c.ExitCode, Signal: int(c.Signal),
		Text: c.Line(), Time: c.Time,
	}
	told.Host, told.Text = shorten(told.Host, maxTold), shorten(told.Text, maxTold)
	s.mu.Lock()
	s.cause = told
	conns := make([]net.Conn, 0, len(s.conns))
	for c, greeted := range s.conns {
		if greeted { // the others are told with their welcome
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, conn := range conns {
		s.write(conn, contract.Frame{Type: contract.TypeAbort, Cause: told})
	}
}

// lastWords returns what a worker that has died reported as its failure, "" if
// nothing. Its death may be known before its last frame has been read.
func (s *socket) lastWords(ctx context.Context, rank int) string {
	s.mu.Lock()
	said := s.talks[rank]
	s.mu.Unlock()
	if said == nil {
		return ""
	}
	select {
	case <-said.ended:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return said.message
}

// begin starts a new round: nothing is aborted any more.
func (s *socket) begin(round int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round, s.cause = round, nil
	clear(s.talks)
}
