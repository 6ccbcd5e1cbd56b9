// Package socket is the agent's end of the worker socket. Workers report on it why
// they fail, and learn from it why their round is aborted.
//
// Invariants: a connection belongs to the round of its hello; a hello with another
// round closes it. A worker that does not read delays no other worker for more than
// a second. Input that is no frame ends its connection.
package socket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/board"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/worker/contract"
	"golang.org/x/sys/unix"
)

// Report is a worker's report of its own failure.
type Report struct {
	Round, Rank int
	Message     string
}

// Server serves the worker socket.
type Server struct {
	l      net.Listener // nil: there is no folder for the socket
	failed func(Report)
	lost   func(Report)
	warn   func(text string) // nil: nothing is said
	board  *board.Node

	mu    sync.Mutex
	round int               // the round that runs, or the latest that ran
	conns map[net.Conn]bool // true: the worker has sent its hello
	cause *contract.Cause   // cause of the abort in progress, for workers that connect late
	peers map[int]*peer     // workers of this round, by rank
	// saidOther says that warn got the text of a worker whose boards are others.
	saidOther bool
}

// peer is a worker that has sent its hello.
type peer struct {
	conn    net.Conn
	failure string        // the failure that it reported; the server's mu guards it
	step    uint64        // the step that it reported; likewise
	ended   chan struct{} // closed when its connection ends
	stacks  chan string   // the latest traces that it sent; has room for one
}

// Options says what a server needs.
type Options struct {
	Path   string
	Pool   *accept.Pool
	Failed func(Report) // takes the workers' reports
	Lost   func(Report) // takes the ends of connections without a bye; they have no message; nil: nothing does
	// Warn takes what the user should know; nil: nothing is said. It may be called from any
	// goroutine.
	Warn func(text string)
}

// Open makes the socket. Only this user can connect to it: Linux gives the file the
// mode that the socket has before it is bound.
func Open(ctx context.Context, o Options) (*Server, error) {
	private := func(_, _ string, c syscall.RawConn) (err error) {
		e := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, e)
	}
	lc := net.ListenConfig{Control: private}
	l, err := lc.Listen(ctx, "unix", o.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the worker socket: %w (is the path of %s too long, or does that folder take no sockets? TMPDIR can name another)", err, filepath.Dir(o.Path))
	}
	s := NewUnreachable()
	s.l, s.failed, s.lost, s.warn = o.Pool.Listen(l), o.Failed, o.Lost, o.Warn
	return s, nil
}

// NewUnreachable returns a server that no worker can reach.
func NewUnreachable() *Server {
	return &Server{board: board.NewNode(), conns: map[net.Conn]bool{}, peers: map[int]*peer{}}
}

// Path returns the socket's file, "" if there is none.
func (s *Server) Path() string {
	if s.l == nil {
		return ""
	}
	return s.l.Addr().String()
}

// Board is the memory that the workers of the round share.
func (s *Server) Board() *board.Node { return s.board }

// Begin starts a new round. It forgets the abort and the board of the last round.
func (s *Server) Begin(r board.Round) {
	s.board.Begin(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round, s.cause = r.Number, nil
	clear(s.peers)
}

// Serve accepts workers until ctx ends, and then closes all connections.
func (s *Server) Serve(ctx context.Context) error {
	if s.l == nil {
		return nil
	}
	defer s.board.Close()
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
		accept.MarkProven(c) // only this user can connect
		s.mu.Lock()
		s.conns[c] = false
		s.mu.Unlock()
		wg.Go(func() { s.serveWorker(c) })
	}
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *Server) current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round
}

// serveWorker serves one worker.
func (s *Server) serveWorker(c net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.Close()
	}()
	lines := bufio.NewScanner(c)
	lines.Buffer(make([]byte, 0, 512), contract.MaxFrame)
	hello, round := contract.Frame{}, 0
	p := &peer{conn: c, ended: make(chan struct{}), stacks: make(chan string, 1)}
	defer close(p.ended)
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
			s.welcome(c, round, &f)
			s.mu.Lock()
			if s.round == round {
				s.peers[f.Rank] = p
			}
			s.conns[c] = true // from now on Abort writes to it
			cause := s.cause
			s.mu.Unlock()
			if cause != nil {
				s.write(c, contract.Frame{Type: contract.TypeAbort, Cause: cause})
			}
		case f.Type == contract.TypeFail && hello.Type != "":
			s.mu.Lock()
			p.failure = f.Message
			s.mu.Unlock()
			s.failed(Report{round, hello.Rank, f.Message})
		case f.Type == contract.TypeStep && hello.Type != "":
			s.mu.Lock()
			p.step = uint64(max(0, f.Step))
			s.mu.Unlock()
		case f.Type == contract.TypeStacks && hello.Type != "":
			select {
			case p.stacks <- f.Message:
			default: // nothing waits for it
			}
		case f.Type == contract.TypeBye:
			return
		}
	}
	if hello.Type != "" && s.lost != nil {
		s.lost(Report{Round: round, Rank: hello.Rank})
	}
}

