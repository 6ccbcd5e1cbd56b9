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

// SearchResult holds what a client learnt about the machine's agents.
type SearchResult struct {
	Agents     []Agent // by user, run id and pid
	NoAnswer   []int   // pids of agents that did not answer within a second
	OtherUsers int     // number of agents of other users, or with another secret
}

// Find asks every agent of this machine (of its network namespace) for its Hello.
// It takes a second if an agent does not answer.
func (cl *Client) Find(ctx context.Context) (SearchResult, error) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return SearchResult{}, fmt.Errorf("cannot look for gorun's agents: %w", err)
	}
	defer f.Close()
	names, err := parseSockets(f)
	if err != nil {
		return SearchResult{}, fmt.Errorf("cannot look for gorun's agents: %w", err)
	}
	var found SearchResult
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64) // agents that are asked at one time
	for _, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			a, err := cl.readHello(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			var timeout net.Error
			switch _, pid, _ := parseSocketName(name); {
			case err == nil:
				found.Agents = append(found.Agents, a)
			case errors.Is(err, errOtherUser):
				found.OtherUsers++
			case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, unix.EAGAIN): // EAGAIN: its queue is full
				found.NoAnswer = append(found.NoAnswer, pid)
			}
		})
	}
	wg.Wait()
	slices.Sort(found.NoAnswer)
	slices.SortFunc(found.Agents, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.PID, b.PID))
	})
	return found, nil
}

// parseSockets returns the names of the agents' sockets in the kernel's list.
func parseSockets(r io.Reader) ([]string, error) {
	var names []string
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(names) < maxAgents {
		// The columns are: Num RefCount Protocol Flags Type St Inode Path. A socket
		// that listens has the flag __SO_ACCEPTCON.
		f := strings.Fields(lines.Text())
		if len(f) != 8 || f[3] != "00010000" {
			continue
		}
		if _, _, ok := parseSocketName(f[7]); ok {
			names = append(names, f[7])
		}
	}
	return names, lines.Err()
}

// errOtherUser is the error for an agent of another user, and for a socket whose name
// claims a user that does not own it.
var errOtherUser = errors.New("it belongs to another user")

// readHello returns the Hello of an agent.
func (cl *Client) readHello(ctx context.Context, name string) (Agent, error) {
	c, _, a, err := cl.dial(ctx, name)
	if err == nil {
		c.Close()
	}
	return a, err
}

// dial connects to an agent, checks which user runs it and reads its Hello.
func (cl *Client) dial(ctx context.Context, name string) (c net.Conn, in frameReader, a Agent, err error) {
	d := net.Dialer{Timeout: helloTime}
	conn, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return nil, in, a, err
	}
	c = conn
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	_ = c.SetDeadline(time.Now().Add(helloTime))
	cred, err := peerCredentials(c)
	if err != nil {
		return nil, in, a, err
	}
	uid, _, _ := parseSocketName(name)
	secret := cl.Secret != nil && cl.Secret.Given()
	trusted := cl.UID == 0 || cl.UID == int(cred.Uid)
	if uid != int(cred.Uid) || !trusted && !secret {
		return nil, in, a, errOtherUser
	}
	in = newFrameReader(c)
	if !trusted {
		var ch Challenge
		if err = in.read(maxHello, &ch); err != nil {
			return nil, in, a, err
		}
		if len(ch.Nonce) == 0 {
			return nil, in, a, errOtherUser
		}
		if err = writeFrame(c, Proof{cl.Secret.Prove(proofPurpose, proofText(ch.Nonce, cred.Uid))}); err != nil {
			return nil, in, a, err
		}
	}
	if err = in.read(maxHello, &a.Hello); err != nil {
		if !trusted && errors.Is(err, io.EOF) { // the agent refused the proof
			err = errOtherUser
		}
		return nil, in, a, err
	}
	a.UID, a.name = uid, name
	return c, in, a, nil
}

// Ask sends a request to an agent. It takes at most AnswerTime, the time of the question,
// and a second. The error names the agent.
func (cl *Client) Ask(ctx context.Context, a Agent, r Request) (Reply, error) {
	fail := func(err error) (Reply, error) {
		var timeout net.Error
		switch {
		case errors.As(err, &timeout) && timeout.Timeout():
			return Reply{}, fmt.Errorf("gorun's agent %d did not answer within %v; is it stopped?", a.PID, r.limit())
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
	_ = c.SetDeadline(time.Now().Add(r.limit()))
	if err := writeFrame(c, r); err != nil {
		return fail(err)
	}
	var reply Reply
	if err := in.read(maxReply, &reply); err != nil {
		return fail(err)
	}
	if reply.Error != "" {
		return fail(errors.New(printable(reply.Error)))
	}
	return reply, nil
}
