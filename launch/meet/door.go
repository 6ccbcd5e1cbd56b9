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

// door decides which addresses may connect to the workers' store, whose clients
// cannot prove anything. It allows the addresses of this machine and of the nodes
// of the world.
type door struct {
	open       bool // to all addresses (--store-open)
	turnedAway func(netip.Addr)

	mu       sync.Mutex
	hosts    map[netip.Addr]bool // addresses of the world's nodes
	networks []netip.Prefix      // networks of the world's nodes
	own      []netip.Prefix      // addresses and networks of this machine
	ownAt    time.Time           // when own was looked up
}

// admit replaces the last world's addresses and networks by those of a new world.
// It ignores a text that is neither.
func (d *door) admit(clients []string) {
	hosts, networks := map[netip.Addr]bool{}, []netip.Prefix(nil)
	for _, text := range clients {
		if ip, err := netip.ParseAddr(text); err == nil {
			hosts[ip.Unmap().WithZone("")] = true
		} else if p, err := netip.ParsePrefix(text); err == nil && p.Bits() > 0 {
			networks = append(networks, p)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hosts, d.networks = hosts, networks
}

// allows reports whether a client may connect from an address.
func (d *door) allows(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if d.open || ip.IsLoopback() {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	if d.hosts[ip] || slices.ContainsFunc(d.networks, within) {
		return true
	}
	if now := time.Now(); now.Sub(d.ownAt) >= time.Second { // a container's bridge may be new
		d.own, d.ownAt = nil, now
		for _, text := range Networks(context.Background()) {
			if p, err := prefix(text); err == nil {
				d.own = append(d.own, p)
			}
		}
	}
	return slices.ContainsFunc(d.own, within)
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
