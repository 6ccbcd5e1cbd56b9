package e2e_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// garbage returns bytes such as port scanners, browsers and broken peers send.
func garbage() [][]byte {
	random := make([]byte, 4096)
	_, _ = rand.Read(random)
	huge := slices.Concat([]byte{3}, binary.LittleEndian.AppendUint64(nil, 1<<62), random)
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	return [][]byte{
		random,
		[]byte("GET / HTTP/1.1\r\nHost: gorun\r\n\r\n"),
		[]byte(preface[:10]),
		[]byte(preface + "\xff\xff\xff\x00\x00\x00\x00\x00\x00"), // a frame of 16 MiB
		[]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"), // settings, then silence
		bytes.Repeat([]byte{0xff}, 64<<10),
		make([]byte, 64<<10),
		huge,                                                  // a store key of 2^62 bytes
		slices.Concat([]byte("\x06\xff\xff\xff\xff"), random), // memberlist: a push/pull that never ends
		[]byte("{\"type\":\"hello\"}\n{\"type\":\"fail\""),    // half a frame of the worker socket
		[]byte(strings.Repeat("[", 1<<20)),
		nil, // connect and close
	}
}

// sendGarbage sends all garbage to one address, and leaves many silent connections.
func sendGarbage(t testing.TB, network, addr string) {
	var wg sync.WaitGroup
	for _, data := range garbage() {
		wg.Go(func() {
			c, err := net.DialTimeout(network, addr, shortWait)
			if err != nil {
				t.Errorf("cannot reach %s %s: %v", network, addr, err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
			if network == "udp" {
				data = data[:min(len(data), 1400)]
			}
			_, _ = c.Write(data)
			_, _ = c.Read(make([]byte, 1024))
		})
	}
	wg.Wait()
	if network == "udp" {
		return
	}
	for range 50 {
		c, err := net.DialTimeout(network, addr, shortWait)
		if err != nil {
			t.Errorf("cannot reach %s %s: %v", network, addr, err)
			return
		}
		t.Cleanup(func() { c.Close() })
	}
}

// Garbage arrives at every port and socket of the agents, while the nodes meet and while
// the job runs. Still the job starts, and ends in time with 0.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gossip", "static"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			script := sh(`echo "socket $GORUN_WORKER_SOCKET"; ` + untilGo)
			var agents []*agent
			if kind == "static" {
				agents = j.static(2, script...)
			} else {
				agents = []*agent{j.node(1, "2", script...)}
				agents[0].waitForStderr("have 1 of 2 nodes")
				sendGarbageToAll(t, agents[0])
				agents = append(agents, j.node(2, "2", script...))
			}
			for _, a := range agents {
				a.waitForStdout("up", 1)
				sendGarbageToAll(t, a)
				_, socket, _ := strings.Cut(a.out.String(), "socket ")
				socket, _, _ = strings.Cut(socket, "\n")
				if socket == "" {
					t.Fatalf("worker socket %q", socket)
				}
				sendGarbage(t, "unix", socket)
			}
			j.touch("go")
			j.wantExit(shortWait, 0, agents...)
		})
	}
}

// sendGarbageToAll sends garbage to every port and socket at which the agent listens.
func sendGarbageToAll(t testing.TB, a *agent) {
	t.Helper()
	p := portsOf(t, a.pid())
	if a.name != "node 1" && len(p.tcp) == 0 {
		t.Fatalf("%s listens nowhere", a.name)
	}
	for network, list := range map[string][]netip.AddrPort{"tcp": p.tcp, "udp": p.udp} {
		for _, at := range list {
			sendGarbage(t, network, at.String())
		}
	}
}
