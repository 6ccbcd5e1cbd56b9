package gossip

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestOwnPortIsTaken checks that an agent ends if another program has its endpoint's
// port. It goes on while an agent, or no program, has the port.
func TestOwnPortIsTaken(t *testing.T) {
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { web.Close() })
	go func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.Close()
		}
	}()
	start := func(i int, endpoints ...string) *agent {
		c := config(i, endpoints...)
		c.Endpoints.Serves = 0
		return open(t, c)
	}
	at := freePort(t, "127.0.0.1")
	first := start(1, at)
	second := start(1, at) // on the same machine
	meet(t, first, second)
	elsewhere := start(1, web.Addr().String(), freePort(t, "127.0.0.2"))
	half := freePort(t, "127.0.0.1") // a name server, perhaps
	udp, err := net.ListenPacket("udp", half)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	for _, endpoint := range []string{web.Addr().String(), half} {
		a := start(1, endpoint)
		select {
		case err := <-a.done:
			a.done <- err
			if taken, ok := errors.AsType[*PortTaken](err); !ok || taken.Endpoint != endpoint {
				t.Errorf("%v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: Run does not end", endpoint)
		}
	}
	for _, a := range []*agent{first, second, elsewhere} {
		select {
		case err := <-a.done:
			a.done <- err
			t.Errorf("ended: %v", err)
		default:
		}
	}
}
