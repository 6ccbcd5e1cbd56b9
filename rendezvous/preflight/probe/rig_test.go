package probe

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// testTimeout bounds the wait for a condition before the test fails.
const testTimeout = 20 * time.Second

// longOptions returns options whose deadlines do not pass.
func longOptions(id string) Options {
	return Options{Key: "job 1", ID: id, Connect: testTimeout, Exchange: testTimeout, Total: 3 * testTimeout}
}

// shortOptions returns options whose exchange ends in a time that a test can
// wait for.
func shortOptions(id string) Options {
	o := longOptions(id)
	o.Exchange = 300 * time.Millisecond
	return o
}

// serve starts a server on addresses of this machine and stops it with the
// test.
func serve(t testing.TB, o Options, ips ...string) *Server {
	t.Helper()
	var addrs []Address
	for _, ip := range ips {
		addrs = append(addrs, Address{Iface: "lo", IP: ip, Use: preflight.UseBootstrap})
	}
	s, errs := Listen(o, addrs, Ports{})
	for _, err := range errs {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(testTimeout):
			t.Error("the server does not stop with its owner")
		}
	})
	return s
}

// target returns the probe from 127.0.0.1 to the i-th listener.
func target(s *Server, i int) Target {
	l := s.Listeners()[i]
	return Target{
		To: 1, ID: s.options.ID, Use: l.Use, Iface: "lo", Source: "127.0.0.1",
		Target: net.JoinHostPort(l.Addr, strconv.Itoa(l.Port)), Large: true,
	}
}

// runOne runs a single probe.
func runOne(t testing.TB, o Options, g Target) preflight.Probe {
	t.Helper()
	got := Run(t.Context(), o, Plan{Targets: []Target{g}})
	if len(got) != 1 {
		t.Fatalf("%d results of one probe", len(got))
	}
	return got[0]
}

// impostor accepts connections and passes them to f.
func impostor(t testing.TB, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(testTimeout))
				f(c)
			}()
		}
	}()
	return l.Addr().String()
}
