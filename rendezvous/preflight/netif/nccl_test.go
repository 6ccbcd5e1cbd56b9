package netif

import (
	"fmt"
	"strings"
	"testing"
)

// TestNCCLsChoiceIsReproduced holds the vectors of NCCL's choice. A version in
// a case is one before 2.28.3.
func TestNCCLsChoiceIsReproduced(t *testing.T) {
	lo := "lo 127.0.0.1/8"
	lo6 := "lo ::1/128"
	eth0 := "eth0 10.0.0.1/24"
	eth1 := "eth1 10.0.1.1/24"
	docker := "docker0 172.17.0.1/16 kind=bridge"
	many := []string{lo}
	var sixteen []string
	for i := range 17 {
		many = append(many, fmt.Sprintf("eth%d 10.0.%d.1/24", i, i))
		if i < 16 {
			sixteen = append(sixteen, fmt.Sprintf("eth%d 10.0.%d.1", i, i))
		}
	}
	for _, c := range []struct {
		name  string
		nodes []string
		env   string
		code  int
		want  string
		why   string // a part of Choice.Why
	}{
		{"nothing set", []string{lo, lo6, eth0, docker}, "", 0, "eth0 10.0.0.1", "not set: NCCL takes every name but docker*, lo* and virbr*"},
		{"every interface", []string{lo, eth0, eth1}, "", 0, "eth0 10.0.0.1, eth1 10.0.1.1", ""},
		{"ib first", []string{lo, eth0, "ib0 10.1.0.1/24", "ibs2 10.1.1.1/24"}, "", 0, "ib0 10.1.0.1, ibs2 10.1.1.1", "begin with ib"},
		{"ib without carrier", []string{lo, eth0, "ib0 10.1.0.1/24 down"}, "", 0, "eth0 10.0.0.1", "ib0 left out: no carrier"},
		{"ib without carrier, before 2.28.3", []string{lo, eth0, "ib0 10.1.0.1/24 down"}, "", 22802, "ib0 10.1.0.1", ""},
		{"only docker", []string{lo, docker}, "", 0, "docker0 172.17.0.1", "there is nothing else"},
		{"only lo", []string{lo, lo6}, "", 0, "lo 127.0.0.1", "no other node can reach"},
		{"only virbr", []string{"virbr0 192.168.122.1/24"}, "", 0, "virbr0 192.168.122.1", ""},
		{"lo before virbr", []string{lo, "virbr0 192.168.122.1/24"}, "", 22803, "lo 127.0.0.1", ""},
		{"virbr before 2.28.3", []string{lo, "virbr0 192.168.122.1/24"}, "", 22803 - 1, "virbr0 192.168.122.1", ""},
		{"br- is an interface like any", []string{lo, eth0, "br-1234 172.18.0.1/16"}, "", 0, "eth0 10.0.0.1, br-1234 172.18.0.1", ""},
		{"IPv4 before IPv6", []string{lo, "eth0 fd00::1/64", "eth0 10.0.0.1/24"}, "", 0, "eth0 10.0.0.1", ""},
		{"IPv6 only", []string{lo, lo6, "eth0 fd00::1/64", "eth0 fe80::1/64"}, "", 0, "eth0 fd00::1", ""},
		{"no address at all", []string{"eth0 10.0.0.1/24 down"}, "", 0, "", "nothing is left of eth0"},

		{"prefix", []string{lo, eth0, eth1}, "NCCL_SOCKET_IFNAME=eth", 0, "eth0 10.0.0.1, eth1 10.0.1.1", "NCCL_SOCKET_IFNAME=eth takes names that begin with eth"},
		{"prefix of a longer name", []string{lo, eth1, "eth10 10.0.2.1/24"}, "NCCL_SOCKET_IFNAME=eth1", 0, "eth1 10.0.1.1, eth10 10.0.2.1", ""},
		{"exact", []string{lo, eth1, "eth10 10.0.2.1/24"}, "NCCL_SOCKET_IFNAME==eth1", 0, "eth1 10.0.1.1", "takes only eth1"},
		{"exact prefix", []string{lo, eth0}, "NCCL_SOCKET_IFNAME==eth", 0, "", "takes only eth; nothing is left of lo, eth0"},
		{"exact list, one sign", []string{lo, eth0, eth1}, "NCCL_SOCKET_IFNAME==eth0,eth1", 0, "eth0 10.0.0.1, eth1 10.0.1.1", ""},
		{"exact list, a sign each", []string{lo, eth0, eth1}, "NCCL_SOCKET_IFNAME==eth0,=eth1", 0, "eth0 10.0.0.1", ""},
		{"two signs", []string{lo, eth0}, "NCCL_SOCKET_IFNAME===eth0", 0, "eth0 10.0.0.1", ""},
		{"order is the node's, not the list's", []string{lo, eth0, eth1}, "NCCL_SOCKET_IFNAME=eth1,eth0", 0, "eth0 10.0.0.1, eth1 10.0.1.1", ""},
		{"missing", []string{lo, eth0}, "NCCL_SOCKET_IFNAME=bond0", 0, "", "nothing is left of lo, eth0"},
		{"one character is no list", []string{lo, eth0}, "NCCL_SOCKET_IFNAME=x", 0, "eth0 10.0.0.1", "not set"},
		{"only commas take all", []string{lo, eth0}, "NCCL_SOCKET_IFNAME=,,", 0, "lo 127.0.0.1, eth0 10.0.0.1", "takes every name"},
		{"an empty exclusion takes nothing", []string{lo, eth0}, "NCCL_SOCKET_IFNAME=^,", 0, "", "excludes every name"},
		{"exclusion keeps lo", []string{lo, lo6, eth0, docker}, "NCCL_SOCKET_IFNAME=^docker0", 0, "lo 127.0.0.1, eth0 10.0.0.1", "excludes only names that begin with docker0; lo comes first"},
		{"exclusion as it should be", []string{lo, lo6, eth0, docker}, "NCCL_SOCKET_IFNAME=^docker,lo", 0, "eth0 10.0.0.1", "begin with docker or lo"},
		{"exact exclusion", []string{lo, eth1, "eth10 10.0.2.1/24"}, "NCCL_SOCKET_IFNAME=^=eth1,lo", 0, "eth10 10.0.2.1", "excludes only eth1 or lo"},
		{"exclusion signs in the list", []string{lo, eth0, eth1}, "NCCL_SOCKET_IFNAME=^lo,^eth0", 0, "eth0 10.0.0.1, eth1 10.0.1.1", ""},
		{"alias", []string{lo, eth0, "eth0:1 10.0.9.1/24"}, "", 0, "eth0 10.0.0.1, eth0:1 10.0.9.1", ""},
		{"alias by prefix", []string{lo, eth0, "eth0:1 10.0.9.1/24"}, "NCCL_SOCKET_IFNAME=eth0", 0, "eth0 10.0.0.1, eth0:1 10.0.9.1", ""},
		{"alias cannot be named", []string{lo, eth0, "eth0:1 10.0.9.1/24"}, "NCCL_SOCKET_IFNAME==eth0:1", 0, "eth0 10.0.0.1", ""},
		{"second address of a name", []string{lo, eth0, "eth0 10.0.9.1/24"}, "", 0, "eth0 10.0.0.1", ""},
		{"no carrier", []string{lo, eth0, "eth1 10.0.1.1/24 down"}, "NCCL_SOCKET_IFNAME=eth", 0, "eth0 10.0.0.1", "eth1 left out: no carrier"},
		{"no carrier, before 2.28.3", []string{lo, eth0, "eth1 10.0.1.1/24 down"}, "NCCL_SOCKET_IFNAME=eth1", 22707, "eth1 10.0.1.1", ""},
		{"17 interfaces", many, "", 0, strings.Join(sixteen, ", "), ""},
		{"17 names", many, "NCCL_SOCKET_IFNAME==e0,e1,e2,e3,e4,e5,e6,e7,e8,e9,ea,eb,ec,ed,ee,ef,eth0", 0, "", ""},

		{"IPv6 forced, IPv4 only", []string{lo, lo6, eth0}, "NCCL_SOCKET_FAMILY=AF_INET6", 0, "", "NCCL_SOCKET_FAMILY=AF_INET6 leaves only IPv6; nothing is left"},
		{"IPv6 forced", []string{lo, lo6, eth0, "eth0 fd00::1/64"}, "NCCL_SOCKET_FAMILY=AF_INET6", 0, "eth0 fd00::1", ""},
		{"IPv4 forced, IPv6 only", []string{lo6, "eth0 fd00::1/64"}, "NCCL_SOCKET_FAMILY=AF_INET", 0, "", ""},
		{"a family NCCL does not know", []string{lo, eth0}, "NCCL_SOCKET_FAMILY=inet6", 0, "eth0 10.0.0.1", ""},

		{"comm id", []string{lo, eth0, eth1}, "NCCL_COMM_ID=10.0.1.7:4000", 0, "eth1 10.0.1.1", "in the subnet of eth1"},
		{"comm id, ib first", []string{lo, eth0, "ib0 10.1.0.1/24"}, "NCCL_COMM_ID=10.0.0.7:4000", 0, "ib0 10.1.0.1", ""},
		{"comm id elsewhere", []string{lo, eth0, eth1}, "NCCL_COMM_ID=10.9.9.9:4000", 0, "eth0 10.0.0.1, eth1 10.0.1.1", "in no subnet"},
		{"comm id, IPv6", []string{lo, eth0, "eth1 fd00::1/64"}, "NCCL_COMM_ID=[fd00::9]:4000", 0, "eth1 fd00::1", ""},
		{"comm id, no family filter", []string{lo, eth0}, "NCCL_COMM_ID=10.0.0.7:1 NCCL_SOCKET_FAMILY=AF_INET6", 0, "eth0 10.0.0.1", ""},
		{"comm id is wrong", []string{lo, eth0}, "NCCL_COMM_ID=[fd00::9", 0, "", "is not <IPv4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NCCL(node(t, c.nodes...), vars(strings.Fields(c.env)...), c.code)
			if picks(got) != c.want || !strings.Contains(got.Why, c.why) || got.Unknown {
				t.Errorf("got %q because %q; want %q because of %q", picks(got), got.Why, c.want, c.why)
			}
		})
	}
}

