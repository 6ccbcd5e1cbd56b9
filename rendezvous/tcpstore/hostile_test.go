package tcpstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/accept"
)

func TestBadInputEndsTheConnection(t *testing.T) {
	modern := []byte{0x00, 0xCE, 0xF7, 0x85, 0x3C}
	for name, tc := range map[string]struct {
		modern bool
		send   []byte
		why    string
	}{
		"HTTP":               {false, []byte("GET / HTTP/1.1\r\n\r\n"), "unknown command 71"},
		"TLS":                {false, []byte{0x16, 3, 1, 2, 0}, "unknown command 22"},
		"legacy code":        {false, frame(13), "unknown command 13"},
		"modern code":        {true, frame(17), "unknown command 17"},
		"second VALIDATE":    {true, modern, "unknown command 0"},
		"nearly VALIDATE":    {false, []byte{0x00, 0xCE, 0xF7, 0x85, 0x3D, 0, 0, 0, 0}, "bytes of a key"},
		"long key":           {true, frame(3, MaxKey+1), "announced 8193 bytes of a key, at most 8192"},
		"negative key":       {true, frame(3, -1), "bytes of a key"},
		"long value":         {true, frame(1, "k", MaxValue+1), "bytes of a value"},
		"many keys, CHECK":   {true, frame(5, MaxKeys+1), "keys"},
		"many keys, WAIT":    {true, frame(6, -1), "keys"},
		"many keys, GET":     {true, frame(10, MaxKeys+1), "keys"},
		"many keys, SET":     {true, frame(11, MaxKeys+1), "keys"},
		"ADD to text":        {true, append(frame(1, "n", "x"), frame(4, "n", 1)...), "not a 64-bit decimal number"},
		"ADD to nothing":     {true, append(frame(1, "n", ""), frame(4, "n", 1)...), "not a 64-bit decimal number"},
		"ADD to a huge":      {true, append(frame(1, "n", strings.Repeat("9", 30)), frame(4, "n", 1)...), "not a 64-bit"},
		"half a frame":       {true, frame(1, "k", 100), "half a request"},
		"half a first frame": {false, []byte{0x00, 0xCE}, "half a request"},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := start(t, Options{FrameTimeout: 50 * time.Millisecond})
			other := dialModern(t, addr)
			other.call(frame(4, "o", 1), encode(1))
			c := dial(t, addr)
			if tc.modern {
				c.send(modern)
			}
			c.send(tc.send)
			c.expectEnd()
			until(t, "a rejection", func() bool { return s.Stats().Rejected == 1 })
			if err := s.Stats().LastRejection; !strings.Contains(err.Error(), tc.why) || !strings.Contains(err.Error(), c.LocalAddr().String()) {
				t.Errorf("got %q, want %q", err, tc.why)
			}
			other.call(frame(4, "o", 1), encode(2))
		})
	}
}

// TestLeavingIsNoRejection checks that a peer which leaves in the middle of a
// request does not count as rejected, because a crash looks like that.
func TestLeavingIsNoRejection(t *testing.T) {
	s, addr := start(t, Options{})
	c := dialModern(t, addr)
	c.send(frame(1, "k", "value")[:7])
	until(t, "the connection", func() bool { return s.Stats().Connections == 1 })
	c.Close()
	until(t, "the end", func() bool { return s.Stats().Connections == 0 })
	if st := s.Stats(); st.Rejected != 0 || st.Bytes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestAnnouncedIsNotAllocated(t *testing.T) {
	const conns = 50
	s, addr := start(t, Options{})
	for range conns {
		c := dialModern(t, addr)
		c.send(append(frame(1, "k", MaxValue), make([]byte, 100)...))
	}
	until(t, "all to be in the middle of a frame", func() bool { return s.Stats().Bytes >= conns*firstChunk })
	if b := s.Stats().Bytes; b > conns*2*firstChunk {
		t.Errorf("%d bytes are charged for %d bytes that arrived", b, conns*100)
	}
}

func TestMaxBytesBoundsEveryCommand(t *testing.T) {
	value := strings.Repeat("v", 100<<10)
	keys := []any{100}
	for range 100 {
		keys = append(keys, value[:MaxKey])
	}
	pairs := []any{20}
	for range 20 {
		pairs = append(pairs, "k", value)
	}
	for name, req := range map[string]func(i byte) []byte{
		"SET":        func(i byte) []byte { return frame(1, string(rune('a'+i)), value) },
		"APPEND":     func(byte) []byte { return frame(9, "k", value) },
		"QUEUE_PUSH": func(byte) []byte { return frame(14, "q", value) },
		// 1.6 MB while being read and 0.8 MB while being waited for.
		"WAIT":      func(byte) []byte { return frame(6, keys...) },
		"MULTI_SET": func(byte) []byte { return frame(11, pairs...) },
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 1 << 20
			s, addr := start(t, Options{MaxBytes: limit})
			c := dialModern(t, addr)
			for i := byte(0); i < 20 && s.Stats().Rejected == 0; i++ {
				if _, err := c.Write(req(i)); err != nil {
					break
				}
			}
			until(t, "a rejection", func() bool { return s.Stats().Rejected == 1 })
			if err := s.Stats().LastRejection; !errors.Is(err, errFull) {
				t.Error(err)
			}
			if b := s.Stats().Bytes; b > limit {
				t.Errorf("%d bytes are charged", b)
			}
			dialModern(t, addr).call(frame(4, "n", 1), encode(1)) // other clients are still served
		})
	}
}

