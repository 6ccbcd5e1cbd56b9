package meet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/spec"
)

// ports lists the ports to try, in a random order; it lists only 0 if any port will
// do.
func ports(r spec.PortRange) []int {
	if r == (spec.PortRange{}) {
		return []int{0}
	}
	out := rand.Perm(r.Hi - r.Lo + 1)
	for i := range out {
		out[i] += r.Lo
	}
	return out
}

// listen binds a TCP port within the range at addr.
func listen(addr string, r spec.PortRange) (net.Listener, error) {
	var err error
	for _, p := range ports(r) {
		var l net.Listener
		if l, err = listenTCP(addr, p); err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			break // no port of that address can be opened
		}
	}
	if r != (spec.PortRange{}) && errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("cannot open a port of %d-%d on %s: all are taken (%w)", r.Lo, r.Hi, addr, err)
	}
	return nil, fmt.Errorf("cannot open a port on %s: %w", addr, err)
}

// listenTCP listens like net.Listen, but without Multipath TCP, which net.Listen
// uses if the kernel has it. No client of gorun uses Multipath TCP.
func listenTCP(addr string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc.Listen(context.Background(), "tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// listenAt binds a port that the user named.
func listenAt(addr string, port int) (net.Listener, error) {
	l, err := listenTCP(addr, port)
	if err != nil {
		return nil, fmt.Errorf("cannot open port %d on %s: %w; is another job running there? Give --master-port", port, addr, err)
	}
	return l, nil
}

const (
	maxTriedPorts = 50
	maxTryTime    = time.Second // also if a firewall drops the packets
)

// freePort returns the next port of a host at which no program answers now. Every
// node of the job finds the same port.
func freePort(at spec.Endpoint) int {
	end := time.Now().Add(maxTryTime)
	for port := at.Port + 1; port <= min(at.Port+maxTriedPorts, 1<<16-1) && time.Now().Before(end); port++ {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(at.Host, strconv.Itoa(port)), time.Until(end))
		if err == nil {
			c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			return port
		}
	}
	if at.Port == 1<<16-1 {
		return spec.DefaultPort
	}
	return at.Port + 1
}
