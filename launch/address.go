package launch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/gorun/gorun/launch/spec"
)

// place is where this agent is in the network.
type place struct {
	addr   string // IP address that the others reach
	bind   string // IP address to listen at: addr, or all if addr is not an interface's (NAT)
	serves int    // index of the endpoint whose address is this machine's, -1: none
}

// findPlace decides the node's address: --local-addr, else the endpoint's own
// address if that is here, else the source address of the way to an endpoint.
func findPlace(ctx context.Context, sp spec.Spec) (place, error) {
	p := place{serves: -1}
	if sp.LocalAddr != "" {
		ips, err := lookup(ctx, sp.LocalAddr)
		if err != nil {
			return p, &UsageError{fmt.Errorf("cannot use --local-addr %s: %w", sp.LocalAddr, err)}
		}
		p.addr = ips[0].String()
	}
	reach := ""
	for i, e := range sp.Endpoints {
		ips, err := lookup(ctx, e.Host)
		if err != nil {
			continue // not known yet; the wait for the others will say so
		}
		for _, ip := range ips {
			here := isLocal(ip) && (p.addr == "" || p.addr == ip.String())
			if here && p.serves < 0 {
				p.serves = i
				if p.addr == "" {
					p.addr = outward(ip, e.Host)
				}
			}
		}
		if reach == "" && len(ips) > 0 {
			reach = ips[0].String()
		}
	}
	if h := sp.Conf.IsHost; h != nil {
		p.serves = map[bool]int{true: 0, false: -1}[*h]
	}
	if p.addr == "" {
		p.addr = sourceTo(reach)
	}
	if p.addr == "" {
		return p, fmt.Errorf("cannot find this node's address: %s cannot be resolved and there is no default route; give --local-addr", sp.Endpoints[0].Host)
	}
	p.bind = p.addr
	if ip, err := netip.ParseAddr(p.addr); err == nil && !isLocal(ip) {
		p.bind = "0.0.0.0"
		if ip.Is6() {
			p.bind = "::"
		}
	}
	return p, nil
}

// lookup returns the addresses of host, those of IPv4 first: Debian's /etc/hosts
// gives localhost as ::1 too, and an agent listens at one address only, which
// every worker's library has to reach.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("%s has no address", host)
	}
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	return preferIPv4(ips), err
}

// preferIPv4 moves the addresses of IPv4 to the front and keeps the order otherwise.
func preferIPv4(ips []netip.Addr) []netip.Addr {
	slices.SortStableFunc(ips, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return ips
}

// isLocal reports whether ip is one of this machine's.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip.Unmap() {
			return true
		}
	}
	return false
}

// outward replaces a loopback address that a host name led to (Debian's
// /etc/hosts maps a machine's own name to 127.0.1.1): the others need a real
// one. Who writes localhost or 127.x means it.
func outward(ip netip.Addr, host string) string {
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || !ip.IsLoopback() {
		return ip.String()
	}
	if s := sourceTo("192.0.2.1"); s != "" {
		return s
	}
	return ip.String()
}

// sourceTo is the address from which this machine would send to ip. Connecting
// a UDP socket asks the routing table and sends nothing.
func sourceTo(ip string) string {
	if ip == "" {
		ip = "192.0.2.1" // TEST-NET-1: the default route
	}
	c, err := net.Dial("udp", net.JoinHostPort(ip, "9"))
	if err != nil {
		return ""
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().String()
}

// ports lists the ports to try, in a random order: one 0 if any will do.
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

// listen binds a TCP port at addr within the range.
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

// listenTCP is net.Listen without Multipath TCP, which that would use where the
// kernel has it: no client of ours speaks it.
func listenTCP(addr string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc.Listen(context.Background(), "tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
