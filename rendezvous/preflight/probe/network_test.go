package probe

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// expect compares what a node found at another one.
func (l *lab) expect(from, to int, want ...preflight.Result) {
	l.Helper()
	if got := l.results(from, to); !slices.Equal(got, want) {
		l.Errorf("%d -> %d: %q, want %q", from, to, got, want)
	}
}

// expectFinding checks the only finding.
func (l *lab) expectFinding(id string, parts ...string) {
	l.Helper()
	found := l.findings()
	if len(found) != 1 {
		l.Errorf("%d findings: %q", len(found), found)
	}
	for _, p := range parts {
		if !strings.Contains(found[id], p) {
			l.Errorf("%s does not say %q: %q", id, p, found[id])
		}
	}
}

func TestNetworkThatWorks(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "bond0 10.77.0.2/24", "ens7 10.77.0.3/24")
	for _, p := range l.probe().Probes {
		if p.Result != preflight.OK || p.Seen != p.Source || p.Large == (p.Use == preflight.UsePorts) || p.RoundMS <= 0 || p.Sent < 2 {
			t.Errorf("%+v", p)
		}
	}
	if found := l.findings(); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

func TestNetworkOfTwoSubnets(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.37.8.71/24", "eth0 10.37.8.72/24", "eth1 10.37.12.78/24")
	l.probe()
	l.expect(0, 1, preflight.OK)
	l.expect(0, 2, preflight.NoRoute)
	l.expect(2, 1, preflight.NoRoute)
	l.expectFinding("I02", "No connection to or from host2 (eth1 10.37.12.78): no route.")
}

func TestNetworkWithAFirewallThatDrops(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.firewall(1, "-A INPUT -p tcp --syn -j DROP")
	l.probe()
	l.expect(0, 1, preflight.TimedOut)
	l.expect(2, 1, preflight.TimedOut)
	l.expect(1, 0, preflight.OK)
	l.expectFinding("I02", "No node can connect to host1 (eth0 10.77.0.2): timed out.")
}

func TestNetworkWithAFirewallThatRejects(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.firewall(1, "-A INPUT -p tcp --syn -s 10.77.0.1 -j REJECT --reject-with tcp-reset")
	l.firewall(1, "-A INPUT -p tcp --syn -s 10.77.0.3 -j REJECT --reject-with icmp-host-prohibited")
	l.probe()
	l.expect(0, 1, preflight.Refused)
	if got := l.results(2, 1); !slices.Contains(got, preflight.NoRoute) || slices.Contains(got, preflight.OK) { // the kernel limits the rate of such answers
		t.Errorf("2 -> 1: %q", got)
	}
	l.expectFinding("I02", "No node can connect to host1 (eth0 10.77.0.2): ", "refused")
}

// defaultPorts returns the ports that Linux gives programs.
func defaultPorts() Ports { return Ports{Lo: 32768, Hi: 60999} }

func TestNetworkWithAFirewallThatChoosesByPort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host int
		rule string
		want preflight.Result
		says string
	}{
		"drops":         {1, "-A INPUT -p tcp --dport 50000:60999 -j DROP", preflight.TimedOut, "[[1] 5"},
		"rejects":       {1, "-A INPUT -p tcp --syn --dport 45000:60999 -j REJECT --reject-with tcp-reset", preflight.Refused, "[[1] 4"},
		"drops its own": {2, "-A OUTPUT -p tcp --syn --dport 50000:60999 -j DROP", preflight.TimedOut, "[[2] 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
			l.firewall(c.host, c.rule)
			l.probe()
			if c.host == 1 {
				l.expect(0, 1, preflight.OK, c.want)
				l.expect(0, 2, preflight.OK)
			} else {
				l.expect(2, 1, preflight.OK, c.want)
				l.expect(0, 1, preflight.OK)
			}
			l.expectFinding("I04", "Some ports of ", c.says, string(c.want)+" (", "open (")
		})
	}
}

