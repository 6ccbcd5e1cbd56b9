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

// says checks the only finding.
func (l *lab) says(id string, parts ...string) {
	l.Helper()
	found := l.found()
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
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "bond0 10.77.0.2/24", "ens7 10.77.0.3/24")
	for _, p := range l.probe().Probes {
		if p.Result != preflight.OK || p.Seen != p.Source || !p.Large {
			t.Errorf("%+v", p)
		}
	}
	if found := l.found(); len(found) > 0 {
		t.Errorf("%q", found)
	}
}

func TestNetworkOfTwoSubnets(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.37.8.71/24", "eth0 10.37.8.72/24", "eth1 10.37.12.78/24")
	l.probe()
	l.expect(0, 1, preflight.OK)
	l.expect(0, 2, preflight.NoRoute)
	l.expect(2, 1, preflight.NoRoute)
	l.says("I02", "Nobody can connect to host2 (eth1 10.37.12.78), nor from there to anybody: no route.")
}

func TestNetworkWithAFirewallThatDrops(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.firewall(1, "-A INPUT -p tcp --syn -j DROP")
	l.probe()
	l.expect(0, 1, preflight.TimedOut)
	l.expect(2, 1, preflight.TimedOut)
	l.expect(1, 0, preflight.OK)
	l.says("I02", "Nobody can connect to host1 (eth0 10.77.0.2): timed out.")
}

func TestNetworkWithAFirewallThatRejects(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.firewall(1, "-A INPUT -p tcp --syn -s 10.77.0.1 -j REJECT --reject-with tcp-reset")
	l.firewall(1, "-A INPUT -p tcp --syn -s 10.77.0.3 -j REJECT --reject-with icmp-host-prohibited")
	l.probe()
	l.expect(0, 1, preflight.Refused)
	l.expect(2, 1, preflight.NoRoute)
	l.says("I02", "Nobody can connect to host1 (eth0 10.77.0.2): no route or refused.")
}

func TestNetworkWithAFirewallThatChoosesByPort(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24")
	_, port, _ := strings.Cut(target2(l, 1).Target, ":")
	l.firewall(1, "-A INPUT -p tcp --syn --dport "+port+" -j DROP")
	l.probe()
	l.expect(0, 1, preflight.OK, preflight.TimedOut)
	l.says("I04", "Some ports of an address can be connected to", "[[1] 10.77.0.2:"+port+" timed out")
}

// target2 is the second listener of a host.
func target2(l *lab, host int) Target {
	for _, p := range Plans(&l.fleet) {
		for _, g := range p.Targets {
			if g.To == host && g.Use == preflight.UseData {
				return g
			}
		}
	}
	return Target{}
}

// The hosts believe in packets of 9000 bytes, and the switch's port of one of
// them passes 1500: it drops what is larger, as switches do, without a word.
func TestNetworkThatDropsLargePackets(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	for i := range l.nodes {
		l.ip(i, "link set eth0 mtu 9000")
		l.ip(i, "link set eth0 gso_max_segs 1") // a veth does not cut large packets up
	}
	l.ip(-1, "link set p1 mtu 1500")
	l.probe()
	l.expect(0, 2, preflight.OK)
	l.expect(0, 1, preflight.Stalled)
	l.expect(1, 2, preflight.Stalled)
	l.says("I05", "Large packets do not pass to or from host1 (eth0 10.77.0.2): stalled.")
}

// Who asks for an address that two hosts hold gets the one or the other, and it
// may change in the middle: whatever the probes find, it is told as that.
func TestNetworkWithAnAddressTwice(t *testing.T) {
	t.Parallel()
	one := Ports{41000, 41000} // so that the other holder answers
	l := newLab(t, one, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.2/24")
	l.probe()
	if slices.Equal(l.results(0, 1), l.results(0, 2)) && slices.Contains(l.results(0, 1), preflight.OK) {
		t.Error("both hold the address, and both answered as themselves")
	}
	l.says("I06", "10.77.0.2", "[1 2]")
}

func TestNetworkWithAnInterfaceDown(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.ip(1, "link set eth0 down")
	l.probe()
	l.expect(0, 2, preflight.OK)
	l.expect(0, 1, preflight.NoRoute)
	l.expect(1, 0, preflight.NoRoute)
	l.says("I02", "Nobody can connect to host1 (eth0 10.77.0.2), nor from there to anybody: no route.")
}

func TestNetworkAfterAnAddressIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24", "eth0 10.77.0.3/24")
	l.ip(1, "addr del 10.77.0.2/24 dev eth0")
	l.probe()
	l.expect(1, 0, preflight.NoAddress)
	l.expect(0, 1, preflight.NoRoute)
	l.says("I02", "host1 (eth0 10.77.0.2)", "no address")
}

func TestNetworkThatTranslates(t *testing.T) {
	t.Parallel()
	l := newLab(t, Ports{}, "eth0 10.77.0.1/24", "eth0 10.77.0.2/24")
	l.ip(0, "addr add 10.77.0.99/24 dev eth0")
	l.firewall(0, "-t nat -A POSTROUTING -p tcp -j SNAT --to-source 10.77.0.99")
	l.probe()
	l.expect(0, 1, preflight.OtherSource)
	l.expect(1, 0, preflight.OK)
	l.says("I02", "10.77.0.1 arrives as 10.77.0.99")
}