// welcome answers a hello. A worker whose boards have the agent's version gets the
// descriptor of the round's board with the welcome.
func (s *Server) welcome(c net.Conn, round int, hello *contract.Frame) {
	f := contract.Frame{Type: contract.TypeWelcome, Version: contract.Version}
	conn := unixConn(c)
	if hello.Board != contract.BoardVersion || conn == nil {
		s.write(c, f)
		s.sayOther(hello)
		return
	}
	handed := s.board.Hand(round, hello.Rank, func(fd int, cpus []int) {
		f.Board, f.CPUs = contract.BoardVersion, cpus
		if b, err := json.Marshal(f); err == nil {
			_ = c.SetWriteDeadline(time.Now().Add(writeTime))
			_, _, _ = conn.WriteMsgUnix(append(b, '\n'), unix.UnixRights(fd), nil)
		}
	})
	if !handed {
		s.write(c, f)
	}
}

// sayOther warns, once, of a worker that knows a board, but another one than this agent.
func (s *Server) sayOther(hello *contract.Frame) {
	if hello.Board <= 0 || hello.Board == contract.BoardVersion || s.warn == nil {
		return
	}
	s.mu.Lock()
	first := !s.saidOther
	s.saidOther = true
	s.mu.Unlock()
	if !first {
		return
	}
	rebuild := "the program with this gorun's package worker"
	if hello.Board > contract.BoardVersion {
		rebuild = "gorun from the release that the program was built with"
	}
	s.warn(fmt.Sprintf("rank %d cannot share memory with this node: its program was built for version %d of the board, gorun has version %d: its ranks talk over TCP, which is slower; rebuild %s",
		hello.Rank, hello.Board, contract.BoardVersion, rebuild))
}

// unixConn returns the socket below the connections that count it, nil if there is none.
func unixConn(c net.Conn) *net.UnixConn {
	for {
		if conn, ok := c.(*net.UnixConn); ok {
			return conn
		}
		wrapped, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = wrapped.NetConn()
	}
}

// writeTime bounds a write: a slow reader must not delay the others.
const writeTime = time.Second

func (s *Server) write(c net.Conn, f contract.Frame) {
	b, err := json.Marshal(f)
	if err != nil {
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	_, _ = c.Write(append(b, '\n'))
}

// maxText bounds a cause's texts, in bytes, so that the frame stays within
// contract.MaxFrame: JSON takes up to six bytes for one.
const maxText = contract.MaxFrame / 16

// Abort ends every wait on the board and sends every connected worker the reason why its
// round ends.
func (s *Server) Abort(c rendezvous.Cause) {
	cause := &contract.Cause{
		Kind: string(c.Kind), Host: term.Cut(c.Host, maxText), Rank: c.Rank, ExitCode: c.ExitCode, Signal: int(c.Signal),
		Text: term.Cut(c.Line(), maxText), Time: c.Time,
	}
	s.board.Abort(*cause)
	s.mu.Lock()
	s.cause = cause
	conns := make([]net.Conn, 0, len(s.conns))
	for c, welcomed := range s.conns {
		if welcomed { // the others get it with their welcome
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, conn := range conns {
		s.write(conn, contract.Frame{Type: contract.TypeAbort, Cause: cause})
	}
}

// ReportedFailure returns the failure that a worker reported before it ended, or
// "". The worker's end may be known before its last frame has been read.
func (s *Server) ReportedFailure(ctx context.Context, rank int) string {
	s.mu.Lock()
	p := s.peers[rank]
	s.mu.Unlock()
	if p == nil {
		return ""
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.failure
}

// Steps returns how far the program of each rank of this node is, of those that said it
// on the board or the socket.
func (s *Server) Steps() map[int]uint64 {
	steps := s.board.Steps()
	s.mu.Lock()
	defer s.mu.Unlock()
	for rank, p := range s.peers {
		if p.step == 0 || steps[rank] > 0 {
			continue
		}
		if steps == nil {
			steps = map[int]uint64{}
		}
		steps[rank] = p.step
	}
	return steps
}

// stacksTime bounds the wait for a worker's traces.
const stacksTime = 2 * time.Second

// ErrNotConnected is the error for a worker that has no connection to the socket.
var ErrNotConnected = errors.New("it does not link gorun's package worker, or has not begun to use it")

// Stacks asks a worker for the traces of its goroutines.
func (s *Server) Stacks(ctx context.Context, rank int) (string, error) {
	s.mu.Lock()
	p := s.peers[rank]
	s.mu.Unlock()
	if p == nil {
		return "", ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, stacksTime)
	defer cancel()
	select {
	case <-p.stacks: // the answer to a question that was given up
	default:
	}
	s.write(p.conn, contract.Frame{Type: contract.TypeStacks})
	select {
	case text := <-p.stacks:
		return text, nil
	case <-p.ended:
		return "", ErrNotConnected
	case <-ctx.Done():
		return "", fmt.Errorf("it did not answer within %v", stacksTime)
	}
}
