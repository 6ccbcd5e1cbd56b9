package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/contract"
)

// TestConnectionHasHighDescriptor checks that the descriptor of the connection is above those
// of a GPU's driver if the limit allows it, and that the worker connects in any case.
func TestConnectionHasHighDescriptor(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) })
	for _, limit := range []uint64{highest + 24, highest / 2} {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
		a, err := dialAgent(t.Context(), newAgent(t, "").path, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := a.conn.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			if (fd >= highest) != (limit > highest) {
				t.Errorf("descriptor %d under a limit of %d", fd, limit)
			}
		}); err != nil {
			t.Fatal(err)
		}
		a.conn.Close()
	}
}

// fakeAgent is the agent's side of one worker socket.
type fakeAgent struct {
	path   string
	frames chan contract.Frame // what workers sent, hello first
	conns  chan net.Conn
}

// newAgent listens and answers every hello with answer; "" stands for a welcome.
func newAgent(t testing.TB, answer string) *fakeAgent {
	t.Helper()
	a := &fakeAgent{
		path:   filepath.Join(t.TempDir(), "s"),
		frames: make(chan contract.Frame, 100),
		conns:  make(chan net.Conn, 100),
	}
	if answer == "" {
		answer = `{"type":"welcome","version":1}` + "\n"
	}
	ln, err := net.Listen("unix", a.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				r := bufio.NewReaderSize(conn, contract.MaxFrame)
				for first := true; ; first = false {
					f, err := readFrame(r)
					if err != nil {
						return
					}
					if first {
						io.WriteString(conn, answer)
						a.conns <- conn
					}
					a.frames <- f
				}
			}()
		}
	}()
	return a
}

func (a *fakeAgent) conn(t testing.TB) net.Conn {
	t.Helper()
	select {
	case c := <-a.conns:
		return c
	case <-time.After(5 * time.Second):
		t.Fatal("no worker connected")
		return nil
	}
}

func (a *fakeAgent) frame(t testing.TB) contract.Frame {
	t.Helper()
	select {
	case f := <-a.frames:
		return f
	case <-time.After(5 * time.Second):
		t.Fatal("no frame arrived")
		return contract.Frame{}
	}
}

func abortLine(text string) string {
	b, _ := json.Marshal(contract.Frame{Type: contract.TypeAbort, Cause: &contract.Cause{Kind: "exit", Rank: 3, ExitCode: 7, Text: text}})
	return string(b) + "\n"
}