func TestNCCLsChoiceNamesWhatHasNoCarrier(t *testing.T) {
	f := node(t, "lo 127.0.0.1/8", "ib0 10.1.0.1/24 down", "eth0 10.0.0.1/24", "eth1 10.0.1.1/24 down")
	for _, code := range []int{22802, 22803} {
		for env, want := range map[string]string{"": "ib0 eth1", "NCCL_SOCKET_IFNAME=eth": "eth1", "NCCL_SOCKET_IFNAME==eth0": ""} {
			if code == 22802 && env == "" {
				want = "ib0" // NCCL picks it; the other interfaces do not matter
			}
			if got := strings.Join(NCCL(f, vars(env), code).Down, " "); got != want {
				t.Errorf("NCCL %d with %q: without carrier %q, want %q", code, env, got, want)
			}
		}
	}
}

func TestWhatFactsDoNotDecideIsUnknown(t *testing.T) {
	if c := NCCL(Facts{}, vars(), 0); !c.Unknown || len(c.Picked) > 0 {
		t.Errorf("without interfaces: %+v", c)
	}
	c := NCCL(node(t, "eth0 10.0.0.1/24"), vars("NCCL_COMM_ID=head:4000"), 0)
	if !c.Unknown || len(c.Picked) > 0 || !strings.Contains(c.Why, "names a host") {
		t.Errorf("with a host name in NCCL_COMM_ID: %+v", c)
	}
}

