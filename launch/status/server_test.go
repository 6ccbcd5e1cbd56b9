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

// startServer runs an agent's end in this process. Other agents may run on the machine.
func startServer(t *testing.T, answer func(context.Context, Request) Reply) (end func() error) {
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
			return fmt.Errorf("the server has not ended")
		}
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return end
}

func answerAbort(_ context.Context, r Request) Reply {
	if r.Type != TypeAbort {
		return Reply{Error: "bad\x1b[2J"}
	}
	return Reply{Aborted: &Aborted{RunID: r.Message, Nodes: 3}}
}

// findAgent returns the agent of this test among the agents of the machine.
func findAgent(t *testing.T, cl *Client) (Agent, SearchResult) {
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

// listenRaw listens like an agent, and runs do for each client.
func listenRaw(t *testing.T, uid, pid int, do func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("unix", socketName(uid, pid, ""))
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
	startServer(t, answerAbort)
	cl := &Client{UID: os.Geteuid()}
	a, _ := findAgent(t, cl)
	r, err := cl.Ask(t.Context(), a, Request{Type: TypeAbort, Message: "m"})
	if err != nil || r.Aborted == nil || r.Aborted.String() != "aborted run m: 3 nodes, no worker was running" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := cl.Ask(t.Context(), a, Request{Type: TypeStatus}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("the error of a request: %v", err)
	}
}

// TestTwoAgentsWithOnePidBothListen checks that two agents with the same pid, in
// different pid namespaces, both have a socket.
func TestTwoAgentsWithOnePidBothListen(t *testing.T) {
	startServer(t, answerAbort)
	startServer(t, answerAbort)
	cl := &Client{UID: os.Geteuid()}
	_, f := findAgent(t, cl)
	if n := len(slices.DeleteFunc(f.Agents, func(a Agent) bool { return a.RunID != t.Name() })); n != 2 {
		t.Errorf("%d agents", n)
	}
}

// TestBrokenAgentsHideNoOther checks that an agent that is stopped, or sends invalid
// frames, does not hide the others.
func TestBrokenAgentsHideNoOther(t *testing.T) {
	startServer(t, answerAbort)
	pid := 1<<22 + os.Getpid() // no process has it
	listenRaw(t, os.Geteuid(), pid, func(net.Conn) {})
	listenRaw(t, os.Geteuid(), pid+1, func(c net.Conn) { _, _ = io.WriteString(c, "no frame\n") })
	listenRaw(t, os.Geteuid(), pid+2, func(c net.Conn) { c.Close() })
	_, f := findAgent(t, &Client{UID: os.Geteuid()})
	if !slices.Contains(f.NoAnswer, pid) || slices.Contains(f.NoAnswer, pid+1) || slices.Contains(f.NoAnswer, pid+2) {
		t.Errorf("silent: %v", f.NoAnswer)
	}
	for _, a := range f.Agents {
		if a.name == socketName(os.Geteuid(), pid+1, "") || a.name == socketName(os.Geteuid(), pid+2, "") {
			t.Errorf("it has a Hello: %+v", a)
		}
	}
}

// TestSocketWithAFalseUserIsIgnored checks that a client ignores a socket whose name
// claims another user, and sends it nothing, even with a secret.
func TestSocketWithAFalseUserIsIgnored(t *testing.T) {
	received := make(chan string, 8)
	uid := os.Geteuid() + 1
	listenRaw(t, uid, 1<<22+os.Getpid(), func(c net.Conn) {
		_ = writeFrame(c, Challenge{Nonce: make([]byte, 32)})
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		b, _ := io.ReadAll(c)
		received <- string(b)
	})
	for _, cl := range []*Client{{UID: uid, Secret: testSecret("s")}, {UID: uid}, {UID: os.Geteuid(), Secret: testSecret("s")}} {
		f, err := cl.Find(t.Context())
		if err != nil || f.OtherUsers == 0 || slices.ContainsFunc(f.Agents, func(a Agent) bool { return a.UID == uid }) {
			t.Errorf("%+v, %v", f, err)
		}
		if got := <-received; got != "" {
			t.Errorf("it received %q", got)
		}
	}
}

// testSecret is a secret for tests.
type testSecret string

func (w testSecret) Given() bool { return w != "" }
func (w testSecret) Prove(purpose string, nonce []byte) []byte {
	return []byte(string(w) + purpose + string(nonce))
}

func (w testSecret) Verify(purpose string, nonce, proof []byte) bool {
	return string(w.Prove(purpose, nonce)) == string(proof)
}

// TestOnlyAProofGetsTheHello checks that of the clients of other users only those that
// prove the secret get the Hello.
func TestOnlyAProofGetsTheHello(t *testing.T) {
	for name, tt := range map[string]struct {
		secret Secret
		prove  func(nonce []byte) []byte
		want   bool
	}{
		"right":             {testSecret("a"), func(n []byte) []byte { return testSecret("a").Prove(proofPurpose, proofText(n, 7)) }, true},
		"another secret":    {testSecret("a"), func(n []byte) []byte { return testSecret("b").Prove(proofPurpose, proofText(n, 7)) }, false},
		"for another agent": {testSecret("a"), func(n []byte) []byte { return testSecret("a").Prove(proofPurpose, proofText(n, 8)) }, false},
		"nothing":           {testSecret("a"), func([]byte) []byte { return nil }, false},
		"no secret":         {nil, func(n []byte) []byte { return testSecret("").Prove(proofPurpose, proofText(n, 7)) }, false},
		"an empty one":      {testSecret(""), func(n []byte) []byte { return testSecret("").Prove(proofPurpose, proofText(n, 7)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Secret: tt.secret, uid: 7}
			us, them := net.Pipe()
			got := make(chan bool, 1)
			go func() {
				got <- s.hasProof(them, newFrameReader(them))
				them.Close()
			}()
			_ = us.SetDeadline(time.Now().Add(10 * time.Second))
			var ch Challenge
			in := newFrameReader(us)
			if err := in.read(maxHello, &ch); err != nil {
				t.Fatal(err)
			}
			if ch.Error == "" {
				_ = writeFrame(us, Proof{tt.prove(ch.Nonce)})
			}
			if rest, _ := io.ReadAll(us); len(rest) > 0 {
				t.Errorf("it received %q", rest)
			}
			if ok := <-got; ok != tt.want {
				t.Errorf("has proof: %v", ok)
			}
		})
	}
}

// TestIdleClientsAreDropped checks that silent clients are dropped, and that they delay
// neither other clients nor the end.
func TestIdleClientsAreDropped(t *testing.T) {
	end := startServer(t, answerAbort)
	cl := &Client{UID: os.Geteuid()}
	a, _ := findAgent(t, cl)
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

// TestOnlyItsUserReadsTheEnvironment checks that a client that only proves the secret
// does not get the environment of the workers.
func TestOnlyItsUserReadsTheEnvironment(t *testing.T) {
	for name, uid := range map[string]uint32{"the same user": 7, "another one with the secret": 99, "root": 0} {
		t.Run(name, func(t *testing.T) {
			s := &Server{
				Secret: testSecret("a"), uid: 7, Hello: func() Hello { return Hello{} },
				Answer: func(context.Context, Request) Reply { return Reply{Env: []byte(`{"node":1}`)} },
			}
			us, them := net.Pipe()
			go func() {
				s.serveClient(t.Context(), them, &unix.Ucred{Uid: uid})
				them.Close()
			}()
			_ = us.SetDeadline(time.Now().Add(10 * time.Second))
			in := newFrameReader(us)
			if uid == 99 {
				var ch Challenge
				if err := in.read(maxHello, &ch); err != nil {
					t.Fatal(err)
				}
				if err := writeFrame(us, Proof{testSecret("a").Prove(proofPurpose, proofText(ch.Nonce, 7))}); err != nil {
					t.Fatal(err)
				}
			}
			var h Hello
			var r Reply
			if err := in.read(maxHello, &h); err != nil {
				t.Fatal(err)
			}
			if err := writeFrame(us, Request{Type: TypeEnv}); err != nil {
				t.Fatal(err)
			}
			if err := in.read(maxReply, &r); err != nil {
				t.Fatal(err)
			}
			if hasEnv := r.Env != nil; hasEnv != (uid != 99) || hasEnv == (r.Error != "") {
				t.Errorf("reply %+v", r)
			}
		})
	}
}
