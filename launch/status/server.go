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
	maxClients  = 16
	maxUnproven = 4 // clients of other users that have not proven the secret yet
	helloTime   = time.Second
	requestTime = 2 * time.Second
	writeTime   = time.Second // how long an agent that ends waits for a slow client
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
	if s.l, err = lc.Listen(ctx, "unix", socketName(uid, pid, "")); errors.Is(err, unix.EADDRINUSE) {
		s.l, err = lc.Listen(ctx, "unix", socketName(uid, pid, strings.ToLower(rand.Text()[:8])))
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
	trusted, unproven := make(chan struct{}, maxClients), make(chan struct{}, maxUnproven)
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
		cred, err := peerCredentials(c)
		if err != nil {
			c.Close()
			continue
		}
		slots, wait := trusted, ctx.Done()
		if s.isTrusted(cred) {
			accept.MarkProven(c)
		} else {
			slots, wait = unproven, closed // clients of other users delay no client
		}
		select {
		case slots <- struct{}{}:
		default:
			select {
			case slots <- struct{}{}:
			case <-wait:
				c.Close()
				continue
			}
		}
		wg.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			s.serveClient(ctx, c, cred)
		})
	}
}

func (s *Server) isTrusted(cred *unix.Ucred) bool { return cred.Uid == 0 || cred.Uid == s.uid }

// serveClient serves one client. It returns at the first invalid frame.
func (s *Server) serveClient(ctx context.Context, c net.Conn, cred *unix.Ucred) {
	_ = c.SetDeadline(time.Now().Add(requestTime))
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	in := newFrameReader(c)
	if !s.isTrusted(cred) && !s.hasProof(c, in) {
		return
	}
	if writeFrame(c, s.Hello()) != nil {
		return
	}
	var r Request
	if in.read(maxRequest, &r) != nil {
		return
	}
	var answer Reply
	if r.Type == TypeEnv && !s.isTrusted(cred) {
		answer.Error = "only the job's user and root may read the environment of its workers"
	} else {
		answer = s.Answer(ctx, r)
	}
	_ = c.SetWriteDeadline(time.Now().Add(writeTime))
	_ = writeFrame(c, answer)
}

// hasProof reports whether a client of another user proves the secret.
func (s *Server) hasProof(c net.Conn, in frameReader) bool {
	if s.Secret == nil || !s.Secret.Given() {
		_ = writeFrame(c, Challenge{Error: "this job belongs to another user and has no secret"})
		return false
	}
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // never fails
	if writeFrame(c, Challenge{Nonce: nonce}) != nil {
		return false
	}
	var p Proof
	return in.read(maxRequest, &p) == nil && s.Secret.Verify(proofPurpose, proofText(nonce, s.uid), p.Proof)
}
