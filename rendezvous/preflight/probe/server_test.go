package probe

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/accept"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// send sends the server bytes and returns all that it answers until it closes.
func send(t *testing.T, to string, data []byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testTimeout))
	if _, err := c.Write(data); err != nil {
		return nil // closed meanwhile
	}
	got, err := io.ReadAll(c)
	if err, ok := err.(net.Error); ok && err.Timeout() {
		t.Fatal("the server neither answers nor closes")
	}
	return got
}

func TestHostileClientsGetNoAnswer(t *testing.T) {
	o := shortOptions("b")
	s := serve(t, o, "127.0.0.1")
	good := target(s, 0)
	key := o.key()
	big := newHello("a", maxPayload+1)
	cases := map[string][]byte{
		"nothing":          {},
		"http":             []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat(" ", 100)),
		"half a hello":     newHello("a", 0).encode(key)[:20],
		"another key":      newHello("a", 0).encode([]byte("other")),
		"a long id":        newHello(strings.Repeat("x", maxID+1), 0).encode(key),
		"a large payload":  big.encode(key),
		"an announced id":  append([]byte(magic), bytes.Repeat([]byte{0xff}, 100)...),
		"no payload comes": nil,
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := 0
			if name == "no payload comes" {
				h := newHello("a", payload)
				data, want = h.encode(key), len(reply{"b", host(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}), 0}.encode(key, h.nonce))
			}
			if got := send(t, good.Target, data); len(got) != want {
				t.Errorf("%d bytes of an answer, want %d", len(got), want)
			}
			if r := runOne(t, longOptions("a"), good); r.Result != preflight.OK {
				t.Errorf("the next client: %+v", r)
			}
		})
	}
}

// TestIdleConnectionsMakeRoom checks that connections that send nothing make
// room for the nodes' connections.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	o := longOptions("b")
	o.Pool = accept.NewPool(accept.Bounds{Unproven: 4, PerSource: 2, Proof: time.Hour, Grace: time.Nanosecond})
	s := serve(t, o, "127.0.0.1")
	g := target(s, 0)
	for range 10 {
		c, err := net.Dial("tcp", g.Target)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 5 {
		if r := runOne(t, longOptions("a"), g); r.Result != preflight.OK {
			t.Errorf("%+v", r)
		}
	}
}

func TestServerStopsWithItsOwner(t *testing.T) {
	o := Options{Key: "job 1", ID: "b", Exchange: time.Hour}
	s, errs := Listen(o, []Address{{"lo", "127.0.0.1", preflight.UseData}}, Ports{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(ctx) }()
	c, err := net.Dial("tcp", target(s, 0).Target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := newHello("a", payload)
	if _, err := c.Write(h.encode(o.key())); err != nil {
		t.Fatal(err)
	}
	if _, err := readReply(c, o.key(), h.nonce); err != nil { // the server serves it now
		t.Fatal(err)
	}
	cancel()
	select {
	case <-done:
	case <-time.After(testTimeout):
		t.Fatal("a client holds the server up")
	}
	if _, err := net.Dial("tcp", target(s, 0).Target); err == nil {
		t.Error("the port is still open")
	}
}

func TestListen(t *testing.T) {
	addrs := []Address{
		{"lo", "127.0.0.1", preflight.UseBootstrap},
		{"lo", "127.0.0.1", preflight.UseData},
		{"eth7", "203.0.113.9", preflight.UseData},
		{"all", "0.0.0.0", preflight.UseData},
		{"none", "host", preflight.UseData},
	}
	s, errs := Listen(Options{}, addrs, Ports{})
	defer s.Close()
	got := s.Listeners()
	if len(got) != 2 || got[0].Use != preflight.UseBootstrap || got[1].Use != preflight.UseData || len(got[0].Ports) != 1 {
		t.Errorf("%+v", got)
	}
	if len(errs) != 3 || !strings.Contains(errs[0].Error(), "203.0.113.9 (eth7)") || !strings.Contains(errs[0].Error(), "cannot assign") {
		t.Errorf("%v", errs)
	}

	// A range of one port serves every use of an address, but not two nodes.
	only := Ports{Lo: got[0].Port, Hi: got[0].Port}
	s.Close()
	s, errs = Listen(Options{}, addrs[:2], only)
	defer s.Close()
	if got := s.Listeners(); len(errs) > 0 || len(got) != 2 || got[0].Port != only.Lo || got[1].Port != only.Lo {
		t.Errorf("%v, %v", got, errs)
	}
	s2, errs := Listen(Options{}, addrs[:1], only)
	s2.Close()
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "no port of") {
		t.Errorf("%v", errs)
	}
}

// TestPortsAreSpread checks that the ports of an address are spread over the
// whole range, the kernel's or the range that the user gave, and leave
// enough ports of a small range to other programs.
func TestPortsAreSpread(t *testing.T) {
	addrs := []Address{{"lo", "127.0.0.1", preflight.UseBootstrap}, {"lo", "127.0.0.1", preflight.UseData}}
	reserved := [][2]int{{32768, 34000}, {50000, 54000}}
	for _, c := range []struct {
		ports Ports
		count int
	}{
		{Ports{Lo: 32768, Hi: 60999}, 16},
		{Ports{Lo: 42000, Hi: 42099}, 12},
		{Ports{Lo: 42000, Hi: 42009}, 1},
	} {
		s, errs := Listen(Options{}, addrs, c.ports)
		got := s.Listeners()
		s.Close()
		if len(errs) > 0 || len(got) != 2 || len(got[0].Ports) != c.count {
			t.Fatalf("%+v: %+v, %v", c, got, errs)
		}
		if c.count > 1 && got[0].Port == got[1].Port {
			t.Errorf("%+v: both uses begin at %d", c, got[0].Port)
		}
		size := c.ports.Hi - c.ports.Lo + 1
		for k, port := range got[0].Ports {
			if part := (port - c.ports.Lo) * c.count / size; part != k && part != k-1 && part != k+1 {
				t.Errorf("%+v: port %d is not in part %d", c, port, k)
			}
		}
	}
	s, errs := Listen(Options{}, addrs[:1], Ports{Lo: 32768, Hi: 60999, Reserved: reserved})
	s.Close()
	for _, port := range s.Listeners()[0].Ports {
		if port <= 34000 || port >= 50000 && port <= 54000 {
			t.Errorf("port %d is reserved", port)
		}
	}
	if len(errs) > 0 || len(s.Listeners()[0].Ports) < 12 {
		t.Errorf("%+v, %v", s.Listeners(), errs)
	}
}