func TestBootstrapUsesOneAddress(t *testing.T) {
	f := node(t, "lo 127.0.0.1/8", "eth0 10.0.0.1/24", "eth1 10.0.1.1/24")
	for env, want := range map[string]string{
		"":                        "eth0 10.0.0.1",
		"NCCL_SOCKET_IFNAME=eth1": "eth1 10.0.1.1",
		"NCCL_SOCKET_IFNAME=eth0 NCCL_COMM_ID=10.0.1.7:1": "eth1 10.0.1.1",
		"NCCL_SOCKET_IFNAME=eth0 NCCL_COMM_ID=10.9.1.7:1": "",
	} {
		if got := Bootstrap(f, vars(strings.Fields(env)...), 0); picks(got) != want {
			t.Errorf("%q: got %q (%s), want %q", env, picks(got), got.Why, want)
		}
	}
}

func FuzzNCCLIfname(f *testing.F) {
	for _, s := range []string{"^docker0", "=eth0,eth1", "^=a:1,b", ",,", "==", "^^lo", "eth0:99999999999999999999"} {
		f.Add(s, "10.0.0.1:4000")
	}
	f.Fuzz(func(t *testing.T, list, id string) {
		facts := node(t, "lo 127.0.0.1/8", "eth0 10.0.0.1/24", "eth0:1 10.0.0.2/24", "eth1 fd00::1/64")
		env := vars("NCCL_SOCKET_IFNAME="+list, "NCCL_COMM_ID="+id)
		for _, code := range []int{0, 22707} {
			c := NCCL(facts, env, code)
			if len(c.Picked) > maxInterfaces || c.Why == "" {
				t.Errorf("%+v", c)
			}
			Bootstrap(facts, env, code)
		}
		Gloo(facts, vars("GLOO_SOCKET_IFNAME="+list))
		if name, err := ByRequest(facts, list); err == nil {
			if _, ok := facts.firstAddress(name); !ok {
				t.Errorf("--iface %q gives %q, which is not there", list, name)
			}
		}
	})
}
