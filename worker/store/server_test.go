package store

import (
	"bytes"
	"io"
	"net"
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
