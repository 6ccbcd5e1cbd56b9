package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/worker/collective"
)

// memoryDirectory is a Directory in memory.
type memoryDirectory struct {
	mu    sync.Mutex
	addrs map[int]string
}

func (b *memoryDirectory) Publish(_ context.Context, rank int, addr string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addrs[rank] = addr
	return nil
}

func (b *memoryDirectory) Lookup(ctx context.Context, rank int) (string, error) {
	for {
		b.mu.Lock()
		addr, ok := b.addrs[rank]
		b.mu.Unlock()
		if ok {
			return addr, nil
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

func open(t *testing.T, b *memoryDirectory, rank, size int, token string) *Mesh {
	t.Helper()
	m, err := Open(t.Context(), Config{Rank: rank, Size: size, Token: token, Host: "127.0.0.1", Directory: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func meshes(t *testing.T, size int) []*Mesh {
	b := &memoryDirectory{addrs: map[int]string{}}
	ms := make([]*Mesh, size)
	for r := range ms {
		ms[r] = open(t, b, r, size, "token")
	}
	return ms
}

func call(n int) collective.Call {
	return collective.Call{Kind: collective.KindSend, Type: collective.Int64, Count: uint64(n), Seq: 1}
}

// within fails the test if f takes longer than limit.
func within(t *testing.T, limit time.Duration, f func() error) error {
	t.Helper()
	start, got := time.Now(), make(chan error, 1)
	go func() { got <- f() }()
	select {
	case err := <-got:
		if d := time.Since(start); d > limit {
			t.Errorf("took %v, the limit is %v", d, limit)
		}
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("hangs")
		return nil
	}
}

// TestSimultaneousDialsMakeOneConnection checks ranks that dial each other at the same
// moment. What either side sends arrives.
func TestSimultaneousDialsMakeOneConnection(t *testing.T) {
	for range 20 {
		ms := meshes(t, 4)
		var wg sync.WaitGroup
		for me := range ms {
			for peer := range ms {
				if me == peer {
					continue
				}
				wg.Go(func() {
					if err := ms[me].Send(t.Context(), peer, call(1), []byte{byte(me)}); err != nil {
						t.Errorf("%d to %d: %v", me, peer, err)
					}
				})
				wg.Go(func() {
					into := []byte{99}
					if err := ms[me].Recv(t.Context(), peer, call(1), into); err != nil || into[0] != byte(peer) {
						t.Errorf("%d from %d: %d, %v", me, peer, into, err)
					}
				})
			}
		}
		wg.Wait()
		for r, m := range ms {
			m.mu.Lock()
			if n := len(m.links); n != 3 {
				t.Errorf("rank %d has %d connections", r, n)
			}
			m.mu.Unlock()
		}
		for _, m := range ms {
			m.Close()
		}
	}
}

// TestMessagesOutliveTheirSender checks that what was sent before a Close arrives, even
// if the receiver calls Recv later.
func TestMessagesOutliveTheirSender(t *testing.T) {
	ms := meshes(t, 2)
	big := make([]byte, 1<<16)
	big[1<<16-1] = 7
	if err := ms[0].Send(t.Context(), 1, call(2), big); err != nil {
		t.Fatal(err)
	}
	ms[0].Close()
	into := make([]byte, len(big))
	if err := ms[1].Recv(t.Context(), 0, call(2), into); err != nil || into[1<<16-1] != 7 {
		t.Fatal(err)
	}
	err := ms[1].Recv(t.Context(), 0, call(2), into)
	var peer *collective.PeerError
	if !errors.As(err, &peer) || peer.Rank != 0 || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Recv from a closed rank: %v", err)
	}
}

func TestBreakReachesRanksThatWait(t *testing.T) {
	ms := meshes(t, 4)[:3] // the last one is replaced below
	why := errors.New("out of luck")
	// 1 waits for 0, 2 waits for 1: the reason travels along.
	got := make([]error, 3)
	var wg sync.WaitGroup
	for _, r := range []int{1, 2} {
		wg.Go(func() { got[r] = ms[r].Recv(t.Context(), r-1, call(0), nil) })
	}
	waitFor(t, func() bool {
		for _, m := range ms[:2] {
			m.mu.Lock()
			n := len(m.links)
			m.mu.Unlock()
			if n == 0 {
				return false
			}
		}
		return true
	})
	ms[0].Break(why)
	within(t, time.Second, func() error { wg.Wait(); return nil })
	for _, r := range []int{1, 2} {
		if want := "rank 0 gave up: out of luck"; got[r] == nil || got[r].Error() != want {
			t.Errorf("rank %d: %v, want %s", r, got[r], want)
		}
	}
	// A rank that dials a rank that gave up gets the reason too.
	late := open(t, ms[0].cfg.Directory.(*memoryDirectory), 3, 4, "token")
	err := within(t, time.Second, func() error { return late.Recv(t.Context(), 2, call(0), nil) })
	if want := "rank 0 gave up: out of luck"; err == nil || err.Error() != want {
		t.Errorf("late call: %v", err)
	}
	again := open(t, ms[0].cfg.Directory.(*memoryDirectory), 1, 4, "token")
	err = within(t, time.Second, func() error { return again.Recv(t.Context(), 2, call(0), nil) })
	if err == nil || !strings.Contains(err.Error(), "has ended before") {
		t.Errorf("second call by rank 1: %v", err)
	}
	if err := ms[0].Send(t.Context(), 1, call(0), nil); err != why {
		t.Errorf("Send after Break: %v", err)
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true in 10 s")
		}
		time.Sleep(time.Millisecond) // sleep: poll
	}
}

func TestCancelEndsBlockedCalls(t *testing.T) {
	why := errors.New("enough")
	big := make([]byte, 64<<20) // more than sockets hold
	for name, f := range map[string]func(context.Context, []*Mesh) error{
		"recv": func(ctx context.Context, ms []*Mesh) error { return ms[0].Recv(ctx, 1, call(0), nil) },
		"send": func(ctx context.Context, ms []*Mesh) error {
			return ms[0].Send(ctx, 1, call(0), big)
		},
		"lookup": func(ctx context.Context, _ []*Mesh) error {
			return open(t, &memoryDirectory{addrs: map[int]string{}}, 0, 2, "x").Recv(ctx, 1, call(0), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ms := meshes(t, 2)
			ctx, cancel := context.WithCancelCause(t.Context())
			var cancelled time.Time
			time.AfterFunc(50*time.Millisecond, func() { cancelled = time.Now(); cancel(why) })
			err := within(t, 10*time.Second, func() error { return f(ctx, ms) })
			if d := time.Since(cancelled); d > 100*time.Millisecond {
				t.Errorf("returned %v after the cancellation", d)
			}
			if !errors.Is(err, why) {
				t.Errorf("error %v does not carry the cause", err)
			}
		})
	}
}

func TestMismatchNamesBothRanks(t *testing.T) {
	ms := meshes(t, 2)
	other := call(3)
	other.Type = collective.Float32
	go ms[0].Send(t.Context(), 1, other, make([]byte, 12))
	err := ms[1].Recv(t.Context(), 0, call(3), make([]byte, 24))
	var mm *collective.MismatchError
	if !errors.As(err, &mm) || mm.Theirs != other || mm.Mine != call(3) {
		t.Fatalf("error %v", err)
	}
	for _, word := range []string{"rank 0", "rank 1", "float32 x 3", "int64 x 3"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %s", err, word)
		}
	}
}

func TestLostPeerIsNamed(t *testing.T) {
	ms := meshes(t, 3)
	if err := ms[2].Send(t.Context(), 0, call(0), nil); err != nil {
		t.Fatal(err)
	}
	if err := ms[0].Recv(t.Context(), 2, call(0), nil); err != nil {
		t.Fatal(err)
	}
	// As the kernel does for a killed process: no goodbye.
	ms[2].ln.Close()
	ms[2].links[0].conn.Close()
	for r := range 2 { // 0 was connected, 1 was not
		err := ms[r].Recv(t.Context(), 2, call(0), nil)
		var peer *collective.PeerError
		if !errors.As(err, &peer) || peer.Rank != 2 {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestOtherProgramsLoseTheirConnection checks connections without a valid hello: the
// ranks do not notice them.
func TestOtherProgramsLoseTheirConnection(t *testing.T) {
	b := &memoryDirectory{addrs: map[int]string{}}
	ms := []*Mesh{open(t, b, 0, 2, "token"), open(t, b, 1, 2, "token")}
	good := func() []byte { return newHello("token", 1, 0).encode() }
	for name, bytes := range map[string][]byte{
		"http":        []byte("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"),
		"wrong token": newHello("other", 1, 0).encode(),
		"wrong rank":  newHello("token", 1, 1).encode(),
		"itself":      newHello("token", 0, 0).encode(),
		"no rank":     newHello("token", 2, 0).encode(),
		"short":       good()[:20],
	} {
		conn, err := net.Dial("tcp", b.addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(bytes)
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if got, err := io.ReadAll(conn); len(got) > 0 || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: answer %q, %v", name, got, err)
		}
		conn.Close()
	}
	go ms[1].Send(t.Context(), 0, call(0), nil)
	if err := ms[0].Recv(t.Context(), 1, call(0), nil); err != nil {
		t.Error(err)
	}
}

// TestInvalidFrameEndsItsConnection checks a rank that sends invalid frames after the
// handshake.
func TestInvalidFrameEndsItsConnection(t *testing.T) {
	for name, invalid := range map[string][]byte{
		"text":        []byte(strings.Repeat("invalid ", 20)),
		"long reason": header{frame: frameBroken, length: 1 << 40}.encode(),
		"long bye":    header{frame: frameBye, length: 1}.encode(),
		"wrong size":  header{frame: uint8(collective.KindSend), call: call(0), length: 1 << 60}.encode(),
	} {
		t.Run(name, func(t *testing.T) {
			b := &memoryDirectory{addrs: map[int]string{}}
			m := open(t, b, 0, 3, "token")
			conn, err := net.Dial("tcp", b.addrs[0])
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%s%s", newHello("token", 1, 0).encode(), invalid)
			err = within(t, 5*time.Second, func() error { return m.Recv(t.Context(), 1, call(0), nil) })
			var peer *collective.PeerError
			if !errors.As(err, &peer) || peer.Rank != 1 {
				t.Errorf("error %v", err)
			}
		})
	}
}

func FuzzHello(f *testing.F) {
	f.Add(newHello("token", 1, 0).encode())
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, err := parseHello(b, "token", 0, 4)
		if err == nil && string(newHello("token", from, 0).encode()) != string(b) {
			t.Errorf("accepted %q as rank %d", b, from)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(header{frame: uint8(collective.KindSend), call: call(5), length: 40}.encode())
	f.Add(header{frame: frameBroken, length: 10}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		if string(h.encode()) != string(b) {
			t.Errorf("%+v is not %q", h, b)
		}
		_ = h.call.String()
	})
}
