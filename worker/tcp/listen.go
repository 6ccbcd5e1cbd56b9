package tcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/worker/contract"
)

// Listen says where a rank listens for the others.
type Listen struct {
	Addr  string // GORUN_NODE_ADDR; empty: the address from which the store is reached
	Iface string // GLOO_SOCKET_IFNAME: an interface whose address is used instead; empty, or unknown here: none
	Ports string // GORUN_WORKER_PORTS: "A-B"; empty: any
}

// Check returns an error if Ports is no range.
func (l Listen) Check() error {
	_, _, err := l.ports()
	return err
}

// ports returns the range of ports, which includes both ends; 0 and 0 stand for any port.
func (l Listen) ports() (lo, hi int, err error) {
	if l.Ports == "" {
		return 0, 0, nil
	}
	a, b, _ := strings.Cut(l.Ports, "-")
	if lo, err = strconv.Atoi(a); err == nil {
		hi, err = strconv.Atoi(b)
	}
	if err != nil || lo < 1 || hi < lo || hi > 1<<16-1 {
		return 0, 0, fmt.Errorf("%s is %q: it must be a range A-B of ports between 1 and 65535", contract.EnvPorts, l.Ports)
	}
	return lo, hi, nil
}

// open binds a free port. It begins anywhere in the range, so that the ranks of a node do
// not all try the same ports.
func (l Listen) open(ctx context.Context) (net.Listener, error) {
	lo, hi, err := l.ports()
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	host, n := l.host(), hi-lo+1
	first := rand.IntN(n)
	for i := range n {
		port := lo + (first+i)%n
		var ln net.Listener
		if ln, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return ln, nil
		}
		if port == 0 || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			return nil, err // no port of that address can be bound
		}
	}
	return nil, fmt.Errorf("no port of %s is free on %s: each rank needs one, give a longer --port-range (%w)", l.Ports, host, err)
}

// host returns the address on which to listen: that of the interface that the job chose for
// traffic between CPUs (--iface, or the user), else Addr. gorun check names an interface
// that a node does not have.
func (l Listen) host() string {
	name, _, _ := strings.Cut(l.Iface, ",")
	if name == "" {
		return l.Addr
	}
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return l.Addr
	}
	addrs, _ := iface.Addrs()
	var of []netip.Prefix
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			of = append(of, p)
		}
	}
	return chooseAddr(l.Addr, of)
}

// chooseAddr returns which of an interface's addresses to listen on: want if that is one of
// them, else the first of its family, IPv4 if want is none, else the first.
func chooseAddr(want string, of []netip.Prefix) string {
	wanted, err := netip.ParseAddr(want)
	wanted = wanted.Unmap()
	var best netip.Addr
	for _, p := range of {
		addr := p.Addr().Unmap()
		switch {
		case err == nil && (addr == wanted || addr.IsLoopback() && p.Contains(wanted)):
			return want
		case addr.IsLinkLocalUnicast():
		case !best.IsValid(), best.Is4() != addr.Is4() && addr.Is4() == (err != nil || wanted.Is4()):
			best = addr
		}
	}
	if !best.IsValid() {
		return want
	}
	return best.String()
}
