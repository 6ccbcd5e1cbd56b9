// Package porttest gives tests network ports that they can name before something
// listens there.
//
// Invariant: while a test runs, no other test of the machine gets its ports, whichever
// process it runs in, and the kernel gives them to nobody that asks for any port.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
)

// span is the number of ports from which Free chooses.
const span = 12000

// Free returns a port at which nothing listens at host, over TCP or UDP; an empty host
// means all addresses. The port is the test's own until the test has ended.
func Free(t testing.TB, host string) int {
	t.Helper()
	first := outside()
	for range 2000 {
		port := first + rand.IntN(span)
		if claim(t, host, port) {
			return port
		}
	}
	t.Fatalf("no free port from %d to %d", first, first+span-1)
	return 0
}

// Row returns the first of n ports in a row, each as Free's.
func Row(t testing.TB, host string, n int) int {
	t.Helper()
	first := outside()
next:
	for range 200 {
		low := first + rand.IntN(span-n)
		for port := low; port < low+n; port++ {
			if !claim(t, host, port) {
				continue next
			}
		}
		return low
	}
	t.Fatalf("no %d free ports in a row from %d to %d", n, first, first+span-1)
	return 0
}

// claim reports whether the port is free and was not claimed. A claim is an abstract
// Unix socket: one process can bind it, and it goes with that process.
func claim(t testing.TB, host string, port int) bool {
	t.Helper()
	lock, err := net.Listen("unix", fmt.Sprintf("@gorun-test-port-%d", port))
	if err != nil {
		return false
	}
	at := net.JoinHostPort(host, strconv.Itoa(port))
	tcp, err := net.Listen("tcp", at)
	if err == nil {
		tcp.Close()
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", at); err == nil {
			udp.Close()
		}
	}
	if err != nil {
		lock.Close()
		return false
	}
	t.Cleanup(func() { lock.Close() })
	return true
}

// outside returns the first of span ports that the kernel does not give to those who ask
// for any port, if there are so many.
func outside() int {
	low, high := 32768, 60999
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(b), &low, &high)
	}
	switch {
	case low-span >= 1024:
		return max(1024, low-span-768)
	case high+span <= 65535:
		return high + 1
	default:
		return 20000
	}
}
