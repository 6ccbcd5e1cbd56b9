package meet

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// clientFilter decides which addresses may connect to the workers' store. The store's
// protocol has no secret. The filter allows the addresses of this machine and of the
// nodes of the world.
type clientFilter struct {
	open      bool // all addresses may connect (--store-open)
	onRefused func(netip.Addr)

	mu       sync.Mutex
	hosts    map[netip.Addr]bool // addresses of the world's nodes
	networks []netip.Prefix      // networks of the world's nodes
	local    []netip.Prefix      // addresses and networks of this machine
	localAt  time.Time           // when local was looked up
}

// setClients replaces the last world's addresses and networks by those of a new world.
// It ignores other texts.
func (f *clientFilter) setClients(clients []string) {
	hosts, networks := map[netip.Addr]bool{}, []netip.Prefix(nil)
	for _, text := range clients {
		if ip, err := netip.ParseAddr(text); err == nil {
			hosts[ip.Unmap().WithZone("")] = true
		} else if p, err := netip.ParsePrefix(text); err == nil && p.Bits() > 0 {
			networks = append(networks, p)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts, f.networks = hosts, networks
}

// isAllowed reports whether a client may connect from an address.
func (f *clientFilter) isAllowed(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if f.open || ip.IsLoopback() {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	if f.hosts[ip] || slices.ContainsFunc(f.networks, within) {
		return true
	}
	if now := time.Now(); now.Sub(f.localAt) >= time.Second { // a container's bridge may be new
		f.local, f.localAt = nil, now
		for _, text := range Networks(context.Background()) {
			if p, err := prefix(text); err == nil {
				f.local = append(f.local, p)
			}
		}
	}
	return slices.ContainsFunc(f.local, within)
}

// prefix reads an address or a network.
func prefix(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// Networks lists the addresses and networks from which processes on this machine
// connect: its own addresses, and the networks of its bridges for containers.
func Networks(ctx context.Context) []string {
	facts, _ := netif.Gather(ctx, netif.Options{Brief: true})
	return networksOf(facts)
}

func networksOf(facts netif.Facts) (out []string) {
	kinds, inner := map[string]string{}, map[int]bool{}
	for _, i := range facts.Interfaces {
		kinds[i.Name] = i.Kind
	}
	for _, i := range facts.Interfaces {
		// A bridge with hardware in it, a bond or a VLAN is a network of other
		// machines.
		inner[i.Index] = i.Kind == "bridge" && !slices.ContainsFunc(i.Slaves, func(name string) bool {
			return kinds[name] != "veth" && kinds[name] != "tun"
		})
	}
	for _, a := range facts.Addresses {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || ip.IsLoopback() || len(out) == rendezvous.MaxNetworks {
			continue
		}
		ip = ip.WithZone("")
		if p, err := ip.Prefix(a.Bits); err == nil && inner[a.Index] && !ip.IsLinkLocalUnicast() {
			out = append(out, p.String())
			continue
		}
		out = append(out, ip.String())
	}
	return out
}
