package netif

import (
	"fmt"
	"strings"
	"testing"
)

func TestSuggestFindsWhatAllNodesHave(t *testing.T) {
	for _, c := range []struct {
		name    string
		nodes   [][]string
		reached []string
		want    string // the interfaces, in order; "-" for none
		network string
		why     string
	}{
		{
			"other names", [][]string{
				{"lo 127.0.0.1/8", "eth0 10.37.8.72/24 hw", "eth1 10.1.0.1/24 hw"},
				{"lo 127.0.0.1/8", "ens3 10.37.12.78/24 hw", "bond0 10.1.0.2/24 kind=bond"},
			}, nil, "eth1 bond0", "10.1.0.0/24", "all nodes",
		},
		{
			"the faster", [][]string{
				{"a 10.1.0.1/24 hw speed=1000", "b 10.2.0.1/24 hw speed=100000"},
				{"a 10.1.0.2/24 hw speed=1000", "b 10.2.0.2/24 hw speed=100000"},
			}, nil, "b b", "10.2.0.0/24", "at 100000 Mbit/s",
		},
		{
			"the slowest node decides the speed", [][]string{
				{"a 10.1.0.1/24 hw speed=10000", "b 10.2.0.1/24 hw speed=100000"},
				{"a 10.1.0.2/24 hw speed=10000", "b 10.2.0.2/24 hw speed=10"},
			}, nil, "a a", "10.1.0.0/24", "",
		},
		{
			"wired before a VPN", [][]string{
				{"wg0 10.9.0.1/24 kind=wireguard", "eth0 10.2.0.1/24 hw"},
				{"wg0 10.9.0.2/24 kind=wireguard", "eth0 10.2.0.2/24 hw"},
			}, nil, "eth0 eth0", "10.2.0.0/24", "",
		},
		{
			"a VPN if there is nothing else", [][]string{
				{"wg0 10.9.0.1/24 kind=wireguard", "eth0 10.2.0.1/24 hw"},
				{"wg0 10.9.0.2/24 kind=wireguard", "eth0 10.3.0.2/24 hw"},
			}, nil, "wg0 wg0", "10.9.0.0/24", "",
		},
		{
			"no bridge of containers, no link-local", [][]string{
				{"docker0 172.17.0.1/16 kind=bridge", "eth0 10.2.0.1/24 hw", "eth0 fe80::1/64"},
				{"docker0 172.17.0.1/16 kind=bridge", "eth0 10.3.0.2/24 hw", "eth0 fe80::2/64"},
			}, nil, "eth0 -", "10.2.0.0/24", "1 of 2 nodes",
		},
		{
			"a bridge with hardware in it", [][]string{
				{"br0 10.2.0.1/24 kind=bridge", "eth0 - hw in=br0"},
				{"br0 10.2.0.2/24 kind=bridge", "eth0 - hw in=br0"},
			}, nil, "br0 br0", "10.2.0.0/24", "",
		},
		{
			"containers", [][]string{
				{"lo 127.0.0.1/8", "eth0 10.244.0.5/16 kind=veth"},
				{"lo 127.0.0.1/8", "eth0 10.244.1.5/16 kind=veth"},
			}, nil, "eth0 eth0", "10.244.0.0/16", "",
		},
		{
			"IPv6", [][]string{
				{"eth0 10.1.0.1/24 hw", "eth1 fd00::1/64 hw"},
				{"eth0 10.2.0.1/24 hw", "eth1 fd00::2/64 hw"},
			}, nil, "eth1 eth1", "fd00::/64", "",
		},
		{
			"no carrier", [][]string{
				{"eth0 10.1.0.1/24 hw", "eth1 10.2.0.1/24 hw"},
				{"eth0 10.1.0.2/24 hw down", "eth1 10.2.0.2/24 hw"},
			}, nil, "eth1 eth1", "10.2.0.0/24", "",
		},
		{
			"an alias cannot be named", [][]string{
				{"eth0 10.5.0.1/24 hw", "eth0:1 10.1.0.1/24"},
				{"eth0 10.6.0.1/24 hw", "eth0:1 10.1.0.2/24"},
			}, nil, "eth0 -", "10.5.0.0/24", "",
		},
		{
			"a second address cannot be named", [][]string{
				{"eth0 10.5.0.1/24 hw", "eth0 10.1.0.1/24"},
				{"eth0 10.6.0.1/24 hw", "eth0 10.1.0.2/24"},
			}, nil, "eth0 -", "10.5.0.0/24", "",
		},
		{
			"masks that differ", [][]string{
				{"eth0 10.1.0.1/16 hw"},
				{"eth0 10.1.0.2/24 hw"},
			}, nil, "eth0 eth0", "10.1.0.0/16", "",
		},
		{
			"an address twice", [][]string{
				{"eth0 10.1.0.1/24 hw mac=02:00:00:00:00:01"},
				{"eth0 10.1.0.1/24 hw mac=02:00:00:00:00:02"},
			}, nil, "eth0 -", "10.1.0.0/24", "",
		},
		{
			"two agents of one machine", [][]string{
				{"eth0 10.1.0.1/24 hw mac=02:00:00:00:00:01"},
				{"eth0 10.1.0.1/24 hw mac=02:00:00:00:00:01"},
			}, nil, "eth0 eth0", "10.1.0.0/24", "",
		},
		{
			"routed networks that agents use", [][]string{
				{"eth0 192.0.2.1/24 hw", "eth1 10.1.0.1/24 hw"},
				{"eth0 198.51.100.1/24 hw", "eth1 10.2.0.1/24 hw"},
			}, []string{"10.1.0.1", "10.2.0.1"}, "eth1 eth1", "", "the agents reach each other",
		},
		{
			"two families that agents use", [][]string{
				{"eth1 10.1.0.1/24 hw"},
				{"eth1 fd00::1/64 hw"},
			}, []string{"10.1.0.1", "fd00::1"}, "eth1 -", "10.1.0.0/24", "",
		},
		{
			"of equal networks the one that agents use", [][]string{
				{"a 10.1.0.1/24 hw", "b 10.2.0.1/24 hw"},
				{"a 10.1.0.2/24 hw", "b 10.2.0.2/24 hw"},
			}, []string{"10.2.0.1", "10.2.0.2"}, "b b", "10.2.0.0/24", "",
		},
		{"nothing", [][]string{{"lo 127.0.0.1/8"}, {"lo 127.0.0.1/8"}}, nil, "- -", "", "no node has an address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var facts []Facts
			for _, lines := range c.nodes {
				facts = append(facts, node(t, lines...))
			}
			p := Suggest(facts, c.reached)
			var got []string
			for _, n := range p.Nodes {
				if (n.Iface == "") == (n.Why == "") {
					t.Errorf("%+v: either an interface or a reason", n)
				}
				if n.Iface == "" {
					n.Iface = "-"
				}
				got = append(got, n.Iface)
			}
			if strings.Join(got, " ") != c.want || p.Network != c.network || !strings.Contains(p.Why, c.why) {
				t.Errorf("got %v in %q because %q; want %s in %q because of %q", got, p.Network, p.Why, c.want, c.network, c.why)
			}
			if works := !strings.Contains(c.want, "-"); p.Works() != works {
				t.Errorf("works: %v", p.Works())
			}
		})
	}
}

