package meet

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// TestClientFilter checks that the store's clients may come from this machine,
// including its containers, and from the nodes of the world, until the next world.
func TestClientFilter(t *testing.T) {
	d := &clientFilter{}
	ask := func(want bool, ips ...string) {
		t.Helper()
		for _, ip := range ips {
			if got := d.isAllowed(netip.MustParseAddr(ip)); got != want {
				t.Errorf("%s: %v", ip, got)
			}
		}
	}
	local := []string{"127.0.0.1", "127.0.0.6", "::1", "::ffff:127.0.0.9"}
	for _, at := range Networks(t.Context()) {
		if p, err := prefix(at); err != nil {
			t.Errorf("%q: %v", at, err)
		} else {
			local = append(local, p.Addr().String())
		}
	}
	ask(true, local...)
	ask(false, "192.0.2.7", "2001:db8::7")
	d.setClients([]string{"192.0.2.7", "2001:db8::7", "198.51.100.0/24", "0.0.0.0/0", "::/0", "no address", ""})
	ask(true, "192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7", "198.51.100.9")
	ask(false, "192.0.2.8", "2001:db8::8", "203.0.113.1")
	d.setClients([]string{"203.0.113.1"})
	ask(true, "203.0.113.1")
	ask(false, "192.0.2.7", "198.51.100.9")
	d.open = true
	ask(true, "192.0.2.8")
}

func TestNetworksOf(t *testing.T) {
	got := networksOf(netif.Facts{
		Interfaces: []netif.Interface{
			{Index: 1, Name: "lo"},
			{Index: 2, Name: "eth0"},
			{Index: 3, Name: "docker0", Kind: "bridge", Slaves: []string{"veth1"}},
			{Index: 4, Name: "veth1", Kind: "veth"},
			{Index: 5, Name: "br0", Kind: "bridge", Slaves: []string{"eth1", "veth1"}},
			{Index: 6, Name: "eth1"},
			{Index: 7, Name: "docker1", Kind: "bridge"},
		},
		Addresses: []netif.Address{
			{Index: 1, IP: "127.0.0.1", Bits: 8},
			{Index: 2, IP: "10.0.0.1", Bits: 24},
			{Index: 3, IP: "172.17.0.1", Bits: 16},
			{Index: 5, IP: "10.1.0.1", Bits: 24},
			{Index: 7, IP: "172.18.0.1", Bits: 16},
			{Index: 3, IP: "fe80::1", Bits: 64},
			{Index: 2, IP: "2001:db8::1", Bits: 64},
		},
	})
	want := []string{"10.0.0.1", "172.17.0.0/16", "10.1.0.1", "172.18.0.0/16", "fe80::1", "2001:db8::1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
