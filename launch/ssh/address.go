package ssh

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Reachable returns for each host the address at which the others reach it. It is the
// one at which ssh reached the host. For a host that ssh reached at a loopback address
// it is the host's address in a network of another host, unless all are such hosts:
// then all are this machine.
func Reachable(hosts []Hello) ([]string, error) {
	servers := make([]netip.Addr, len(hosts))
	known := false
	for i, h := range hosts {
		servers[i], _ = netip.ParseAddr(h.Server)
		servers[i] = servers[i].Unmap()
		if servers[i].IsLinkLocalUnicast() {
			servers[i] = netip.Addr{}
		}
		known = known || servers[i].IsValid() && !servers[i].IsLoopback()
	}
	out := make([]string, len(hosts))
	for i, server := range servers {
		if !server.IsValid() || server.IsLoopback() && known {
			if better := inNetworkOf(hosts[i].Addresses, servers); better.IsValid() {
				server = better
			}
		}
		if !server.IsValid() {
			return nil, fmt.Errorf("host %d of the list has no address that the others could reach: give --rdzv-endpoint", i+1)
		}
		out[i] = server.String()
	}
	return out, nil
}

// inNetworkOf returns the first address whose network has one of the others, else the
// first address, IPv4 before IPv6.
func inNetworkOf(own []string, others []netip.Addr) netip.Addr {
	var prefixes []netip.Prefix
	for _, text := range own {
		if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().IsLoopback() {
			prefixes = append(prefixes, p)
		}
	}
	slices.SortStableFunc(prefixes, func(a, b netip.Prefix) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	for _, p := range prefixes {
		if slices.ContainsFunc(others, p.Contains) {
			return p.Addr()
		}
	}
	if len(prefixes) == 0 {
		return netip.Addr{}
	}
	return prefixes[0].Addr()
}

// maxAddresses bounds the addresses of a Hello.
const maxAddresses = 256

// interfaceAddresses returns this host's addresses with the length of their network's
// prefix. It leaves out loopback and link-local addresses.
func interfaceAddresses() []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() && len(out) < maxAddresses {
			out = append(out, p.String())
		}
	}
	return out
}

// serverAddress returns the address at which ssh reached this host: the third word of
// SSH_CONNECTION.
func serverAddress(connection string) string {
	words := strings.Fields(connection)
	if len(words) < 3 {
		return ""
	}
	addr, err := netip.ParseAddr(words[2])
	if err != nil {
		return ""
	}
	return addr.WithZone("").String()
}

// triedPorts is the number of ports that freePort tries.
const triedPorts = 200

// freePort returns a port that no program of this host has now, for TCP and UDP. It is
// one that the kernel gives to nobody by itself, so it is hardly taken until the job
// opens it.
func freePort(lo, hi int) (int, error) {
	given := lo > 0
	if !given {
		lo, hi = unassigned(localPorts())
	}
	for range triedPorts {
		port := lo + rand.IntN(hi-lo+1)
		tcp, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		udp, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		tcp.Close()
		if err == nil {
			udp.Close()
			return port, nil
		}
	}
	if given {
		return 0, fmt.Errorf("no port of %d-%d is free for TCP and UDP", lo, hi)
	}
	return 0, errors.New("no port is free for TCP and UDP")
}

// localPorts returns the range from which the kernel takes ports.
func localPorts() (lo, hi int) {
	lo, hi = 32768, 60999
	if f, err := os.Open("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		defer f.Close()
		_, _ = fmt.Fscan(bufio.NewReaderSize(f, 64), &lo, &hi)
	}
	return lo, hi
}

// unassigned returns the larger range of unprivileged ports outside the kernel's, or
// the kernel's own if no other has a hundred ports.
func unassigned(low, high int) (lo, hi int) {
	type ports struct{ lo, hi int }
	all := []ports{{10000, low - 1}, {high + 1, 65535}}
	best := slices.MaxFunc(all, func(a, b ports) int { return cmp.Compare(a.hi-a.lo, b.hi-b.lo) })
	if best.hi-best.lo < 100 {
		return low, high
	}
	return best.lo, best.hi
}
