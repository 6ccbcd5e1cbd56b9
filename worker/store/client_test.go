package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/tcpstore"
)

// serveStore serves gorun's own store on a loopback port until the test ends.
func serveStore(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- tcpstore.New(tcpstore.Options{}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// eachStore plays a test with gorun's store and with the one of this package.
func eachStore(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("gorun's", func(t *testing.T) { test(t, serveStore(t)) })
	t.Run("rank 0's", func(t *testing.T) { test(t, serveOwn(t)) })
}

func serveOwn(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(ln)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func dial(t *testing.T, addr string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCalls(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		ctx := t.Context()
		c := dial(t, addr)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(c.Set(ctx, "a", []byte("1")))
		v, err := c.Get(ctx, "a")
		must(err)
		if string(v) != "1" {
			t.Errorf("Get = %q", v)
		}
		must(c.Append(ctx, "a", []byte("23")))
		if v, err = c.Get(ctx, "a"); err != nil || string(v) != "123" {
			t.Errorf("after Append: %q, %v", v, err)
		}
		if n, err := c.Add(ctx, "n", -5); err != nil || n != -5 {
			t.Errorf("Add = %d, %v", n, err)
		}
		if n, err := c.Add(ctx, "n", 7); err != nil || n != 2 {
			t.Errorf("Add = %d, %v", n, err)
		}
		if ok, err := c.Check(ctx, "a", "n"); err != nil || !ok {
			t.Errorf("Check(a, n) = %v, %v", ok, err)
		}
		if ok, err := c.Check(ctx, "a", "no"); err != nil || ok {
			t.Errorf("Check(a, no) = %v, %v", ok, err)
		}
		if n, err := c.NumKeys(ctx); err != nil || n != 2 {
			t.Errorf("NumKeys = %d, %v", n, err)
		}
		for _, tc := range []struct{ key, expected, desired, want string }{
			{"c", "x", "y", "x"}, // missing, expected given: expected back, nothing set
			{"c", "", "one", "one"},
			{"c", "zero", "two", "one"},
			{"c", "one", "two", "two"},
		} {
			v, err := c.CompareSet(ctx, tc.key, []byte(tc.expected), []byte(tc.desired))
			if err != nil || string(v) != tc.want {
				t.Errorf("CompareSet(%v) = %q, %v", tc, v, err)
			}
		}
		if ok, err := c.Delete(ctx, "c"); err != nil || !ok {
			t.Errorf("Delete = %v, %v", ok, err)
		}
		if ok, err := c.Delete(ctx, "c"); err != nil || ok {
			t.Errorf("Delete of a missing key = %v, %v", ok, err)
		}
		must(c.Wait(ctx))
		if err := c.Set(ctx, strings.Repeat("k", MaxKey+1), nil); err == nil {
			t.Error("a key that is too long was taken")
		}
		must(c.Set(ctx, "still", []byte("alive")))
	})
}

func TestGetWaitsForTheKey(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		a, b := dial(t, addr), dial(t, addr)
		got := make(chan string, 1)
		go func() {
			v, err := a.Get(t.Context(), "late")
			got <- string(v) + errText(err)
		}()
		if err := b.Set(t.Context(), "late", []byte("here")); err != nil {
			t.Fatal(err)
		}
		if v := <-got; v != "here" {
			t.Errorf("Get = %q", v)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCancelReturnsAtOnceWithTheCause(t *testing.T) {
	eachStore(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		why := errors.New("the job is over")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 2)
		for range 2 { // the second one waits for its turn
			go func() { got <- c.Wait(ctx, "never") }()
		}
		cancel(why)
		for range 2 {
			select {
			case err := <-got:
				if !errors.Is(err, why) {
					t.Errorf("error %v does not carry the cause", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("still waiting after cancel")
			}
		}
	})
}

func TestClientIsUselessAfterACancelledRequest(t *testing.T) {
	c := dial(t, serveStore(t))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := c.Wait(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait = %v", err)
	}
	if err := c.Set(t.Context(), "a", nil); err == nil {
		t.Fatal("a call after a cancelled one was sent")
	}
}

// serve answers each connection with reply, after the PING if greet is true.
func serve(t *testing.T, sendHello bool, reply []byte) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
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
			hello := make([]byte, 10)
			io.ReadFull(conn, hello)
			if sendHello {
				conn.Write(hello[6:])
			}
			conn.Write(reply)
			conn.Close()
		}
	}()
	return ln.Addr().String()
}

// TestLegacyDialect makes the calls of a worker as a client of torch 1.13 would.
func TestLegacyDialect(t *testing.T) {
	ctx := t.Context()
	c, err := connect(ctx, serveStore(t), true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Set(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(ctx, "k"); string(v) != "v" || err != nil {
		t.Errorf("Get = %q, %v", v, err)
	}
	if n, err := c.Add(ctx, "n", 3); n != 3 || err != nil {
		t.Errorf("Add = %d, %v", n, err)
	}
	if v, err := c.CompareSet(ctx, "new", nil, []byte("x")); string(v) != "x" || err != nil {
		t.Errorf("CompareSet = %q, %v", v, err)
	}
	if there, err := c.Check(ctx, "k", "none"); there || err != nil {
		t.Errorf("Check = %v, %v", there, err)
	}
	if gone, err := c.Delete(ctx, "k"); !gone || err != nil {
		t.Errorf("Delete = %v, %v", gone, err)
	}
}

func TestHostileRepliesGiveErrors(t *testing.T) {
	if _, err := Dial(t.Context(), serve(t, false, []byte("HTTP/1.1 400 Bad Request\r\n"))); err == nil ||
		!strings.Contains(err.Error(), "TCPStore") {
		t.Errorf("Dial to a web server: %v", err)
	}
	if _, err := Dial(t.Context(), serve(t, false, nil)); err == nil {
		t.Error("Dial to a closed connection succeeded")
	}
	huge := append([]byte{0}, binary.LittleEndian.AppendUint64(nil, 1<<60)...)
	for name, reply := range map[string][]byte{"huge": huge, "short": {0, 9, 0, 0, 0, 0, 0, 0, 0, 'x'}, "bad wait": {7}} {
		c := dial(t, serve(t, true, reply))
		if v, err := c.Get(t.Context(), "k"); err == nil {
			t.Errorf("%s: Get = %q without error", name, v)
		}
	}
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'})
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := readBytes(bufio.NewReader(bytes.NewReader(b)), nil)
		if err == nil && !bytes.Equal(v, b[8:8+len(v)]) {
			t.Errorf("read %q from %q", v, b)
		}
		if len(v) > MaxValue {
			t.Errorf("%d bytes", len(v))
		}
	})
}