// TestProposedNameGivesProposedAddress checks that libraries take the
// proposed address under the proposed name.
func TestProposedNameGivesProposedAddress(t *testing.T) {
	f := []Facts{
		node(t, "lo 127.0.0.1/8", "eth1 10.9.0.1/24 hw", "eth10 10.1.0.1/24 hw", "eth10 10.1.0.9/24", "eth10:1 10.1.0.8/24"),
		node(t, "lo 127.0.0.1/8", "eth1 10.8.0.1/24 hw", "eth2 10.1.0.2/24 hw"),
	}
	for n, p := range Suggest(f, nil).Nodes {
		nccl := Bootstrap(f[n], vars("NCCL_SOCKET_IFNAME=="+p.Iface), 0)
		gloo := Gloo(f[n], vars("GLOO_SOCKET_IFNAME="+p.Iface))
		if len(nccl.Picked) != 1 || nccl.Picked[0] != p.Pick || len(gloo.Picked) != 1 || gloo.Picked[0] != p.Pick {
			t.Errorf("node %d: proposed %v, NCCL takes %v, Gloo %v", n, p.Pick, nccl.Picked, gloo.Picked)
		}
	}
}

// TestSuggestNamesMissingCarrier checks a node whose cable is
// unplugged. The node still has the address.
func TestSuggestNamesMissingCarrier(t *testing.T) {
	p := Suggest([]Facts{node(t, "eth0 10.1.0.1/24 hw"), node(t, "eth0 10.2.0.2/24 hw", "eth1 10.1.0.2/24 hw down")}, nil)
	if why := p.Nodes[1].Why; p.Works() || !strings.Contains(why, "eth1 is down or has no carrier") || strings.Contains(why, "no address") {
		t.Errorf("%q", why)
	}
}

