package meet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/gorun/gorun/launch/spec"
	"github.com/gorun/gorun/launch/spec/surroundings"
	"github.com/gorun/gorun/rendezvous/gossip"
)

// maxTargets bounds how many hosts of a DNS service record are looked up.
const maxTargets = 256

// lookupEndpoint returns the addresses that an endpoint stands for, by lookup.
func lookupEndpoint(ctx context.Context, e spec.Endpoint, lookup func(context.Context, string) ([]netip.Addr, error)) ([]netip.AddrPort, error) {
	type target struct {
		host string
		port uint16
	}
	targets := []target{{e.Host, uint16(e.Port)}}
	if e.IsService() {
		_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", e.Host)
		if err != nil {
			return nil, err
		}
		targets = nil
		for _, r := range records[:min(len(records), maxTargets)] {
			targets = append(targets, target{r.Target, r.Port})
		}
	}
	var found []netip.AddrPort
	first := fmt.Errorf("%s has no address", e.Host)
	for i, t := range targets {
		ips, err := lookup(ctx, t.host)
		if err != nil && i == 0 {
			first = err
		}
		for _, ip := range ips {
			found = append(found, netip.AddrPortFrom(ip, t.port))
		}
	}
	if len(found) == 0 {
		return nil, first
	}
	slices.SortFunc(found, netip.AddrPort.Compare) // IPv4 first
	return slices.Compact(found), nil
}

// hostNames returns the names of this machine: those that the kernel and /etc/hosts know,
// and the scheduler's.
func hostNames(n *spec.Network) []string {
	h := surroundings.ThisHost()
	return slices.DeleteFunc([]string{h.Name, h.FQDN, n.Host}, func(name string) bool { return name == "" })
}

// isNameOf reports whether host is one of a machine's names, in full or the beginning of
// one: "job-0.svc" is a name of "job-0.svc.default.svc.cluster.local".
func isNameOf(host string, names []string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return false
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		return name == host || strings.HasPrefix(name, host+".")
	})
}

// isFixed reports whether an endpoint's host stands for one node whatever DNS says.
func isFixed(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// names finds out what the endpoints of a job stand for. Its methods may be called by
// several goroutines.
type names struct {
	endpoints map[string]spec.Endpoint // by text
	own       []string                 // names of this machine
	ip        string                   // at which the other nodes reach this node
	elastic   bool

	mu    sync.Mutex
	asked map[string]bool // by name and address: whether the address is known by the name
}

func newNames(n *spec.Network, ip string, elastic bool) *names {
	ns := &names{endpoints: map[string]spec.Endpoint{}, own: hostNames(n), ip: ip, elastic: elastic, asked: map[string]bool{}}
	for _, e := range n.Endpoints {
		ns.endpoints[e.String()] = e
	}
	return ns
}

// find looks an endpoint up. It decides whether the addresses are one node's or several
// nodes'.
func (ns *names) find(ctx context.Context, endpoint string) (gossip.Found, error) {
	e := ns.endpoints[endpoint]
	addrs, err := lookupEndpoint(ctx, e, lookup)
	if err != nil {
		return gossip.Found{}, err
	}
	f := gossip.Found{Addrs: addrs, Several: e.IsService() || !isFixed(e.Host) && ns.standsForSeveral(ctx, e.Host, addrs)}
	if four := slices.IndexFunc(addrs, func(at netip.AddrPort) bool { return at.Addr().Is6() }); f.Several && four > 0 {
		f.Addrs = addrs[:four] // the rest are the same nodes' IPv6 addresses
	}
	return f, nil
}

// standsForSeveral reports whether a name stands for several nodes, or may do so soon. A
// name of this machine that stands for another one may be out of date, or the other one's
// too. Of an elastic job, any name of this machine that is not its own may get more
// addresses; a job of fixed size starts with all of them anyway.
func (ns *names) standsForSeveral(ctx context.Context, host string, addrs []netip.AddrPort) bool {
	here := 0
	for _, at := range addrs {
		if at.Addr().String() == ns.ip || isLocal(at.Addr()) {
			here++
		}
	}
	own := isNameOf(host, ns.own)
	switch {
	case here == len(addrs):
		label, _, _ := strings.Cut(host, ".")
		return ns.elastic && !own && !isNameOf(label, ns.own) && !ns.isKnownBy(ctx, addrs[0].Addr(), host)
	case here > 0 || own:
		return true
	case len(addrs) > 1:
		return !ns.isKnownBy(ctx, addrs[0].Addr(), host)
	}
	return false
}

// isKnownBy reports whether an address is known by a name: whether the name is one host's.
func (ns *names) isKnownBy(ctx context.Context, ip netip.Addr, host string) bool {
	key := host + " " + ip.String()
	ns.mu.Lock()
	known, asked := ns.asked[key]
	ns.mu.Unlock()
	if asked {
		return known
	}
	list, err := net.DefaultResolver.LookupAddr(ctx, ip.String())
	known = isNameOf(host, list)
	if err == nil || isNotFound(err) {
		ns.mu.Lock()
		defer ns.mu.Unlock()
		if len(ns.asked) < maxTargets {
			ns.asked[key] = known
		}
	}
	return known
}
