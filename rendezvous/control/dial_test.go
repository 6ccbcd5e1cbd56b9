package control

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"google.golang.org/grpc"
)

func TestDialFails(t *testing.T) {
	checkLeaks(t)
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	t.Cleanup(func() { web.Close() })
	serve := func(f func(net.Listener)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go f(l)
		return l.Addr().String()
	}
	each := func(f func(net.Conn)) func(net.Listener) {
		return func(l net.Listener) {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go f(c)
			}
		}
	}
	free := serve(func(l net.Listener) { l.Close() })
	other := grpc.NewServer()
	t.Cleanup(other.Stop)
	tests := []struct {
		name, addr, text string
		refused          bool
	}{
		{"nothing", free, "refused", true},
		{"web server", serve(func(l net.Listener) { _ = web.Serve(l) }), "another program", false},
		{"silent port", serve(each(func(c net.Conn) { t.Cleanup(func() { c.Close() }) })), "no gorun answered within", false},
		{"garbage", serve(each(func(c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte("garbage\n"), 100)); c.Close() })), "another program", false},
		{"hangs up", serve(each(func(c net.Conn) { c.Close() })), "another program", false},
		{"another gRPC service", serve(func(l net.Listener) { _ = other.Serve(l) }), "another program", false},
		{"no address", "256.256.256.256:1", "lookup", false},
		{"no port", "127.0.0.1", "missing port", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			opts := shortTimes()
			opts.Dial = 500 * time.Millisecond
			a := start(t, opts)
			began := time.Now()
			a.p.Dial(t.Context(), tt.addr)
			e := await[rendezvous.DialFailed](a, nil)
			if e.Addr != tt.addr || e.Refused != tt.refused || !strings.Contains(e.Text, tt.text) {
				t.Errorf("%+v, want %q, refused %v", e, tt.text, tt.refused)
			}
			if d := time.Since(began); d > opts.Dial+20*time.Second {
				t.Errorf("took %v", d)
			}
			if n := len(a.all()); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// TestGarbageAtThePort checks that other programs disturb no stream.
func TestGarbageAtThePort(t *testing.T) {
	checkLeaks(t)
	a, b := start(t, shortTimes()), start(t, shortTimes())
	at, in := pair(a, b, b.addr, "hi")
	noise := make([]byte, 64<<10)
	_, _ = rand.Read(noise)
	for i, junk := range [][]byte{
		nil, noise, []byte("GET / HTTP/1.1\r\n\r\n"), []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), noise...), bytes.Repeat([]byte{0}, 1<<16),
	} {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // some stay open
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := c.Write(junk); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Logf("junk %d: %v", i, err)
		}
	}
	a.sendAll(at)
	await(b, func(r rendezvous.Received) bool { return r.Conn == in && r.Msg.Text == fmt.Sprint("n", burst-1) })
	b.wantAll(in, 1)
	if n := len(b.all()); n != burst+1 {
		t.Errorf("%d events", n)
	}
}

func TestDialAfterTheEnd(t *testing.T) {
	a, b := start(t, shortTimes()), start(t, shortTimes())
	a.stop()
	a.p.Dial(t.Context(), b.addr)
	if e := await[rendezvous.DialFailed](a, nil); e.Refused {
		t.Errorf("%+v", e)
	}
}
