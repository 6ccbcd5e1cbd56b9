package status

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxAgents bounds the number of sockets of one machine that a client reads.
const maxAgents = 4096

// Client finds the agents of this machine.
type Client struct {
	UID    int    // effective user of this process
	Secret Secret // nil: there is none
}

// Agent is an agent that answered with a Hello.
type Agent struct {
	Hello
	UID  int // the user that runs it
	name string
}

// Found holds what a client learnt about the machine's agents.
type Found struct {
	Agents []Agent // by user, run id and pid
	Silent []int   // pids of agents that did not answer within a second
	Others int     // number of agents of other users, or with another secret
}

// Find asks every agent of this machine (of its network namespace) for its Hello.
// It takes a second if an agent does not answer.
func (cl *Client) Find(ctx context.Context) (Found, error) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return Found{}, fmt.Errorf("cannot look for gorun's agents: %w", err)
	}
	defer f.Close()
	names, err := sockets(f)
	if err != nil {
		return Found{}, fmt.Errorf("cannot look for gorun's agents: %w", err)
	}
	var found Found
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, 64)
	for _, name := range names {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			a, err := cl.greet(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			var timeout net.Error
			switch _, pid, _ := owner(name); {
			case err == nil:
				found.Agents = append(found.Agents, a)
			case errors.Is(err, errStranger):
				found.Others++
			case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, unix.EAGAIN): // its queue is full
				found.Silent = append(found.Silent, pid)
			}
		})
	}
	wg.Wait()
	slices.Sort(found.Silent)
	slices.SortFunc(found.Agents, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.PID, b.PID))
	})
	return found, nil
}

// sockets returns the names of the agents' sockets in the kernel's list.
func sockets(r io.Reader) ([]string, error) {
	var names []string
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(names) < maxAgents {
		// The columns are: Num RefCount Protocol Flags Type St Inode Path. A socket
		// that listens has the flag __SO_ACCEPTCON.
		f := strings.Fields(lines.Text())
		if len(f) != 8 || f[3] != "00010000" {
			continue
		}
		if _, _, ok := owner(f[7]); ok {
			names = append(names, f[7])
		}
	}
	return names, lines.Err()
}

// errStranger is the error for an agent of another user, or for a socket that only
// claims to be an agent's.
var errStranger = errors.New("it is another user's")

// greet returns the Hello of an agent.
func (cl *Client) greet(ctx context.Context, name string) (Agent, error) {
	c, _, a, err := cl.dial(ctx, name)
	if err == nil {
		c.Close()
	}
	return a, err
}

// dial connects to an agent, checks which user runs it and reads its Hello.
func (cl *Client) dial(ctx context.Context, name string) (c net.Conn, in frames, a Agent, err error) {
	d := net.Dialer{Timeout: helloTime}
	open, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return nil, in, a, err
	}
	c = open
	defer func() {
		if err != nil {
			open.Close()
		}
	}()
	_ = c.SetDeadline(time.Now().Add(helloTime))
	cred, err := peer(c)
	if err != nil {
		return nil, in, a, err
	}
	uid, _, _ := owner(name)
	secret := cl.Secret != nil && cl.Secret.Given()
	mine := cl.UID == 0 || cl.UID == int(cred.Uid)
	if uid != int(cred.Uid) || !mine && !secret {
		return nil, in, a, errStranger
	}
	in = newFrames(c)
	if !mine {
		var ch Challenge
		if err = in.next(maxHello, &ch); err != nil {
			return nil, in, a, err
		}
		if len(ch.Nonce) == 0 {
			return nil, in, a, errStranger
		}
		if err = say(c, Proof{cl.Secret.Prove(purpose, bound(ch.Nonce, cred.Uid))}); err != nil {
			return nil, in, a, err
		}
	}
	if err = in.next(maxHello, &a.Hello); err != nil {
		if !mine && errors.Is(err, io.EOF) { // the agent refused the proof
			err = errStranger
		}
		return nil, in, a, err
	}
	a.UID, a.name = uid, name
	return c, in, a, nil
}

// Ask sends a request to an agent. It takes at most AnswerTime and a second. The
// error names the agent.
func (cl *Client) Ask(ctx context.Context, a Agent, r Request) (Reply, error) {
	fail := func(err error) (Reply, error) {
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return Reply{}, fmt.Errorf("gorun's agent %d did not answer within %v; is it stopped?", a.PID, AnswerTime)
		case errors.Is(err, io.EOF):
			return Reply{}, fmt.Errorf("gorun's agent %d has just ended", a.PID)
		}
		return Reply{}, fmt.Errorf("gorun's agent %d: %w", a.PID, err)
	}
	c, in, _, err := cl.dial(ctx, a.name)
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(AnswerTime))
	if err := say(c, r); err != nil {
		return fail(err)
	}
	var reply Reply
	if err := in.next(maxReply, &reply); err != nil {
		return fail(err)
	}
	if reply.Error != "" {
		return fail(errors.New(printable(reply.Error)))
	}
	return reply, nil
}
