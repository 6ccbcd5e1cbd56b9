package status

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve runs an agent's end in this process. Other agents may run on the machine.
func serve(t *testing.T, answer func(context.Context, Request) Reply) (end func() error) {
	t.Helper()
	s := &Server{
		Hello:  func() Hello { return Hello{Version: Version, RunID: t.Name(), Host: "n", PID: os.Getpid()} },
		Answer: answer,
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	end = func() error {
		cancel()
		select {
		case err := <-done:
			done <- err
			return err
		case <-time.After(10 * time.Second):
			return fmt.Errorf("it still serves")
		}
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return end
}

func echo(_ context.Context, r Request) Reply {
	if r.Type != TypeAbort {
		return Reply{Error: "bad\x1b[2J"}
	}
	return Reply{Aborted: &Aborted{RunID: r.Message, Nodes: 3}}
}

// found returns the agent of this test among the agents of the machine.
func found(t *testing.T, cl *Client) (Agent, Found) {
	t.Helper()
	f, err := cl.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(f.Agents, func(a Agent) bool { return a.RunID == t.Name() })
	if i < 0 {
		t.Fatalf("the agent was not found: %+v", f)
	}
	return f.Agents[i], f
}

// raw listens like an agent, and runs do for each client.
func raw(t *testing.T, uid, pid int, do func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("unix", address(uid, pid, ""))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			do(c)
			defer c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

func TestAsk(t *testing.T) {
	serve(t, echo)
	cl := &Client{UID: os.Geteuid()}
	a, _ := found(t, cl)
	r, err := cl.Ask(t.Context(), a, Request{Type: TypeAbort, Message: "m"})
	if err != nil || r.Aborted == nil || r.Aborted.String() != "aborted run m: 3 nodes, no worker was running" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := cl.Ask(t.Context(), a, Request{Type: TypeStatus}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("an error that is told: %v", err)
	}
}

// TestTwoOfOnePid checks that two agents with the same pid, in different pid
// namespaces, both have a socket.
func TestTwoOfOnePid(t *testing.T) {
	serve(t, echo)
	serve(t, echo)
	cl := &Client{UID: os.Geteuid()}
	_, f := found(t, cl)
	if n := len(slices.DeleteFunc(f.Agents, func(a Agent) bool { return a.RunID != t.Name() })); n != 2 {
		t.Errorf("%d agents", n)
	}
}

// TestOtherAgents checks that an agent that is stopped, or sends nonsense, does not
// hide the others.
func TestOtherAgents(t *testing.T) {
	serve(t, echo)
	pid := 1<<22 + os.Getpid() // no process has it
	raw(t, os.Geteuid(), pid, func(net.Conn) {})
	raw(t, os.Geteuid(), pid+1, func(c net.Conn) { _, _ = io.WriteString(c, "nonsense\n") })
	raw(t, os.Geteuid(), pid+2, func(c net.Conn) { c.Close() })
	_, f := found(t, &Client{UID: os.Geteuid()})
	if !slices.Contains(f.Silent, pid) || slices.Contains(f.Silent, pid+1) || slices.Contains(f.Silent, pid+2) {
		t.Errorf("silent: %v", f.Silent)
	}
	for _, a := range f.Agents {
		if a.name == address(os.Geteuid(), pid+1, "") || a.name == address(os.Geteuid(), pid+2, "") {
			t.Errorf("believed: %+v", a)
		}
	}
}

// TestClaims checks that a client does not believe a socket that claims to be
// another user's, and sends it nothing, even with a secret.
func TestClaims(t *testing.T) {
	heard := make(chan string, 8)
	uid := os.Geteuid() + 1
	raw(t, uid, 1<<22+os.Getpid(), func(c net.Conn) {
		_ = say(c, Challenge{Nonce: make([]byte, 32)})
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		b, _ := io.ReadAll(c)
		heard <- string(b)
	})
	for _, cl := range []*Client{{UID: uid, Secret: word("s")}, {UID: uid}, {UID: os.Geteuid(), Secret: word("s")}} {
		f, err := cl.Find(t.Context())
		if err != nil || f.Others == 0 || slices.ContainsFunc(f.Agents, func(a Agent) bool { return a.UID == uid }) {
			t.Errorf("%+v, %v", f, err)
		}
		if got := <-heard; got != "" {
			t.Errorf("it was told %q", got)
		}
	}
}

// word is a secret for tests.
type word string

func (w word) Given() bool { return w != "" }
func (w word) Prove(purpose string, nonce []byte) []byte {
	return []byte(string(w) + purpose + string(nonce))
}

func (w word) Verify(purpose string, nonce, proof []byte) bool {
	return string(w.Prove(purpose, nonce)) == string(proof)
}

// TestProof checks that a stranger that proves the secret gets the Hello, and that
// every other stranger gets nothing.
func TestProof(t *testing.T) {
	for name, tt := range map[string]struct {
		secret Secret
		prove  func(nonce []byte) []byte
		want   bool
	}{
		"right":             {word("a"), func(n []byte) []byte { return word("a").Prove(purpose, bound(n, 7)) }, true},
		"another secret":    {word("a"), func(n []byte) []byte { return word("b").Prove(purpose, bound(n, 7)) }, false},
		"for another agent": {word("a"), func(n []byte) []byte { return word("a").Prove(purpose, bound(n, 8)) }, false},
		"nothing":           {word("a"), func([]byte) []byte { return nil }, false},
		"no secret":         {nil, func(n []byte) []byte { return word("").Prove(purpose, bound(n, 7)) }, false},
		"an empty one":      {word(""), func(n []byte) []byte { return word("").Prove(purpose, bound(n, 7)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Secret: tt.secret, uid: 7}
			us, them := net.Pipe()
			got := make(chan bool, 1)
			go func() {
				got <- s.proven(them, newFrames(them))
				them.Close()
			}()
			_ = us.SetDeadline(time.Now().Add(10 * time.Second))
			var ch Challenge
			in := newFrames(us)
			if err := in.next(maxHello, &ch); err != nil {
				t.Fatal(err)
			}
			if ch.Error == "" {
				_ = say(us, Proof{tt.prove(ch.Nonce)})
			}
			if rest, _ := io.ReadAll(us); len(rest) > 0 {
				t.Errorf("it was told %q", rest)
			}
			if ok := <-got; ok != tt.want {
				t.Errorf("proven: %v", ok)
			}
		})
	}
}

// TestIdleClients checks that silent clients are dropped, and delay neither other
// clients nor the end.
func TestIdleClients(t *testing.T) {
	end := serve(t, echo)
	cl := &Client{UID: os.Geteuid()}
	a, _ := found(t, cl)
	idle := func() {
		for range 2 * maxClients {
			c, err := net.Dial("unix", a.name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
		}
	}
	idle()
	deadline := time.Now().Add(requestTime + 10*time.Second)
	for {
		if _, err := cl.Ask(t.Context(), a, Request{Type: TypeAbort}); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	idle()
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestEnvironmentIsForItsUser checks that only the job's own user sees what the
// workers got, and not a client that only proves the secret.
func TestEnvironmentIsForItsUser(t *testing.T) {
	for name, uid := range map[string]uint32{"the same user": 7, "another one with the secret": 99, "root": 0} {
		t.Run(name, func(t *testing.T) {
			s := &Server{
				Secret: word("a"), uid: 7, Hello: func() Hello { return Hello{} },
				Answer: func(context.Context, Request) Reply { return Reply{Env: []byte(`{"node":1}`)} },
			}
			us, them := net.Pipe()
			go func() {
				s.talk(t.Context(), them, &unix.Ucred{Uid: uid})
				them.Close()
			}()
			_ = us.SetDeadline(time.Now().Add(10 * time.Second))
			in := newFrames(us)
			if uid == 99 {
				var ch Challenge
				if err := in.next(maxHello, &ch); err != nil {
					t.Fatal(err)
				}
				if err := say(us, Proof{word("a").Prove(purpose, bound(ch.Nonce, 7))}); err != nil {
					t.Fatal(err)
				}
			}
			var h Hello
			var r Reply
			if err := in.next(maxHello, &h); err != nil {
				t.Fatal(err)
			}
			if err := say(us, Request{Type: TypeEnv}); err != nil {
				t.Fatal(err)
			}
			if err := in.next(maxReply, &r); err != nil {
				t.Fatal(err)
			}
			if told := r.Env != nil; told != (uid != 99) || told == (r.Error != "") {
				t.Errorf("reply %+v", r)
			}
		})
	}
}