func TestMaxClientsBoundsConnections(t *testing.T) {
	s, addr := start(t, Options{MaxClients: 2})
	a, b := dialModern(t, addr), dialModern(t, addr)
	a.call(frame(7), encode(0))
	b.call(frame(7), encode(0))
	dial(t, addr).expectEnd()
	a.Close()
	until(t, "a free place", func() bool { return s.Stats().Connections == 1 })
	dialModern(t, addr).call(frame(7), encode(0))
}

// TestClientThatNeverReadsIsClosed checks that a client which sends requests and
// never reads loses its connection, and that other clients are served meanwhile
// and afterwards.
func TestClientThatNeverReadsIsClosed(t *testing.T) {
	s, addr := start(t, Options{WriteTimeout: 300 * time.Millisecond})
	other := dialModern(t, addr)
	other.call(append(frame(1, "k", strings.Repeat("v", MaxValue)), frame(7)...), encode(1))
	silent := dialModern(t, addr)
	silent.send(bytes.Repeat(frame(3, "k"), 10))
	until(t, "the end of the connection", func() bool {
		other.call(frame(4, "n", 0), encode(0))
		return s.Stats().Rejected == 1
	})
	if err := s.Stats().LastRejection; !strings.Contains(err.Error(), errNotReading.Error()) {
		t.Error(err)
	}
	other.call(frame(7), encode(2))
}

func TestWatcherThatNeverReadsIsClosed(t *testing.T) {
	s, addr := start(t, Options{WriteTimeout: 200 * time.Millisecond})
	w, c := dial(t, addr), dialModern(t, addr)
	w.call(frame(7, "k"), []byte{watchRegistered})
	value := strings.Repeat("v", MaxValue)
	for range 5 {
		c.call(append(frame(1, "k", value), frame(7)...), encode(1))
	}
	until(t, "the watcher's end", func() bool { return s.Stats().Connections == 1 })
	until(t, "its bytes back", func() bool { return s.Stats().Bytes == MaxValue+1+entryOverhead })
}

// TestClientFromAnotherAddressIsRefused checks that Options.Allow decides, and that
// Options.Refused gets the address.
func TestClientFromAnotherAddressIsRefused(t *testing.T) {
	refused := make(chan netip.Addr, 10)
	s, addr := start(t, Options{
		Allow:   func(ip netip.Addr) bool { return ip == netip.MustParseAddr("127.0.0.1") },
		Refused: func(ip netip.Addr) { refused <- ip },
	})
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	nc, err := dialer.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	(&client{t, nc}).expectEnd()
	select {
	case ip := <-refused:
		if ip.String() != "127.0.0.9" {
			t.Errorf("%s is refused", ip)
		}
	case <-time.After(patience):
		t.Fatal("Options.Refused is not called")
	}
	dialModern(t, addr).call(frame(7), encode(0))
	if st := s.Stats(); st.Rejected != 1 || st.Accepted != 1 {
		t.Errorf("%+v", st)
	}
}

// TestSilentClientsMakeRoom checks that the oldest silent connections make room,
// and that connections which have sent a request stay.
func TestSilentClientsMakeRoom(t *testing.T) {
	pool := accept.NewPool(accept.Bounds{Total: 8, Unproven: 4, PerSource: 4, Proof: time.Millisecond, Grace: time.Nanosecond})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(Options{}).Serve(ctx, pool.Listen(l)) }()
	defer func() { cancel(); <-done }()
	first := dialModern(t, l.Addr().String())
	first.call(frame(7), encode(0))
	legacy := dial(t, l.Addr().String()) // for callbacks
	second := dialModern(t, l.Addr().String())
	second.call(frame(7), encode(0))
	legacy.call(frame(6), encode(0)) // as torch 1.13 numbers it: the silent connection is still open
	for range 20 {
		dial(t, l.Addr().String())
	}
	for range 4 {
		dialModern(t, l.Addr().String()).call(frame(7), encode(0))
	}
	first.call(frame(7), encode(0))
	second.call(frame(7), encode(0))
}
