package gossip

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// hostList collects the calls of Config.OtherKey.
type hostList struct {
	mu   sync.Mutex
	list []string
}

func (h *hostList) add(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, host)
}

func (h *hostList) has(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.list, host)
}

// keyed returns a config with a key of one repeated byte, 0 for none.
func keyed(key byte, i int, endpoints ...string) (Config, *hostList) {
	c, h := config(i, endpoints...), &hostList{}
	if c.OtherKey = h.add; key != 0 {
		c.Key = func(int) ([]byte, error) { return bytes.Repeat([]byte{key}, 32), nil }
	}
	return c, h
}

// TestAgentWithAnotherKeyIsRefused checks that agents with the same key see each other.
// An agent with another key gets an error, and the endpoint's agent reports it.
func TestAgentWithAnotherKeyIsRefused(t *testing.T) {
	for name, key := range map[string]struct{ job, other byte }{
		"different": {1, 2}, "other has none": {1, 0}, "job has none": {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := freePort(t, "127.0.0.1")
			c, reported := keyed(key.job, 1, at)
			c.Endpoints.Serves = 0
			first := open(t, c)
			c, _ = keyed(key.other, 2, at)
			wantForeign(t, open(t, c), at+" has another secret (or none), or is of another run; give every node of a job the same --secret-file and --rdzv-id, and every job a port of its own")
			eventually(t, 30*time.Second, func() bool { return reported.has("127.0.0.2") || reported.has("127.0.0.1") }, func() string { return "Config.OtherKey was not called" })
			c, none := keyed(key.job, 3, at)
			member := open(t, c)
			meet(t, first, member)
			if none.has("127.0.0.1") {
				t.Error("an agent reports another one with the same key")
			}
		})
	}
}

// TestEndpointsWithDifferentKeysReportEachOther checks that two agents that each serve
// an endpoint go on, and that both report the other.
func TestEndpointsWithDifferentKeysReportEachOther(t *testing.T) {
	one, two := freePort(t, "127.0.0.1"), freePort(t, "127.0.0.2")
	var reported []*hostList
	for i := range 2 {
		c, h := keyed(byte(i+1), i+1, one, two)
		c.Endpoints.Serves = i
		open(t, c)
		reported = append(reported, h)
	}
	eventually(t, 10*time.Second, func() bool { return reported[0].has("127.0.0.2") && reported[1].has("127.0.0.1") }, func() string { return "Config.OtherKey was not called" })
}

// TestBytesWithoutTheKeyChangeNothing checks that a message without the key changes
// nothing, whatever it looks like.
func TestBytesWithoutTheKeyChangeNothing(t *testing.T) {
	at := freePort(t, "127.0.0.1")
	c, _ := keyed(1, 1, at)
	c.Endpoints.Serves = 0
	a := open(t, c)
	c, _ = keyed(1, 2, at)
	b := open(t, c)
	meet(t, a, b)
	udp, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for i := range 300 {
		noise := make([]byte, 1+i*4)
		_, _ = rand.Read(noise)
		noise[0] = byte(i % 16) // message types, and versions of encryption
		_, _ = udp.Write(noise)
		if i%20 == 0 {
			conn, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = conn.Write(append([]byte{10, 0, 0, 0, byte(i)}, noise...)) // encrypted, of that length
		}
	}
	c, _ = keyed(1, 3, at)
	meet(t, a, b, open(t, c))
}

// TestOtherProgramHasNoOtherKey checks that a program that connects and is not an agent
// does not count as an agent with another key.
func TestOtherProgramHasNoOtherKey(t *testing.T) {
	for name, key := range map[string][]byte{"with a key": make([]byte, 32), "without": nil} {
		t.Run(name, func(t *testing.T) {
			at := freePort(t, "127.0.0.1")
			first := config(1, at)
			reported := make(chan string, 100)
			first.Endpoints.Serves, first.Key, first.OtherKey = 0, func(int) ([]byte, error) { return key, nil }, func(host string) { reported <- host }
			open(t, first)
			for _, junk := range []string{"\x16\x03\x01\x02\x00\x01", "GET / HTTP/1.1\r\n\r\n", "\n\n\n\n\n\n\n\n", "\x00\x00\x00\x00", "\x06junk of a scanner"} {
				c, err := net.Dial("tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = c.Write([]byte(junk))
				_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
				_, _ = io.ReadAll(c) // until the agent closes the connection
				c.Close()
			}
			select {
			case host := <-reported:
				t.Errorf("%s is reported to have another key", host)
			default:
			}
		})
	}
}
