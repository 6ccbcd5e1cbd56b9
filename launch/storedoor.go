package launch

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// storeDoor decides who may connect to the workers' store, whose clients cannot
// prove anything: addresses of this machine, and those of the nodes of the world.
type storeDoor struct {
	open       bool // to everyone (--store-open)
	turnedAway func(netip.Addr)

	mu       sync.Mutex
	hosts    map[netip.Addr]bool // of the world
	networks []netip.Prefix      // of the world
	own      []netip.Prefix      // of this machine
	ownAt    time.Time           // when they were looked up
}

// admit takes the addresses and networks of a world in place of those of before.
// It leaves out what is neither.
func (d *storeDoor) admit(clients []string) {
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

// allows reports whether a client may come from an address.
func (d *storeDoor) allows(ip netip.Addr) bool {
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
		for _, text := range clientNetworks(context.Background()) {
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

// clientNetworks are where processes on this machine connect from: its addresses,
// and the networks of its bridges for containers.
func clientNetworks(ctx context.Context) []string {
	facts, _ := netif.Gather(ctx, netif.Options{Brief: true})
	return networksOf(facts)
}

func networksOf(facts netif.Facts) (out []string) {
	kinds, inner := map[string]string{}, map[int]bool{}
	for _, i := range facts.Interfaces {
		kinds[i.Name] = i.Kind
	}
	for _, i := range facts.Interfaces {
		// A bridge with hardware in it, or a bond or a VLAN, is a network of others.
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

// turnedAway says that somebody else wanted to be the store's client.
func (a *agent) turnedAway(ip netip.Addr) {
	text := fmt.Sprintf("the workers' store turned a connection from %s away, which is no address of this job's nodes; if a worker has it, give every node --store-open", ip)
	if line, now := a.seldom.take("store", text); now && !a.opts.quiet() {
		a.events.Put(noteEvent{line})
	}
}