// TestNetworkThatLosesPackets checks that lost packets are reported as such,
// not as closed ports or as a matter of packet size. The lost ones are counted, not
// chosen at random, and all of a kind that is sent again: what opens a connection, and
// what carries data.
func TestNetworkThatLosesPackets(t *testing.T) {
	t.Parallel()
	for _, every := range []string{"6", "3"} {
		t.Run(every, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24")
			for _, packets := range []string{"--syn", "--tcp-flags PSH PSH"} {
				l.firewall(1, "-A INPUT -i eth0 -p tcp "+packets+" -m statistic --mode nth --every "+every+" --packet 0 -j DROP")
			}
			l.probe()
			l.expectFinding("I15", "had to be sent again")
		})
	}
}

func TestNetworkThatIsSlow(t *testing.T) {
	t.Parallel()
	for _, rate := range []string{"1mbit", "10mbit"} {
		t.Run(rate, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24")
			l.do("tc", "-n", l.host(-1), "qdisc", "replace", "dev", "p1", "root", "tbf", "rate", rate, "burst", "32k", "latency", "100ms")
			for i := range l.fleet.Nodes { // one payload, of which half passes at once
				l.fleet.Nodes[i].Listeners = l.fleet.Nodes[i].Listeners[:1]
			}
			l.probe()
			l.expectFinding("I16", "Mbit/s were seen")
		})
	}
}

// TestNetworkThatDropsLargePackets has hosts with an MTU of 9000 bytes, while
// the switch's port of one host passes 1500. The port silently drops what is
// larger, as switches do.
func TestNetworkThatDropsLargePackets(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	for i := range l.nodes {
		l.ip(i, "link set eth0 mtu 9000")
		l.ip(i, "link set eth0 gso_max_segs 1") // a veth does not split large packets
	}
	l.ip(-1, "link set p1 mtu 1500")
	l.probe()
	l.expect(0, 2, preflight.OK)
	l.expect(0, 1, preflight.OK, preflight.Stalled) // small packets pass
	l.expect(1, 2, preflight.OK, preflight.Stalled)
	l.expectFinding("I05", "Large packets do not pass to or from host1 (eth0 10.77.0.2): stalled.")
}

// TestNetworkWithAnAddressTwice checks that an address which two hosts hold is
// reported as such, whatever the probes find. A probe reaches either of the
// hosts, and that may change in the middle.
func TestNetworkWithAnAddressTwice(t *testing.T) {
	t.Parallel()
	one := Ports{Lo: 41000, Hi: 41000} // so that the other holder answers
	l := newLab(t, one, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.2/24")
	l.probe()
	if slices.Equal(l.results(0, 1), l.results(0, 2)) && slices.Contains(l.results(0, 1), preflight.OK) {
		t.Error("both hold the address, and both answered as themselves")
	}
	l.expectFinding("I06", "10.77.0.2", "[1 2]")
}

func TestNetworkWithAnInterfaceDown(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.ip(1, "link set eth0 down")
	l.probe()
	l.expect(0, 2, preflight.OK)
	l.expect(0, 1, preflight.NoRoute)
	l.expect(1, 0, preflight.NoRoute)
	l.expectFinding("I02", "No connection to or from host1 (eth0 10.77.0.2): no route.")
}

func TestNetworkAfterAnAddressIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.ip(1, "addr del 10.77.0.2/24 dev eth0")
	l.probe()
	l.expect(1, 0, preflight.NoAddress)
	// The kernel drops packets of some probes from its queue for a neighbour that it does
	// not know: they time out.
	if got := l.results(0, 1); !slices.Contains(got, preflight.NoRoute) || slices.Contains(got, preflight.OK) {
		l.Errorf("0 -> 1: %q, want %q", got, preflight.NoRoute)
	}
	l.expectFinding("I02", "host1 (eth0 10.77.0.2)", "no address")
}

func TestNetworkThatTranslates(t *testing.T) {
	t.Parallel()
	l := newLab(t, defaultPorts(), "eth0 10.77.0.1/24", "eth0 10.77.0.2/24")
	l.ip(0, "addr add 10.77.0.99/24 dev eth0")
	l.firewall(0, "-t nat -A POSTROUTING -p tcp -j SNAT --to-source 10.77.0.99")
	l.probe()
	l.expect(0, 1, preflight.OtherSource)
	l.expect(1, 0, preflight.OK)
	l.expectFinding("I02", "10.77.0.1 arrives as 10.77.0.99")
}
