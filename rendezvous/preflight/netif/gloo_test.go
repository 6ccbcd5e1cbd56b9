package netif

import (
	"strings"
	"testing"
)

func TestGloosChoiceIsReproduced(t *testing.T) {
	lines := []string{"lo 127.0.0.1/8", "lo ::1/128", "eth0 10.0.0.1/24", "eth1 10.0.1.1/24", "eth1 fd00::1/64"}
	for _, c := range []struct {
		name  string
		lines []string
		host  []string
		env   string
		want  string
		why   string
	}{
		{"host name", lines, []string{"10.0.1.1"}, "", "eth1 10.0.1.1", "myhost resolves to, 10.0.1.1 (/etc/hosts)"},
		{"host name is loopback", lines, []string{"127.0.1.1"}, "", "lo 127.0.1.1", "127.0.1.1"},
		{"first that can be bound", lines, []string{"192.0.2.9", "fd00::1"}, "", "eth1 fd00::1", ""},
		{"host name of another", lines, []string{"192.0.2.9"}, "", "lo 127.0.0.1", "not an address of this node: torch falls back"},
		{"no host name", lines, nil, "", "lo 127.0.0.1", "resolves to nothing: torch falls back"},
		{"nothing to fall back on", []string{"eth0 10.0.0.1/24"}, nil, "", "", ""},
		{"exact name", lines, nil, "GLOO_SOCKET_IFNAME=eth1", "eth1 10.0.1.1", ""},
		{"two names", lines, nil, "GLOO_SOCKET_IFNAME=eth1,eth0", "eth1 10.0.1.1, eth0 10.0.0.1", ""},
		{"comma at the end", lines, nil, "GLOO_SOCKET_IFNAME=eth1,", "eth1 10.0.1.1", ""},
		{"prefix", lines, nil, "GLOO_SOCKET_IFNAME=eth", "", `called exactly "eth"`},
		{"NCCL's signs", lines, nil, "GLOO_SOCKET_IFNAME=^docker,lo", "", `called exactly "^docker"`},
		{"one of two is missing", lines, nil, "GLOO_SOCKET_IFNAME=eth0,eth7", "", `"eth7"`},
		{"one character is no name", lines, []string{"10.0.0.1"}, "GLOO_SOCKET_IFNAME=x", "eth0 10.0.0.1", ""},
		{"no carrier does not matter", []string{"eth0 10.0.0.1/24 down"}, nil, "GLOO_SOCKET_IFNAME=eth0", "eth0 10.0.0.1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := node(t, c.lines...)
			f.Host, f.Hostname, f.HostFrom, f.HostKnown = "myhost", c.host, "/etc/hosts", true
			got := Gloo(f, vars(c.env))
			if picks(got) != c.want || !strings.Contains(got.Why, c.why) || got.Unknown {
				t.Errorf("got %q because %q; want %q because of %q", picks(got), got.Why, c.want, c.why)
			}
		})
	}
}

func TestGloosChoiceIsUnknownWhenTheHostNameIs(t *testing.T) {
	f := node(t, "lo 127.0.0.1/8", "eth0 10.0.0.1/24")
	f.Host, f.HostError = "myhost", "the name server was not asked"
	if c := Gloo(f, vars()); !c.Unknown || !strings.Contains(c.Why, "was not asked") {
		t.Errorf("%+v", c)
	}
	if c := Gloo(f, vars("GLOO_SOCKET_IFNAME=eth0")); c.Unknown || picks(c) != "eth0 10.0.0.1" {
		t.Errorf("a name needs no resolver: %+v", c)
	}
}
