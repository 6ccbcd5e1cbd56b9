package status

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"golang.org/x/sys/unix"
)

// Bounds on the clients at one time, and on the time of each.
const (
	maxClients   = 16
	maxStrangers = 4 // clients that have not proven anything yet
	helloTime    = time.Second
	requestTime  = 2 * time.Second
	writeTime    = time.Second // how long an agent that ends waits for a client that does not read
)

// Server is the agent's end of the socket.
type Server struct {
	// Hello returns the agent's present Hello.
	Hello func() Hello
	// Answer carries out a request within AnswerTime. Its ctx ends with the agent.
	Answer func(context.Context, Request) Reply
	Secret Secret       // nil: there is none
	Pool   *accept.Pool // counts clients; nil: they are not counted

	l   net.Listener
	uid uint32
}

// AnswerTime is how long a client waits for the Reply. It is longer than an agent
// needs to notice that its coordinator does not answer.
const AnswerTime = 4 * time.Second

// Listen opens the socket.
func (s *Server) Listen(ctx context.Context) error {
	uid, pid := os.Geteuid(), os.Getpid()
	s.uid = uint32(uid)
	var lc net.ListenConfig
	var err error
	if s.l, err = lc.Listen(ctx, "unix", address(uid, pid, "")); errors.Is(err, unix.EADDRINUSE) {
		s.l, err = lc.Listen(ctx, "unix", address(uid, pid, strings.ToLower(rand.Text()[:8])))
	}
	if err != nil {
		return fmt.Errorf("cannot open the socket for gorun status and gorun abort: %w", err)
	}
	s.l = s.Pool.Listen(s.l)
	return nil
}

// Serve answers clients until ctx ends. Then it waits at most writeTime for the
// clients that it is answering.
func (s *Server) Serve(ctx context.Context) error {
	defer s.l.Close()
	stop := context.AfterFunc(ctx, func() { s.l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	known, strangers := make(chan struct{}, maxClients), make(chan struct{}, maxStrangers)
	closed := make(chan struct{})
	close(closed)
	for {
		c, err := s.l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("cannot accept on the socket for gorun status: %w", err)
		}
		cred, err := peer(c)
		if err != nil {
			c.Close()
			continue
		}
		room, wait := known, ctx.Done()
		if s.trusts(cred) {
			accept.Prove(c)
		} else {
			room, wait = strangers, closed // strangers delay no other client
		}
		select {
		case room <- struct{}{}:
		default:
			select {
			case room <- struct{}{}:
			case <-wait:
				c.Close()
				continue
			}
		}
		wg.Go(func() {
			defer func() { <-room }()
			defer c.Close()
			s.talk(ctx, c, cred)
		})
	}
}

func (s *Server) trusts(cred *unix.Ucred) bool { return cred.Uid == 0 || cred.Uid == s.uid }

// talk serves one client. It returns at the first input that is no frame.
func (s *Server) talk(ctx context.Context, c net.Conn, cred *unix.Ucred) {
	_ = c.SetDeadline(time.Now().Add(requestTime))
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	in := newFrames(c)
	if !s.trusts(cred) && !s.proven(c, in) {
		return
	}
	if say(c, s.Hello()) != nil {
		return
	}
	var r Request
	if in.next(maxRequest, &r) != nil {
		return
	}
	var answer Reply
	if r.Type == TypeEnv && !s.trusts(cred) {
		answer.Error = "what its workers got is told to the job's own user and root only"
	} else {
		answer = s.Answer(ctx, r)
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	_ = say(c, answer)
}

// proven reports whether the stranger proves that it has the secret.
func (s *Server) proven(c net.Conn, in frames) bool {
	if s.Secret == nil || !s.Secret.Given() {
		_ = say(c, Challenge{Error: "this job is another user's, and it has no secret to prove"})
		return false
	}
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // never fails
	if say(c, Challenge{Nonce: nonce}) != nil {
		return false
	}
	var p Proof
	return in.next(maxRequest, &p) == nil && s.Secret.Verify(purpose, bound(nonce, s.uid), p.Proof)
}
