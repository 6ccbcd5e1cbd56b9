package meet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/launch/spec"
)

// address describes where this node is in the network.
type address struct {
	ip       string // at which the other nodes reach this node
	bind     string // IP address to listen at: ip, or all addresses if no interface has ip (NAT)
	endpoint int    // index of the endpoint whose address is this machine's; -1: none
}

// errNoAddress means that this node's address cannot be found yet.
var errNoAddress = errors.New("there is no default route")

// addressInterval is the pause between two attempts to find this node's address.
const addressInterval = 500 * time.Millisecond

// findAddress looks up this node and the endpoints. A node that starts before its network
// or its name is there tries again until the join timeout.
func (s *Session) findAddress(ctx context.Context, n *spec.Network) (address, error) {
	var names []string
	for _, e := range n.Endpoints {
		names = append(names, e.Host)
	}
	what, until := strings.Join(names, ", "), time.Now().Add(n.Conf.JoinTimeout)
	at, err := waitFor(ctx, s, "looking up "+what, func(ctx context.Context) (address, error) { return findAddress(ctx, n, hostNames(n)) })
	if !errors.Is(err, errNoAddress) {
		return at, err
	}
	return waitFor(ctx, s, "waiting for an address of this node: there is no default route, and no address is known for "+what, func(ctx context.Context) (address, error) {
		for {
			select {
			case <-ctx.Done():
				return at, ctx.Err()
			case <-time.After(addressInterval):
			}
			at, err := findAddress(ctx, n, hostNames(n))
			if !errors.Is(err, errNoAddress) || !time.Now().Before(until) {
				return at, err
			}
		}
	})
}

// findAddress decides the node's address. It is --local-addr; otherwise that of the
// scheduler's name of this node; otherwise the endpoint's own address if this machine
// has it; otherwise the source address of the route to an endpoint; otherwise that of
// this machine's own names. This node serves an endpoint that has its address, or that
// is one of its names and is unknown yet, or known for another machine: a pod that comes
// back has a new address.
func findAddress(ctx context.Context, n *spec.Network, names []string) (address, error) {
	at := address{endpoint: -1}
	if n.LocalAddr != "" {
		ips, err := lookupLocal(ctx, n.LocalAddr)
		if err != nil {
			return at, err
		}
		at.ip = ips[0].String()
	} else if n.Host != "" {
		at.ip = addressOf(ctx, n.Host, n.Peer)
	}
	reach, named := "", -1
	for i, e := range n.Endpoints {
		addrs, err := lookupEndpoint(ctx, e, lookupSoon) // if it is unknown yet, the wait for the other nodes reports it
		here := false
		for _, addr := range addrs {
			ip := addr.Addr()
			// The scheduler's name of this node may mean another of its addresses than
			// the endpoint, and the user's word counts. Loopback addresses keep nodes of
			// one machine apart.
			other := isLocal(ip) && n.LocalAddr == "" && !ip.IsLoopback()
			if !e.IsService() && at.endpoint < 0 && (e.Host == n.Host || isLocal(ip) && (at.ip == "" || at.ip == ip.String()) || other) {
				at.endpoint = i
				if at.ip == "" || other && e.Host != n.Host {
					at.ip = externalAddress(ip, e.Host)
				}
			}
			here = here || isLocal(ip)
		}
		if err == nil && reach == "" {
			reach = addrs[0].Addr().String()
		}
		if named < 0 && !here && isNameOf(e.Host, names) {
			named = i
		}
	}
	if at.endpoint < 0 {
		at.endpoint = named
	}
	if h := n.Conf.IsHost; h != nil {
		at.endpoint = map[bool]int{true: 0, false: -1}[*h]
	}
	if at.ip == "" {
		at.ip = sourceAddress(reach)
	}
	for i := 0; at.ip == "" && i < len(names); i++ {
		at.ip = addressOf(ctx, names[i], "")
	}
	if n.Backend == spec.EtcdV3 && n.LocalAddr == "" && strings.HasPrefix(at.ip, "127.") {
		// Many users run a member of etcd on every node. Other nodes do not reach
		// this node at the member's loopback address.
		at.ip = cmp.Or(sourceAddress(""), at.ip)
	}
	if at.ip == "" {
		return at, fmt.Errorf("cannot find this node's address: no address is known for %s, and %w; give --local-addr", n.Endpoints[0].Host, errNoAddress)
	}
	at.bind = at.ip
	if ip, err := netip.ParseAddr(at.ip); err == nil && !isLocal(ip) {
		at.bind = "0.0.0.0"
		if ip.Is6() {
			at.bind = "::"
		}
	}
	return at, nil
}

// addressOf returns this machine's address for the scheduler's name of this node, or
// "". A loopback address counts only if another node has one, too: then all nodes are
// on this machine. Otherwise Debian's /etc/hosts maps this machine's name to it.
func addressOf(ctx context.Context, host, peer string) string {
	ips, _ := lookupSoon(ctx, host)
	loopback := ""
	for _, ip := range ips {
		switch {
		case ip.IsLoopback() && loopback == "":
			loopback = ip.String()
		case !ip.IsLoopback() && isLocal(ip):
			return ip.String()
		}
	}
	others, _ := lookupSoon(ctx, peer)
	if len(others) > 0 && others[0].IsLoopback() {
		return loopback
	}
	return ""
}

// lookupLocal looks up the value of --local-addr.
func lookupLocal(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := lookupSoon(ctx, host)
	if err != nil {
		return nil, &spec.UsageError{Err: fmt.Errorf("cannot use --local-addr %s: %w", host, err)}
	}
	return ips, nil
}

// lookup returns the addresses of host, the IPv4 addresses first. Debian's
// /etc/hosts maps localhost to ::1 as well, and an agent listens at one address
// only, which every worker's library has to reach.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(ips) == 0 {
		err = fmt.Errorf("%s has no address", host)
	}
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	return preferIPv4(ips), err
}

// lookupSoon is lookup for what a node can do without: it waits two seconds.
func lookupSoon(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return lookup(ctx, host)
}

// preferIPv4 moves the IPv4 addresses to the front and keeps the order otherwise.
func preferIPv4(ips []netip.Addr) []netip.Addr {
	slices.SortStableFunc(ips, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return ips
}

// isNotFound reports whether a name server has answered that it has no such record.
func isNotFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// isLocal reports whether this machine has the address ip.
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

// externalAddress replaces a loopback address that a host name stands for (Debian's
// /etc/hosts maps a machine's own name to 127.0.1.1), because the other nodes need
// a real address. If the user gives localhost or 127.x, externalAddress keeps it.
func externalAddress(ip netip.Addr, host string) string {
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || !ip.IsLoopback() {
		return ip.String()
	}
	if s := sourceAddress("192.0.2.1"); s != "" {
		return s
	}
	return ip.String()
}

// sourceAddress returns the address from which this machine would send to ip. Connecting
// a UDP socket asks the routing table and sends nothing.
func sourceAddress(ip string) string {
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