func TestByRequestFindsTheNodesInterface(t *testing.T) {
	f := node(t, "lo 127.0.0.1/8", "eth0 10.37.8.72/24 hw speed=1000", "eth0 10.40.0.1/24", "eth0:1 10.41.0.1/24",
		"docker0 10.37.200.1/24 kind=bridge", "bond0 10.37.9.1/24 kind=bond speed=100000", "eth5 10.50.0.1/24 hw down", "eth6 - hw", "eth0 fd00::1/64")
	for _, c := range []struct{ request, want, err string }{
		{"eth0", "eth0", ""},
		{"bond0", "bond0", ""},
		{"10.37.8.0/24", "eth0", ""},
		{"10.37.8.72", "eth0", ""},
		{"10.37.0.0/16", "bond0", ""}, // the best of three
		{"10.37.200.0/24", "docker0", ""},
		{"fd00::/64", "eth0", ""},
		{"bond1", "", "this node has no interface bond1; it has eth0 (10.37.8.72/24)"},
		{"eth6", "", "has no address"},
		{"eth5", "", "no carrier"},
		{"10.50.0.0/24", "", "no carrier"},
		{"10.37.12.0/24", "", "this node has no address in 10.37.12.0/24; it has"},
		{"127.0.0.0/8", "", "only loopback is in 127.0.0.0/8, which no other node reaches; this node has eth0 (10.37.8.72/24)"},
		{"127.0.0.1", "", "only loopback is in 127.0.0.1"},
		{"::1", "", "only loopback is in ::1"},
		{"10.40.0.0/24", "", "libraries take the first, 10.37.8.72"},
		{"10.41.0.0/24", "", "which NCCL_SOCKET_IFNAME cannot name"},
		{"^docker", "", "neither one interface's name nor a network"},
		{"eth0,eth1", "", "neither"},
		{"10.37.8.0/99", "", "neither"},
		{"", "", "neither"},
	} {
		got, err := ByRequest(f, c.request)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("--iface %q: %q, %v; want %q, %q", c.request, got, err, c.want, c.err)
		}
	}
}

func BenchmarkSuggest(b *testing.B) {
	var fleet []Facts
	for n := range 10_000 {
		fleet = append(fleet, node(b, "lo 127.0.0.1/8",
			fmt.Sprintf("eth0 10.1.%d.%d/16 hw speed=25000", n/250, n%250+1),
			fmt.Sprintf("cni0 10.%d.%d.1/24 kind=bridge", 100+n/250, n%250)))
	}
	for b.Loop() {
		if !Suggest(fleet, nil).Works() {
			b.Fatal("nothing proposed")
		}
	}
}
