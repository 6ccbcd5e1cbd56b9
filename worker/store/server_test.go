package store

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"testing"
	"time"
)

// TestServerEndsBadSessions checks that a connection ends that sends what no client sends.
func TestServerEndsBadSessions(t *testing.T) {
	addr := serveOwn(t)
	hello := newRequest(cmdValidate).u32(magic).b
	for name, sent := range map[string][]byte{
		"no hello":         newRequest(cmdGet).key("a").b,
		"wrong magic":      newRequest(cmdValidate).u32(1).b,
		"two hellos":       append(bytes.Clone(hello), hello...),
		"unknown command":  append(bytes.Clone(hello), 99),
		"a long key":       append(bytes.Clone(hello), newRequest(cmdGet).bytes(make([]byte, MaxKey+1)).b...),
		"a long value":     append(bytes.Clone(hello), newRequest(cmdSet).key("a").u64(MaxValue+1).b...),
		"too many keys":    append(bytes.Clone(hello), newRequest(cmdWait).u64(MaxKeys+1).b...),
		"too long keys":    append(bytes.Clone(hello), newRequest(cmdWait).keys(manyKeys()).b...),
		"text in a wait":   append(bytes.Clone(hello), newRequest(cmdWait).keys([]string{"none"}).b...),
		"a negative count": append(bytes.Clone(hello), newRequest(cmdCheck).u64(1<<63).b...),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			go func() {
				_, _ = conn.Write(sent)
				_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			}()
			if _, err := io.Copy(io.Discard, conn); err != nil && !isReset(err) {
				t.Errorf("the connection did not end: %v", err)
			}
		})
	}
	c := dial(t, addr) // the others go on
	if err := c.Set(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
}

func manyKeys() []string {
	keys := make([]string, MaxValue/MaxKey+2)
	for i := range keys {
		keys[i] = string(make([]byte, MaxKey))
	}
	return keys
}

func isReset(err error) bool {
	e, ok := err.(net.Error)
	return !ok || !e.Timeout()
}

// TestServerIsFull checks that the store refuses what is too much in all.
func TestServerIsFull(t *testing.T) {
	c := dial(t, serveOwn(t))
	ctx, big := t.Context(), make([]byte, MaxValue)
	var err error
	for i := 0; i <= maxStored/MaxValue && err == nil; i++ {
		if err = c.Set(ctx, string(rune('a'+i)), big); err == nil {
			_, err = c.NumKeys(ctx) // the set has arrived
		}
	}
	if err == nil {
		t.Error("the store took more than its limit")
	}
}

// TestServerCountsSmallKeys checks that many keys without values fill the store, too.
func TestServerCountsSmallKeys(t *testing.T) {
	s := &Server{values: map[string][]byte{}, changed: make(chan struct{})}
	var err error
	n := 0
	for ; err == nil && n < maxStored/entryCost; n++ {
		_, err = s.put(strconv.Itoa(n), nil)
	}
	if err == nil {
		t.Errorf("the store took %d keys", n)
	}
	for i := range n {
		s.remove(strconv.Itoa(i))
	}
	if s.stored != 0 {
		t.Errorf("an empty store counts %d bytes", s.stored)
	}
}

// TestServerBoundsWhatIsUnderWay checks that clients which begin long requests, or do not
// read long replies, take a bounded memory of the store, which is free when they have gone.
func TestServerBoundsWhatIsUnderWay(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(ln)
	defer s.Close()
	hello := newRequest(cmdValidate).u32(magic).b
	long := append(bytes.Clone(hello), newRequest(cmdSet).key("a").bytes(make([]byte, MaxValue)).b[:MaxValue]...)
	var conns []net.Conn
	refused := false
	for i := 0; i < 2*maxUnderWay/MaxValue && !refused; i++ {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, err = conn.Write(long)
		refused = err != nil
	}
	s.mu.Lock()
	if s.underWay > maxUnderWay || !refused {
		t.Errorf("%d connections have %d bytes under way, refused: %v", len(conns), s.underWay, refused)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	for end := time.Now().Add(10 * time.Second); ; {
		s.mu.Lock()
		left := s.underWay
		s.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes are under way after all have gone", left)
		}
		<-time.After(time.Millisecond)
	}
}

// FuzzServer checks that no request stops the server.
func FuzzServer(f *testing.F) {
	hello := newRequest(cmdValidate).u32(magic).b
	f.Add(append(bytes.Clone(hello), newRequest(cmdSet).key("a").bytes([]byte("b")).b...))
	f.Add(append(bytes.Clone(hello), newRequest(cmdAdd).key("a").u64(1).b...))
	f.Add(append(bytes.Clone(hello), newRequest(cmdWait).keys([]string{"a", "b"}).b...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := &Server{values: map[string][]byte{}, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			_ = s.session(there)
			there.Close()
			close(done)
		}()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		_ = here.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, _ = here.Write(sent)
		here.Close()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("the session goes on after its client has gone")
		}
	})
}
