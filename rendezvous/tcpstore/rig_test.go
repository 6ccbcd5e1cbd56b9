package tcpstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// patience bounds every wait of the tests for something that must happen.
const patience = time.Minute

// start serves a fresh store on 127.0.0.1 until the test ends.
func start(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := New(o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve did not return")
		}
		if st := s.Stats(); st.Connections != 0 || st.Waiting != 0 {
			t.Errorf("after Serve: %+v", st)
		}
	})
	return s, l.Addr().String()
}

// client is a connection that sends and expects raw bytes.
type client struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &client{t, nc}
}

// dialModern dials and sends the frame that opens a modern connection.
func dialModern(t testing.TB, addr string) *client {
	t.Helper()
	c := dial(t, addr)
	c.send([]byte{0x00, 0xCE, 0xF7, 0x85, 0x3C})
	return c
}

func (c *client) send(p []byte) {
	c.t.Helper()
	if _, err := c.Write(p); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(want []byte) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(want))
	n, err := io.ReadFull(c, got)
	if err != nil || !bytes.Equal(got, want) {
		c.t.Fatalf("got % x (%v), want % x", got[:n], err, want)
	}
}

func (c *client) call(req, want []byte) {
	c.t.Helper()
	c.send(req)
	c.expect(want)
}

// expectEnd fails if the connection sends anything before its end.
func (c *client) expectEnd() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	n, err := io.Copy(io.Discard, c)
	if ne, ok := err.(net.Error); n != 0 || ok && ne.Timeout() {
		c.t.Fatalf("got %d more bytes (%v), want the end", n, err)
	}
}

// frame returns a command code and its fields: string and []byte with a length
// before them, numbers as they are.
func frame(code byte, fields ...any) []byte { return append([]byte{code}, encode(fields...)...) }

func encode(fields ...any) (p []byte) {
	for _, f := range fields {
		switch v := f.(type) {
		case byte:
			p = append(p, v)
		case uint32:
			p = binary.LittleEndian.AppendUint32(p, v)
		case int: // a 64-bit number
			p = binary.LittleEndian.AppendUint64(p, uint64(v))
		case string:
			p = binary.LittleEndian.AppendUint64(p, uint64(len(v)))
			p = append(p, v...)
		default:
			panic(fmt.Sprintf("encode: %T is no field", v))
		}
	}
	return p
}

// until polls a condition.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) { // sleep: between two polls
		if time.Now().After(end) {
			t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// awaitWaiting waits until n clients wait.
func awaitWaiting(t testing.TB, s *Server, n int) {
	t.Helper()
	until(t, "clients that wait", func() bool { return s.Stats().Waiting == n })
}
