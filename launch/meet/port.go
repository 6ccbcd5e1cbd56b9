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

	"golang.org/x/sys/unix"

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
		return nil, fmt.Errorf("cannot open a port of %v on %s: all are taken (%w)", r, addr, err)
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
		return nil, fmt.Errorf("cannot open port %d on %s: %w; is another job running there? Give another --master-port", port, addr, err)
	}
	return l, nil
}

// listenNear binds a port that no user named, or any free one if that is taken. Two jobs
// of one machine both start.
func listenNear(addr string, port int) (net.Listener, error) {
	if l, err := listenTCP(addr, port); err == nil {
		return l, nil
	}
	return listen(addr, spec.PortRange{})
}

// heldPort is a TCP port that no other job gets, and that a child process can open. It
// is bound and does not listen.
type heldPort struct {
	fd   int
	port int
}

// holdPort holds a free port of the range on all addresses. It is bound without
// SO_REUSEADDR, so that no other socket has the port. With SO_REUSEADDR later sockets
// that set it, too, may bind the port: those of TCPStore, of libuv and of Go do.
func holdPort(r spec.PortRange) (*heldPort, error) {
	var err error
	for _, p := range ports(r) {
		h := &heldPort{}
		if h.fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			err = errors.Join(unix.SetsockoptInt(h.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0), unix.Bind(h.fd, &unix.SockaddrInet6{Port: p}))
		} else if h.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil { // a machine without IPv6
			err = unix.Bind(h.fd, &unix.SockaddrInet4{Port: p})
		} else {
			return nil, fmt.Errorf("cannot open a socket: %w", err)
		}
		if err == nil {
			err = unix.SetsockoptInt(h.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		}
		var at unix.Sockaddr
		if err == nil {
			at, err = unix.Getsockname(h.fd)
		}
		switch at := at.(type) {
		case *unix.SockaddrInet6:
			h.port = at.Port
		case *unix.SockaddrInet4:
			h.port = at.Port
		}
		if err == nil {
			return h, nil
		}
		h.close()
	}
	return nil, fmt.Errorf("cannot find a free port for the workers' store: %w", err)
}

func (h *heldPort) close() { _ = unix.Close(h.fd) }

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
