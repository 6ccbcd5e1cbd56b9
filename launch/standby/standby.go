// Package standby lets the tasks of one node share one agent. A scheduler may start
// several tasks on a node (srun --ntasks-per-node 8), and a node has one agent: the
// first task, the leader, runs it. The other tasks stand by and end with its exit
// code, so that the scheduler sees one result. If asked, each task also starts the worker
// of its local rank ([Tasks], [RunWorkers]), so that the worker is bound, charged and
// heard as the scheduler does it with that task.
//
// Invariants: only processes of the same user can connect. A task that stands by
// always ends when the leader has ended, in whatever way. Every wait has a deadline,
// except the wait for the end of the job. A task kills its worker, and what that left,
// when the agent has ended. Messages are bounded.
package standby

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// address returns the abstract Unix address at which the tasks of a key meet. It has
// no file that could be left behind.
func address(key string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("@gorun-%d-%x", os.Getuid(), sum[:16])
}

// maxCode bounds the text of an exit code and its line break, in bytes.
const maxCode = 4

// otherCommand is sent in the place of an exit code to a task whose command line
// differs from the leader's.
const otherCommand = "?\n"

// commandTime bounds sending and reading a digest, between processes of one node.
const commandTime = 10 * time.Second

// Group names the tasks of one node. All must have the same command line, because the
// leader starts the workers of all of them.
type Group struct {
	Key     string
	Command []string
}

// digest returns what a task sends first: a hash of its command line.
func (g Group) digest() []byte {
	sum := sha256.Sum256([]byte(strings.Join(g.Command, "\x00")))
	return sum[:]
}

// Leader is the task that runs the agent.
type Leader struct {
	listener *net.UnixListener
	digest   []byte
	tasks    int // that stand by
	wg       sync.WaitGroup

	mu      sync.Mutex
	conns   []*net.UnixConn
	changed chan struct{} // closed when all tasks have connected
}

// Lead listens for the other tasks of a node: tasks of them.
func Lead(g Group, tasks int) (*Leader, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address(g.Key), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the %d other tasks of this node: %w", tasks, err)
	}
	return &Leader{listener: l, digest: g.digest(), tasks: tasks, changed: make(chan struct{})}, nil
}

// Serve accepts the other tasks until End.
func (l *Leader) Serve() {
	l.wg.Go(func() {
		for {
			c, err := l.listener.AcceptUnix()
			if err != nil {
				return
			}
			if !isSameUser(c) || !l.isSameCommand(c) || !l.add(c) {
				c.Close()
			}
		}
	})
}

// isSameCommand reports whether the task at the other end has the leader's command
// line. It answers one that has not.
func (l *Leader) isSameCommand(c *net.UnixConn) bool {
	_ = c.SetDeadline(time.Now().Add(commandTime))
	theirs := make([]byte, len(l.digest))
	if _, err := io.ReadFull(c, theirs); err != nil {
		return false
	}
	if !bytes.Equal(theirs, l.digest) {
		_, _ = io.WriteString(c, otherCommand)
		return false
	}
	return c.SetDeadline(time.Time{}) == nil
}

// add keeps a connection. It reports false if all tasks have connected already.
func (l *Leader) add(c *net.UnixConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) == l.tasks {
		return false
	}
	if l.conns = append(l.conns, c); len(l.conns) == l.tasks {
		close(l.changed)
	}
	return true
}

// End sends the exit code to all tasks. It waits at most wait for tasks that have not
// connected yet, because a short job ends before they start, and returns how many are
// still missing then.
func (l *Leader) End(code int, wait time.Duration) (missing int) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.changed:
	case <-timer.C:
	}
	l.listener.Close()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = fmt.Fprintf(c, "%d\n", code)
		c.Close()
	}
	return l.tasks - len(l.conns)
}

// Errors of Wait.
var (
	ErrNoLeader   = errors.New("the first task of this node does not run gorun")
	ErrLeaderLost = errors.New("the first task of this node, which runs the workers, was killed")
	ErrCommand    = errors.New("this task's command line differs from that of the first task of this node, which starts all workers of the node: give all tasks of a node the same one")
)

// Wait waits for the leader of a group and returns its exit code. The leader must come
// within the time arrival; then connected is called.
func Wait(ctx context.Context, g Group, arrival time.Duration, connected func()) (code int, err error) {
	c, err := dial(ctx, g.Key, arrival)
	if err != nil {
		return 0, err
	}
	connected()
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })()
	if !isSameUser(c) {
		return 0, errors.New("a process of another user has the address of this node's first task")
	}
	_ = c.SetWriteDeadline(time.Now().Add(commandTime))
	if _, err := c.Write(g.digest()); err != nil {
		return 0, ErrLeaderLost
	}
	text, err := io.ReadAll(io.LimitReader(c, maxCode+1))
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if string(text) == otherCommand {
		return 0, ErrCommand
	}
	line, complete := strings.CutSuffix(string(text), "\n")
	code, parseErr := strconv.Atoi(line)
	if err != nil || !complete || parseErr != nil || code < 0 || code > 255 {
		return 0, ErrLeaderLost
	}
	return code, nil
}

// retryEvery is the time between two attempts to reach the leader.
const retryEvery = 20 * time.Millisecond

func dial(ctx context.Context, key string, arrival time.Duration) (*net.UnixConn, error) {
	deadline := time.NewTimer(arrival)
	defer deadline.Stop()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address(key), Net: "unix"})
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-deadline.C:
			return nil, ErrNoLeader
		case <-tick.C:
		}
	}
}

// isSameUser reports whether the process at the other end belongs to this user.
func isSameUser(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	same := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		same = err == nil && int(cred.Uid) == os.Getuid()
	})
	return err == nil && same
}
