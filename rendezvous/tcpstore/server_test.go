package tcpstore

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestClientsListsConnections(t *testing.T) {
	s, addr := start(t, Options{})
	before := time.Now()
	silent := dial(t, addr)
	until(t, "the first connection", func() bool { return s.Stats().Connections == 1 })
	w := dialModern(t, addr)
	w.call(frame(13, uint32(4711)), encode(uint32(4711)))
	w.send(frame(6, 2, "a", "b"))
	awaitWaiting(t, s, 1)

	got := s.Clients()
	for i, c := range []*client{silent, w} {
		if got[i].Since.Before(before) || got[i].Since.After(time.Now()) {
			t.Errorf("since %v", got[i].Since)
		}
		got[i].Since = time.Time{}
		if want := netip.MustParseAddrPort(c.LocalAddr().String()); got[i].Remote != want {
			t.Errorf("remote %v, want %v", got[i].Remote, want)
		}
		got[i].Remote = netip.AddrPort{}
	}
	want := []Client{{}, {PID: 4711, Requests: 2, Waiting: []string{"a", "b"}, WaitingFor: 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	w.Close()
	until(t, "the client to be forgotten", func() bool { return len(s.Clients()) == 1 })
}

func TestServeConn(t *testing.T) {
	s := New(Options{})
	here, there := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(ctx, there) }()
	c := &client{t, here}
	c.call(frame(3, "n", 1), encode(1))
	c.send(frame(5, 1, "missing"))
	awaitWaiting(t, s, 1)
	cancel()
	c.expectEnd()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.Connections != 0 || st.Waiting != 0 || st.Keys != 1 || st.Requests != 2 {
		t.Errorf("%+v", st)
	}
}

// TestSet checks that a client finds, and is woken by, what the server itself sets, under
// the name that torch's client sends.
func TestSet(t *testing.T) {
	s, addr := start(t, Options{})
	c := dialModern(t, addr)
	c.send(frame(byte(cmdWait), 1, "/exception_dump"))
	awaitWaiting(t, s, 1)
	if err := s.Set("exception_dump", []byte{3, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	c.expect([]byte{waitStop})
	c.call(frame(byte(cmdGet), "/exception_dump"), encode("\x03\x00\x00\x00"))
	if New(Options{MaxBytes: 1}).Set("a", []byte("b")) == nil {
		t.Error("a full store takes a value")
	}
}

func TestServeEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	for name, end := range map[string]func(context.CancelFunc, net.Listener){
		"context":  func(cancel context.CancelFunc, _ net.Listener) { cancel() },
		"listener": func(_ context.CancelFunc, l net.Listener) { l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s := New(Options{})
			done := make(chan error, 1)
			go func() { done <- s.Serve(ctx, l) }()
			idle, waiter, half := dialModern(t, l.Addr().String()), dialModern(t, l.Addr().String()), dialModern(t, l.Addr().String())
			idle.call(frame(7), encode(0))
			waiter.send(frame(6, 1, "k"))
			half.send(frame(1, "k", "value")[:5])
			awaitWaiting(t, s, 1)
			until(t, "all connections", func() bool { return s.Stats().Connections == 3 })
			end(cancel, l)
			if err := <-done; err != nil {
				t.Error(err)
			}
			for _, c := range []*client{idle, waiter, half} {
				c.expectEnd()
			}
			if st := s.Stats(); st.Connections+st.Waiting != 0 || st.Bytes != 0 {
				t.Errorf("%+v", st)
			}
			if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
				t.Error("the port still answers")
			}
		})
	}
	until(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// failingListener fails the first accepts.
type failingListener struct {
	net.Listener
	fails int
	err   error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", l.err)}
	}
	return l.Listener.Accept()
}

func TestAcceptErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := New(Options{}).Serve(context.Background(), &failingListener{l, 1, syscall.ENOTSOCK}); !errors.Is(err, syscall.ENOTSOCK) {
		t.Errorf("got %v", err)
	}
}

func TestAddFromManyConnections(t *testing.T) {
	const conns, each = 100, 200
	_, addr := start(t, Options{})
	var wg sync.WaitGroup
	seen := make([]bool, conns*each+1) // every sum is handed out exactly once
	var mu sync.Mutex
	for range conns {
		c := dialModern(t, addr)
		wg.Go(func() {
			reply := make([]byte, 8)
			for range each {
				if _, err := c.Write(frame(4, "n", 1)); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Read(reply); err != nil {
					t.Error(err)
					return
				}
				n := int(reply[0]) | int(reply[1])<<8 | int(reply[2])<<16
				mu.Lock()
				if n >= len(seen) || seen[n] {
					t.Errorf("sum %d twice or out of range", n)
				} else {
					seen[n] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	dialModern(t, addr).call(frame(3, "n"), encode("20000"))
}