func TestFramesOfAWorker(t *testing.T) {
	a := newAgent(t, "")
	w := world(t, 2, 4, "", a.path)
	if f := a.frame(t); f.Type != contract.TypeHello || f.Rank != 2 || f.PID == 0 || f.Version != contract.Version {
		t.Errorf("hello %+v", f)
	}
	long := strings.Repeat("\x01é", contract.MaxFrame)
	if err := w.Fail(errors.New("loss is NaN\n" + long)); err != nil {
		t.Error(err)
	}
	if f := a.frame(t); f.Type != contract.TypeFail || f.Rank != 2 || !strings.HasPrefix(f.Message, "loss is NaN\n\x01é") {
		t.Errorf("fail %.60v", f)
	}
	if err := w.Fail(fmt.Errorf("step 3: %w", aborted(nil))); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if f := a.frame(t); f.Type != contract.TypeBye { // and not a second fail
		t.Errorf("bye %+v", f)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// TestWorkerSendsItsStacks checks the answer to the agent's question where it is, also
// where many goroutines run.
func TestWorkerSendsItsStacks(t *testing.T) {
	a := newAgent(t, "")
	w := world(t, 2, 4, "", a.path)
	a.frame(t)
	c := a.conn(t)
	for _, more := range []int{0, 2000} {
		for range more {
			go func() { <-t.Context().Done() }()
		}
		if _, err := c.Write([]byte(`{"type":"stacks"}` + "\n")); err != nil {
			t.Fatal(err)
		}
		f := a.frame(t)
		if f.Type != contract.TypeStacks || !strings.HasPrefix(f.Message, "goroutine ") || strings.Contains(f.Message, "tracesFrame") {
			t.Errorf("%s: %.80q", f.Type, f.Message)
		}
		if more == 0 && !strings.Contains(f.Message, "TestWorkerSendsItsStacks") {
			t.Errorf("the test's own goroutine is missing:\n%s", f.Message)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestAgentEndsTheWorld checks the cause for each frame of the agent, and for its end.
func TestAgentEndsTheWorld(t *testing.T) {
	for _, tc := range []struct{ name, sends, kind, text string }{
		{"abort", abortLine("rank 3 exited with code 7"), "exit", "gorun: aborted: rank 3 exited with code 7"},
		{"unknown first", `{"type":"news","x":[1]}` + "\n" + abortLine("x"), "exit", "gorun: aborted: x"},
		{"abort without cause", `{"type":"abort"}` + "\n", "", "gorun: aborted: the agent gave no cause"},
		{"end", "", "lost", "gorun: aborted: the agent of this node is lost"},
		{"half a frame", `{"type":"abo`, "lost", "gorun: aborted: the agent of this node is lost"},
		{"not JSON", "hello?\n", "lost", "gorun: aborted: the agent of this node sent"},
		{"too long", strings.Repeat("x", contract.MaxFrame+1) + "\n", "lost", "gorun: aborted: the agent of this node sent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAgent(t, "")
			w := world(t, 0, 1, "", a.path)
			conn := a.conn(t)
			io.WriteString(conn, tc.sends)
			conn.Close()
			select {
			case <-w.Context().Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the world does not end")
			}
			err := context.Cause(w.Context())
			abort, ok := errors.AsType[*AbortError](err)
			if !ok || abort.Cause.Kind != tc.kind || !strings.HasPrefix(err.Error(), tc.text) {
				t.Errorf("cause %#v", err)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	for _, tc := range []struct{ name, answer, text string }{
		{"aborted already", abortLine("too late"), "gorun: aborted: too late"},
		{"not JSON", "HTTP/1.1 400\r\n", "not a JSON object"},
		{"no welcome", `{"type":"bye"}` + "\n", `"bye" instead of a welcome`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAgent(t, tc.answer)
			_, err := Start(t.Context(), Settings{Size: 1, Socket: a.path})
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v", err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "no-agent")
	if _, err := Start(t.Context(), Settings{Size: 1, Socket: path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no agent: %v", err)
	}
}

// TestAbortEndsBlockedCalls checks that every kind of call returns within 100 ms of an
// abort, with the cause, although one rank never joins.
func TestAbortEndsBlockedCalls(t *testing.T) {
	big := make([]float32, 1<<22) // more than sockets hold
	for name, call := range map[string]func(context.Context, *Comm) error{
		"all-reduce small": func(ctx context.Context, c *Comm) error { return AllReduce(ctx, c, []int64{1}, Sum) },
		"all-reduce big": func(ctx context.Context, c *Comm) error {
			return AllReduce(ctx, c, make([]float32, 1<<20), Sum)
		},
		"broadcast": func(ctx context.Context, c *Comm) error { return Broadcast(ctx, c, []int64{1}, 3) },
		"barrier":   Barrier,
		"receive":   func(ctx context.Context, c *Comm) error { return Recv(ctx, c, []int64{1}, 3) },
		"send":      func(ctx context.Context, c *Comm) error { return Send(ctx, c, big, 3) },
	} {
		for _, joined := range []bool{false, true} { // is rank 3 in the store?
			t.Run(fmt.Sprintf("%s/%v", name, joined), func(t *testing.T) {
				const size = 4
				addr, a := serveStore(t), newAgent(t, "")
				worlds := make([]*World, size)
				conns := make([]net.Conn, size)
				for r := range worlds {
					worlds[r] = world(t, r, size, addr, a.path)
					conns[r] = a.conn(t)
				}
				if joined {
					if _, err := worlds[3].Comm(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				errs, ends := make([]error, 3), make([]time.Time, 3)
				var wg, started sync.WaitGroup
				for r := range errs {
					started.Add(1)
					wg.Go(func() {
						c, err := worlds[r].Comm(t.Context())
						started.Done()
						if err == nil {
							err = call(t.Context(), c)
						}
						errs[r], ends[r] = err, time.Now()
					})
				}
				started.Wait()
				time.Sleep(30 * time.Millisecond) // sleep: lets the calls block; the test is correct without
				at := time.Now()
				for _, conn := range conns {
					io.WriteString(conn, abortLine("rank 3 exited with code 7"))
				}
				done := make(chan struct{})
				go func() { wg.Wait(); close(done) }()
				select {
				case <-done:
				case <-time.After(10 * time.Second):
					t.Fatal("a rank hangs")
				}
				for r, err := range errs {
					if d := ends[r].Sub(at); d > 100*time.Millisecond {
						t.Errorf("rank %d returned %v after the abort", r, d)
					}
					abort, ok := errors.AsType[*AbortError](err)
					if !ok || abort.Cause.ExitCode != 7 {
						t.Errorf("rank %d: %v", r, err)
					} else if err.Error() != "gorun: aborted: rank 3 exited with code 7" {
						t.Errorf("rank %d: text %q", r, err)
					}
				}
			})
		}
	}
}

// TestAbortIsPreferredToALostPeer checks an abort that comes a moment after a peer is
// lost: the call returns the abort.
func TestAbortIsPreferredToALostPeer(t *testing.T) {
	addr, a := serveStore(t), newAgent(t, "")
	w0, conn0 := world(t, 0, 2, addr, a.path), a.conn(t)
	w1 := world(t, 1, 2, addr, "")
	c0, err := w0.Comm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { got <- Recv(t.Context(), c0, []int64{0}, 1) }()
	if _, err := w1.Comm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w1.Close()
	io.WriteString(conn0, abortLine("rank 1 left"))
	if err := <-got; err == nil || err.Error() != "gorun: aborted: rank 1 left" {
		t.Errorf("error %v", err)
	}
}

func TestLostPeerIsNamed(t *testing.T) {
	addr := serveStore(t)
	w0, w1 := world(t, 0, 2, addr, ""), world(t, 1, 2, addr, "")
	c0, err := w0.Comm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w1.Comm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w1.Close()
	err = Recv(t.Context(), c0, []int64{0}, 1)
	if peer, ok := errors.AsType[*PeerError](err); !ok || peer.Rank != 1 {
		t.Errorf("error %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte(abortLine("x")))
	f.Add([]byte(`{"type":"abort","cause":null}` + "\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := readFrame(bufio.NewReaderSize(bytes.NewReader(b), contract.MaxFrame))
		if err == nil {
			_ = aborted(frame.Cause).Error()
		}
	})
}
