package tcp

import (
	"bytes"
	"context"
	"errors"
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
	m, err := Open(t.Context(), Config{Rank: rank, Size: size, Spin: rank%2 == 0, Token: token, Listen: Listen{Addr: "127.0.0.1"}, Directory: b})
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

// call describes the first message from a rank to another: n int64, of which the tests
// send as many bytes as they like.
func call(n int) collective.Call {
	return collective.Call{Kind: collective.KindSend, Type: collective.Int64, Count: uint64(n), Seq: 1}
}

// send and recv are one end of a message.
func send(ctx context.Context, m *Mesh, to int, c collective.Call, b []byte) error {
	return end(ctx, m, &collective.Message{Call: c, Send: true, Peer: to, Buf: collective.Buffer{Data: b}})
}

func recv(ctx context.Context, m *Mesh, from int, c collective.Call, b []byte) error {
	return end(ctx, m, &collective.Message{Call: c, Peer: from, Buf: collective.Buffer{Data: b}})
}

// end does as a Group does when the context ends.
func end(ctx context.Context, m *Mesh, msg *collective.Message) error {
	w := m.World()
	w.Post(msg)
	err := w.Wait(ctx, msg)
	if err != nil && err == context.Cause(ctx) {
		m.Break(err)
		err = w.Wait(context.Background(), msg)
	}
	return err
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
					if err := send(t.Context(), ms[me], peer, call(1), []byte{byte(me)}); err != nil {
						t.Errorf("%d to %d: %v", me, peer, err)
					}
				})
				wg.Go(func() {
					into := []byte{99}
					if err := recv(t.Context(), ms[me], peer, call(1), into); err != nil || into[0] != byte(peer) {
						t.Errorf("%d from %d: %d, %v", me, peer, into, err)
					}
				})
			}
		}
		wg.Wait()
		for r, m := range ms {
			m.mu.Lock()
			if n := len(m.lanes); n != 3 {
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
	if err := send(t.Context(), ms[0], 1, call(2), big); err != nil {
		t.Fatal(err)
	}
	ms[0].Close()
	into := make([]byte, len(big))
	if err := recv(t.Context(), ms[1], 0, call(2), into); err != nil || into[1<<16-1] != 7 {
		t.Fatal(err)
	}
	again := call(2)
	again.Seq = 2
	err := recv(t.Context(), ms[1], 0, again, into)
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
		wg.Go(func() { got[r] = recv(t.Context(), ms[r], r-1, call(0), nil) })
	}
	waitFor(t, func() bool {
		for _, m := range ms[:2] {
			m.mu.Lock()
			n := len(m.lanes)
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
	err := within(t, time.Second, func() error { return recv(t.Context(), late, 2, call(0), nil) })
	if want := "rank 0 gave up: out of luck"; err == nil || err.Error() != want {
		t.Errorf("late call: %v", err)
	}
	again := open(t, ms[0].cfg.Directory.(*memoryDirectory), 1, 4, "token")
	err = within(t, time.Second, func() error { return recv(t.Context(), again, 2, call(0), nil) })
	if err == nil || !strings.Contains(err.Error(), "has ended before") {
		t.Errorf("second call by rank 1: %v", err)
	}
	if err := send(t.Context(), ms[0], 1, call(0), nil); err != why {
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
		"recv": func(ctx context.Context, ms []*Mesh) error { return recv(ctx, ms[0], 1, call(0), nil) },
		"send": func(ctx context.Context, ms []*Mesh) error {
			return send(ctx, ms[0], 1, call(0), big)
		},
		"lookup": func(ctx context.Context, _ []*Mesh) error {
			return recv(ctx, open(t, &memoryDirectory{addrs: map[int]string{}}, 0, 2, "x"), 1, call(0), nil)
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
	go send(t.Context(), ms[0], 1, other, make([]byte, 12))
	err := recv(t.Context(), ms[1], 0, call(3), make([]byte, 24))
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
	if err := send(t.Context(), ms[2], 0, call(0), nil); err != nil {
		t.Fatal(err)
	}
	if err := recv(t.Context(), ms[0], 2, call(0), nil); err != nil {
		t.Fatal(err)
	}
	// As the kernel does for a killed process: no goodbye.
	ms[2].ln.Close()
	ms[2].lanes[0].conn.Close()
	for r := range 2 { // 0 was connected, 1 was not
		err := recv(t.Context(), ms[r], 2, call(0), nil)
		var peer *collective.PeerError
		if !errors.As(err, &peer) || peer.Rank != 2 {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// dialAs makes the dialling side of a handshake by hand and returns the connection.
func dialAs(t *testing.T, addr, token string, h hello) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	conn.Write(h.encode())
	var b [nonceSize + proofSize]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return conn // the rank refuses the hello
	}
	conn.Write(proof(token, sideDial, h, [nonceSize]byte(b[:nonceSize])))
	return conn
}

// answerOf returns the answer byte on conn, or 0 if the rank closes it.
func answerOf(conn net.Conn) byte {
	b := []byte{0}
	io.ReadFull(conn, b)
	return b[0]
}

// TestOtherProgramsLoseTheirConnection checks connections without a valid handshake: the
// ranks do not notice them.
func TestOtherProgramsLoseTheirConnection(t *testing.T) {
	b := &memoryDirectory{addrs: map[int]string{}}
	ms := []*Mesh{open(t, b, 0, 2, "token"), open(t, b, 1, 2, "token")}
	for name, bytes := range map[string][]byte{
		"http":  []byte("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n"),
		"short": newHello(1, laneID{}).encode()[:20],
	} {
		conn, err := net.Dial("tcp", b.addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(bytes)
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if got, err := io.ReadAll(conn); len(got) > 0 || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: answer %q, %v", name, got, err)
		}
		conn.Close()
	}
	for name, c := range map[string]struct {
		token string
		h     hello
	}{
		"wrong token": {"other", newHello(1, laneID{})},
		"wrong rank":  {"token", newHello(1, laneID{rank: 1})},
		"itself":      {"token", newHello(0, laneID{})},
		"no rank":     {"token", newHello(2, laneID{})},
	} {
		if got := answerOf(dialAs(t, b.addrs[0], c.token, c.h)); got != 0 {
			t.Errorf("%s: answer %d", name, got)
		}
	}
	go send(t.Context(), ms[1], 0, call(0), nil)
	if err := recv(t.Context(), ms[0], 1, call(0), nil); err != nil {
		t.Error(err)
	}
}

// TestSilentConnectionsKeepNoRankOut checks that ranks reach each other while another
// program holds more silent connections than there may be handshakes, or opens ever new
// ones.
func TestSilentConnectionsKeepNoRankOut(t *testing.T) {
	for name, c := range map[string]struct {
		from string
		more int // connections that come while the ranks connect
	}{
		"of a rank's address": {"127.0.0.1", 0},
		"of another address":  {"127.0.0.7", 0},
		"ever new ones":       {"127.0.0.7", 2 * maxHandshakes},
	} {
		t.Run(name, func(t *testing.T) {
			b := &memoryDirectory{addrs: map[int]string{}}
			ms := []*Mesh{open(t, b, 0, 2, "token"), open(t, b, 1, 2, "token")}
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}
			dial := func(n int) {
				for i := range 2 * n {
					conn, err := d.Dial("tcp", b.addrs[i%2])
					if err != nil {
						t.Error(err)
						return
					}
					t.Cleanup(func() { conn.Close() })
				}
			}
			dial(maxHandshakes + 50)
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			var more sync.WaitGroup
			more.Go(func() { dial(c.more) })
			go send(ctx, ms[1], 0, call(0), nil)
			if err := recv(ctx, ms[0], 1, call(0), nil); err != nil {
				t.Error(err)
			}
			more.Wait()
		})
	}
}

// TestHandshakeCannotBeReplayed records what a rank says in a good handshake and says it
// again to another rank of the same number.
func TestHandshakeCannotBeReplayed(t *testing.T) {
	h := newHello(1, laneID{})
	var first, second [nonceSize]byte
	second[0] = 1
	if string(proof("token", sideDial, h, first)) == string(proof("token", sideDial, h, second)) {
		t.Error("the proof does not depend on the challenge")
	}
	b := &memoryDirectory{addrs: map[int]string{}}
	open(t, b, 0, 2, "token")
	conn, err := net.Dial("tcp", b.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	conn.Write(h.encode())
	conn.Write(proof("token", sideDial, h, first)) // of an earlier challenge
	if got, err := io.ReadAll(conn); err == nil && len(got) > nonceSize+proofSize {
		t.Error("an earlier proof counts")
	}
}

// TestDiallerWantsAProof checks an acceptor that does not know the token: the rank that
// dials does not prove itself to it.
func TestDiallerWantsAProof(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b := &memoryDirectory{addrs: map[int]string{1: ln.Addr().String()}}
	said := make(chan int, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		var hello [helloSize]byte
		io.ReadFull(conn, hello[:])
		h, _ := parseHello(hello[:], 1, 2)
		conn.Write(append(make([]byte, nonceSize), proof("other", sideAccept, h, [nonceSize]byte{})...))
		more, _ := io.ReadAll(conn)
		said <- len(more)
	}()
	err = send(t.Context(), open(t, b, 0, 2, "token"), 1, call(0), nil)
	if err == nil || !strings.Contains(err.Error(), "does not know the token") {
		t.Errorf("error %v", err)
	}
	if n := <-said; n != 0 {
		t.Errorf("the dialler went on with %d bytes", n)
	}
}

// TestInvalidFrameEndsItsConnection checks a rank that sends invalid frames after the
// handshake.
func TestInvalidFrameEndsItsConnection(t *testing.T) {
	encoded := func(h header) []byte { return h.append(nil) }
	unknown := call(1)
	unknown.Tag = 9
	for name, invalid := range map[string][]byte{
		"text":        []byte(strings.Repeat("invalid ", 20)),
		"long reason": encoded(header{frame: frameBroken, length: 1 << 40}),
		"long bye":    encoded(header{frame: frameBye, length: 1}),
		"wrong size":  encoded(header{frame: frameEager, call: call(0), length: 1 << 60}),
		"no receiver": encoded(header{frame: frameData, call: unknown, length: 8}),
	} {
		t.Run(name, func(t *testing.T) {
			b := &memoryDirectory{addrs: map[int]string{}}
			m := open(t, b, 0, 3, "token")
			conn := dialAs(t, b.addrs[0], "token", newHello(1, laneID{}))
			if answerOf(conn) != answerOK {
				t.Fatal("refused")
			}
			conn.Write(invalid)
			err := within(t, 20*time.Second, func() error { return recv(t.Context(), m, 1, call(0), nil) })
			var peer *collective.PeerError
			if !errors.As(err, &peer) || peer.Rank != 1 {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestMessagesWaitForTheirReceiver sends more than a rank keeps, of all sizes, before the
// other receives in the opposite order: nothing blocks what is received first.
func TestMessagesWaitForTheirReceiver(t *testing.T) {
	ms := meshes(t, 2)
	sizes := []int{0, 1, 1000, eagerMax, eagerMax + 1, 3 << 20}
	const rounds = 8
	var sent []*collective.Message
	w := ms[0].World()
	for i := range rounds * len(sizes) {
		b := make([]byte, sizes[i%len(sizes)])
		for j := range b {
			b[j] = byte(i + j)
		}
		c := call(len(b))
		c.Tag = int32(i)
		msg := &collective.Message{Call: c, Send: true, Peer: 1, Buf: collective.Buffer{Data: b}}
		w.Post(msg)
		sent = append(sent, msg)
	}
	for i := len(sent) - 1; i >= 0; i-- {
		into := make([]byte, len(sent[i].Buf.Data))
		if err := within(t, 20*time.Second, func() error { return recv(t.Context(), ms[1], 0, sent[i].Call, into) }); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if string(into) != string(sent[i].Buf.Data) {
			t.Fatalf("message %d has other bytes", i)
		}
	}
	for i, msg := range sent {
		if err := w.Wait(t.Context(), msg); err != nil {
			t.Fatalf("send %d: %v", i, err)
		}
	}
}

// TestNewsComeWhileMessagesWait checks that a rank which has not received what another
// sent still notices that the other gives up.
func TestNewsComeWhileMessagesWait(t *testing.T) {
	ms := meshes(t, 2)
	if err := send(t.Context(), ms[1], 0, call(1), make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		ms[0].box.mu.Lock()
		defer ms[0].box.mu.Unlock()
		return len(ms[0].box.early) == 1
	})
	ms[1].Break(errors.New("out of luck"))
	waitFor(t, func() bool { return ms[0].Err() != nil })
	if want := "rank 1 gave up: out of luck"; ms[0].Err().Error() != want {
		t.Errorf("reason %v, want %s", ms[0].Err(), want)
	}
}

// TestCloseLosesNothing closes a rank whose message is on its way and that has input
// which it never reads.
func TestCloseLosesNothing(t *testing.T) {
	ms := meshes(t, 2)
	c := collective.Call{Kind: collective.KindBroadcast, Type: collective.Uint8, Count: 8 << 20, Seq: 1}
	worlds := []*Comm{ms[0].World(), ms[1].World()}
	if err := worlds[1].Put(0, &c, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, c.Count)
	big[len(big)-1] = 7
	if err := worlds[0].Put(1, &c, big); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- ms[0].Close() }()
	waitFor(t, func() bool { return ms[0].Err() != nil })
	into := make([]byte, len(big))
	if err := worlds[1].Get(0, &c, into); err != nil || into[len(into)-1] != 7 {
		t.Errorf("what was sent before Close: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestReceiverComesAfterUnblock posts the receive of a long message after its data was asked
// for, and before it comes: the message has its receiver, and Close says so on both ranks.
func TestReceiverComesAfterUnblock(t *testing.T) {
	ms := meshes(t, 2)
	const n = eagerMax + 1
	sent := &collective.Message{Call: call(n), Send: true, Peer: 0, Buf: collective.Buffer{Data: make([]byte, n)}}
	ms[1].World().Post(sent)
	b := &ms[0].box
	offered := func() *arrival {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, a := range b.early {
			return a
		}
		return nil
	}
	waitFor(t, func() bool { return offered() != nil })
	b.mu.Lock()
	b.stuck.timer = time.AfterFunc(time.Hour, b.unblock) // as if this rank waited in a send
	b.stuck.count = 1
	b.mu.Unlock()
	peer, c, ok := b.clearOne()
	if !ok || peer != 1 {
		t.Fatalf("unblock asks for %v of rank %d, %v", c, peer, ok)
	}
	b.countStuck(-1)
	received := &collective.Message{Call: call(n), Peer: 1, Buf: collective.Buffer{Data: make([]byte, n)}}
	ms[0].World().Post(received)
	l, err := ms[0].ready(laneID{rank: peer})
	if err != nil || l == nil {
		t.Fatalf("no lane: %v", err)
	}
	l.send(header{frame: frameClear, call: c}, nil, nil)
	for i, err := range []error{ms[0].World().Wait(t.Context(), received), ms[1].World().Wait(t.Context(), sent), ms[0].Close(), ms[1].Close()} {
		if err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

// TestCloseNamesUnpairedMessages checks both ends: a message that waits for its receiver,
// and one that came and was not received.
func TestCloseNamesUnpairedMessages(t *testing.T) {
	for _, n := range []int{100, eagerMax + 1} {
		ms := meshes(t, 2)
		w := ms[0].World()
		msg := &collective.Message{Call: call(n), Send: true, Peer: 1, Buf: collective.Buffer{Data: make([]byte, n)}}
		w.Post(msg)
		waitFor(t, func() bool {
			ms[1].box.mu.Lock()
			defer ms[1].box.mu.Unlock()
			return len(ms[1].box.early) == 1
		})
		if err := ms[1].Close(); err == nil || !strings.Contains(err.Error(), "rank 1 has closed without receiving what rank 0 sent: send #1") {
			t.Errorf("%d bytes: Close of the receiver: %v", n, err)
		}
		if n > eagerMax {
			if err := w.Wait(t.Context(), msg); err == nil || !strings.Contains(err.Error(), "rank 1 has closed") {
				t.Errorf("%d bytes: the sender: %v", n, err)
			}
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add(newHello(1, laneID{}).encode())
	f.Add(newHello(1, laneID{collective: true, comm: 7}).encode())
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b, 0, 4)
		if err == nil && string(h.encode()) != string(b) {
			t.Errorf("accepted %q as %+v", b, h)
		}
	})
}

func FuzzHeader(f *testing.F) {
	for _, h := range []header{
		{frame: frameEager, call: call(5), length: 40},
		{frame: frameCollective, call: call(5), length: 1 << 30},
		{frame: frameBroken, length: 10},
		{frame: frameHere},
	} {
		f.Add(h.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err != nil {
			return
		}
		if string(h.append(nil)) != string(b) {
			t.Errorf("%+v is not %q", h, b)
		}
		_ = h.call.String()
	})
}

// TestSourcesAnswer asks a rank for the calls of numbers that only a Source knows.
func TestSourcesAnswer(t *testing.T) {
	ms := meshes(t, 2)
	call := collective.Call{Kind: collective.KindSend, Seq: 9, Count: 3}
	stop := ms[1].Answer(func(comm uint64) (collective.Call, bool) { return call, comm == 5 })
	ask := func(comm uint64) collective.Position {
		others := ms[0].World().Others(&collective.Call{Comm: comm}, -1)
		if len(others) != 1 || others[0].Unknown {
			t.Fatalf("answers %+v", others)
		}
		return others[0]
	}
	if at := ask(5); at.Call != call || at.Rank != 1 {
		t.Errorf("a known number: %+v", at)
	}
	if at := ask(6); at.Call.Kind != 0 {
		t.Errorf("an unknown number: %+v", at)
	}
	stop()
	if at := ask(5); at.Call.Kind != 0 {
		t.Errorf("after stop: %+v", at)
	}
}

// TestForgetLeavesNothing makes a call on communicators of two ranks and forgets them, one
// rank before the other has read what it sent.
func TestForgetLeavesNothing(t *testing.T) {
	ms := meshes(t, 2)
	count := func(m *Mesh) [3]int {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.where.mu.Lock()
		defer m.where.mu.Unlock()
		return [3]int{len(m.lanes), len(m.slots), len(m.where.last)}
	}
	sent := make([]byte, 300<<10)
	for i := range sent {
		sent[i] = byte(i % 251)
	}
	var before [2][3]int
	for comm := uint64(1); comm < 6; comm++ {
		call := &collective.Call{Comm: comm, Kind: collective.KindBroadcast, Type: collective.Uint8, Seq: 1, Count: uint64(len(sent))}
		a, b := ms[0].Comm(comm, []int{0, 1}), ms[1].Comm(comm, []int{0, 1})
		first := make(chan error, 1)
		go func() {
			a.Enter(call, -1, false)
			err := a.Put(1, call, sent)
			if err == nil {
				err = a.Flush()
			}
			a.Leave(call, -1)
			ms[0].Forget(comm)
			first <- err
		}()
		got := make([]byte, len(sent))
		b.Enter(call, -1, false)
		time.Sleep(20 * time.Millisecond) // sleep: the sender fills the socket's buffers
		if err := b.Get(0, call, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("communicator %d: received %v", comm, err)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		ms[1].Forget(comm)
		for r, m := range ms {
			if comm == 1 {
				before[r] = count(m)
			} else if n := count(m); n != before[r] {
				t.Errorf("rank %d has lanes, slots and places %v after communicator %d, %v after the first", r, n, comm, before[r])
			}
		}
	}
}
