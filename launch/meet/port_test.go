package meet

import (
	"net"
	"strconv"
	"testing"

	"github.com/gorun/gorun/internal/porttest"
	"github.com/gorun/gorun/launch/spec"
)

// TestListenNear checks that a default port that is taken is no error.
func TestListenNear(t *testing.T) {
	port := porttest.Free(t, "127.0.0.1")
	first, err := listenNear("127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := listenNear("127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if want := strconv.Itoa(port); portOf(first) != want || portOf(second) == want {
		t.Errorf("ports %s and %s, want %s and another one", portOf(first), portOf(second), want)
	}
}

// TestHoldPort checks that a held port is free for a server that reuses addresses, as
// torch's store does, and for nothing else.
func TestHoldPort(t *testing.T) {
	h, err := holdPort(spec.PortRange{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if _, err := holdPort(spec.PortRange{Lo: h.port, Hi: h.port}); err == nil {
		t.Error("two jobs hold one port")
	}
	for _, addr := range []string{"", "127.0.0.1", "0.0.0.0"} {
		l, err := listenTCP(addr, h.port)
		if err != nil {
			t.Fatalf("rank 0 cannot open its store at %q: %v", addr, err)
		}
		if again, err := listenTCP(addr, h.port); err == nil {
			again.Close()
			t.Error("two servers at one port")
		}
		l.Close()
	}
	port := porttest.Free(t, "")
	in, err := holdPort(spec.PortRange{Lo: port, Hi: port})
	if err != nil || in.port != port {
		t.Fatalf("%+v, %v, want port %d", in, err, port)
	}
	in.close()
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("after the end: %v", err)
	}
	l.Close()
}
