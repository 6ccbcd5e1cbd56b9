package portshare

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/leaktest"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// serve shares a loopback port until the test ends.
func serve(t *testing.T) (s *Share, stop func()) {
	t.Helper()
	leaktest.Check(t, "portshare.(")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = New(l)
	s.Beginning('G')
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Serve does not end")
		}
	})
	t.Cleanup(stop)
	return s, stop
}

func dial(t *testing.T, s *Share, say string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write([]byte(say)); err != nil {
		t.Fatal(err)
	}
	return c
}

// answer accepts one connection, reads n bytes and sends them back.
func answer(t *testing.T, l net.Listener, n int) string {
	t.Helper()
	type result struct {
		text string
		err  error
	}
	got := make(chan result, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- result{err: err}
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		b := make([]byte, n)
		_, err = io.ReadFull(c, b)
		_, _ = c.Write(b)
		got <- result{string(b), err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.text
	case <-time.After(20 * time.Second):
		t.Fatal("no connection came")
		return ""
	}
}

func TestConnectionsAreSorted(t *testing.T) {
	s, _ := serve(t)
	others := s.Others()
	long := strings.Repeat("0123456789", 1000)
	tests := []struct {
		name, say string
		to        net.Listener
	}{
		{"gRPC", preface, s.GRPC()},
		{"gRPC and more", preface + long, s.GRPC()},
		{"store", "\x00\x3c\x85\xf7\x3c", others}, // torch's VALIDATE query with its magic number
		{"store, much at once", "\x01" + long, others},
		{"one byte", "\x08", others},
		{"the named protocol", "GORUN " + long, s.extra},
		{"gRPC over TLS", "\x16\x03\x01" + long, s.GRPC()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, s, tt.say)
			if got := answer(t, tt.to, len(tt.say)); got != tt.say {
				t.Errorf("%.40q came as %.40q", tt.say, got)
			}
			back, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(back, []byte(tt.say)) {
				t.Errorf("%.40q came back (%v)", back, err)
			}
		})
	}
}

// TestSilentConnections checks that silent connections hold up neither the others nor
// the end.
func TestSilentConnections(t *testing.T) {
	s, stop := serve(t)
	others := s.Others()
	var silent []net.Conn
	for range 100 {
		silent = append(silent, dial(t, s, ""))
	}
	closed := dial(t, s, "")
	closed.Close()
	dial(t, s, "\x00")
	answer(t, others, 1)
	stop()
	for _, c := range silent {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("a silent connection outlives Serve")
		}
	}
}

// TestOthersReplacesItsListener checks that a new listener closes the old one and gets what comes
// next.
func TestOthersReplacesItsListener(t *testing.T) {
	s, _ := serve(t)
	old := s.Others()
	waiting := make(chan error, 1)
	go func() {
		_, err := old.Accept()
		waiting <- err
	}()
	next := s.Others()
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the old listener: %v", err)
	}
	dial(t, s, "\x01")
	if got := answer(t, next, 1); got != "\x01" {
		t.Errorf("%q", got)
	}
	// Between two stores no listener accepts, so the connection is refused by closing
	// it.
	next.Close()
	c := dial(t, s, "\x01")
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection to a closed listener: %v", err)
	}
	dial(t, s, "\x02")
	dial(t, s, preface)
	answer(t, s.GRPC(), len(preface)) // the other half is not affected
}

func TestEndClosesListeners(t *testing.T) {
	t.Run("by the context", func(t *testing.T) {
		s, stop := serve(t)
		others := s.Others()
		stuck := dial(t, s, "\x00") // sorted, but never accepted
		stop()
		for _, l := range []net.Listener{s.GRPC(), others} {
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if _, err := stuck.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that was not accepted stays open")
		}
	})
	t.Run("by the port", func(t *testing.T) {
		s, _ := serve(t)
		s.l.Close()
		if _, err := s.GRPC().Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}
