package meet

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/spec"
)

func TestFindAddress(t *testing.T) {
	yes, no := true, false
	const elsewhere = "192.0.2.7" // TEST-NET-1: no machine has it
	outside := sourceAddress(elsewhere)
	at := func(hosts ...string) (es []spec.Endpoint) {
		for _, h := range hosts {
			es = append(es, spec.Endpoint{Host: h, Port: 29400})
		}
		return es
	}
	tests := []struct {
		name      string
		local     string
		endpoints []spec.Endpoint
		isHost    *bool
		want      address
		err       string
	}{
		{name: "the endpoint is here", endpoints: at("127.0.0.5"), want: address{"127.0.0.5", "127.0.0.5", 0}},
		{name: "the second endpoint is here", endpoints: at(elsewhere, "127.0.0.5"), want: address{"127.0.0.5", "127.0.0.5", 1}},
		{name: "two are here: the first", endpoints: at("127.0.0.5", "127.0.0.6"), want: address{"127.0.0.5", "127.0.0.5", 0}},
		{name: "localhost means it", endpoints: at("localhost"), want: address{"127.0.0.1", "127.0.0.1", 0}},
		{name: "--local-addr", local: "127.0.0.3", endpoints: at("127.0.0.5"), want: address{"127.0.0.3", "127.0.0.3", -1}},
		{name: "--local-addr is the endpoint's", local: "127.0.0.5", endpoints: at(elsewhere, "127.0.0.5"), want: address{"127.0.0.5", "127.0.0.5", 1}},
		{name: "an address behind NAT", local: elsewhere, endpoints: at("127.0.0.5"), want: address{elsewhere, "0.0.0.0", -1}},
		{name: "and of IPv6", local: "2001:db8::7", endpoints: at("127.0.0.5"), want: address{"2001:db8::7", "::", -1}},
		{name: "is_host says no", endpoints: at("127.0.0.5"), isHost: &no, want: address{"127.0.0.5", "127.0.0.5", -1}},
		{name: "is_host says yes", local: "127.0.0.3", endpoints: at(elsewhere), isHost: &yes, want: address{"127.0.0.3", "127.0.0.3", 0}},
		{name: "no such --local-addr", local: "no-such-host.invalid", endpoints: at("127.0.0.5"), err: "--local-addr no-such-host.invalid"},
		{name: "IPv6 loopback", endpoints: at("::1"), want: address{"::1", "::1", 0}},
	}
	if outside != "" {
		tests = append(tests, struct {
			name      string
			local     string
			endpoints []spec.Endpoint
			isHost    *bool
			want      address
			err       string
		}{name: "the endpoint is elsewhere", endpoints: at(elsewhere), want: address{outside, outside, -1}})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := spec.Network{LocalAddr: tt.local, Endpoints: tt.endpoints, Conf: spec.Conf{IsHost: tt.isHost}}
			got, err := findAddress(t.Context(), &n, nil)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// TestEndpointOnAnotherInterface checks that a node serves an endpoint that names another
// address of this machine than the scheduler does, and that nodes of one machine that
// have loopback addresses stay apart.
func TestEndpointOnAnotherInterface(t *testing.T) {
	outside := sourceAddress("192.0.2.7")
	if outside == "" {
		t.Skip("this machine has no route to others")
	}
	for endpoint, want := range map[string]address{
		outside:     {outside, outside, 0},
		"127.0.1.1": {"127.0.1.2", "127.0.1.2", -1},
		"127.0.1.2": {"127.0.1.2", "127.0.1.2", 0},
	} {
		n := spec.Network{Host: "127.0.1.2", Peer: "127.0.1.1", Endpoints: []spec.Endpoint{{Host: endpoint, Port: 29400}}}
		if got, err := findAddress(t.Context(), &n, nil); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", endpoint, got, err, want)
		}
	}
}

// TestAddressOf checks that a name with a loopback address stands for this node only
// if another node's name has one, too.
func TestAddressOf(t *testing.T) {
	for _, tt := range []struct{ host, peer, want string }{
		{"127.0.1.2", "127.0.1.1", "127.0.1.2"},
		{"127.0.1.2", "192.0.2.7", ""},
		{"127.0.1.2", "no-such-host.invalid", ""},
		{"192.0.2.7", "192.0.2.8", ""}, // this machine has no such address
	} {
		if got := addressOf(t.Context(), tt.host, tt.peer); got != tt.want {
			t.Errorf("%s beside %s: %q, want %q", tt.host, tt.peer, got, tt.want)
		}
	}
}

func TestPreferIPv4(t *testing.T) {
	var ips []netip.Addr
	for _, s := range []string{"::1", "2001:db8::7", "127.0.0.1", "192.0.2.7"} {
		ips = append(ips, netip.MustParseAddr(s))
	}
	if got, want := fmt.Sprint(preferIPv4(ips)), "[127.0.0.1 192.0.2.7 ::1 2001:db8::7]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestIsLocal(t *testing.T) {
	for ip, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "192.0.2.1": false, "2001:db8::1": false, "::ffff:127.0.0.1": true,
	} {
		if got := isLocal(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: %v", ip, got)
		}
	}
	for _, a := range interfaceAddrs(t) {
		// Other tests add and remove addresses: only an address that is still there counts.
		if !isLocal(a) && slices.Contains(interfaceAddrs(t), a) && !isLocal(a) {
			t.Errorf("%s is an interface's and not local", a)
		}
	}
}

// interfaceAddrs lists the addresses of this machine's interfaces.
func interfaceAddrs(t *testing.T) (all []netip.Addr) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p.Addr())
		}
	}
	return all
}

func TestExternalAddress(t *testing.T) {
	loop := netip.MustParseAddr("127.0.1.1")
	real := sourceAddress("192.0.2.1")
	if real == "" {
		real = "127.0.1.1" // no route to other machines: the address of the name
	}
	for host, want := range map[string]string{"127.0.1.1": "127.0.1.1", "localhost": "127.0.1.1", "myself": real} {
		if got := externalAddress(loop, host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if got := externalAddress(netip.MustParseAddr("192.0.2.9"), "myself"); got != "192.0.2.9" {
		t.Error(got)
	}
}

func TestListen(t *testing.T) {
	any, err := listen("127.0.0.1", spec.PortRange{})
	if err != nil {
		t.Fatal(err)
	}
	defer any.Close()
	var taken int
	if _, err := fmt.Sscan(portOf(any), &taken); err != nil {
		t.Fatal(err)
	}
	t.Run("exhausted", func(t *testing.T) {
		_, err := listen("127.0.0.1", spec.PortRange{Lo: taken, Hi: taken})
		if want := fmt.Sprintf("cannot open a port of %d-%d on 127.0.0.1: all are taken", taken, taken); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	})
	t.Run("in the range", func(t *testing.T) {
		r := spec.PortRange{Lo: 42000, Hi: 42500}
		l, err := listen("127.0.0.9", r)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var p int
		if _, err := fmt.Sscan(portOf(l), &p); err != nil || p < r.Lo || p > r.Hi {
			t.Errorf("port %d (%v)", p, err)
		}
	})
	t.Run("no such address", func(t *testing.T) {
		_, err := listen("192.0.2.1", spec.PortRange{Lo: 42000, Hi: 62000})
		if err == nil || strings.Contains(err.Error(), "taken") || !strings.Contains(err.Error(), "cannot open a port") {
			t.Error(err)
		}
	})
	t.Run("every port once", func(t *testing.T) {
		got := ports(spec.PortRange{Lo: 5, Hi: 9})
		slices.Sort(got)
		if fmt.Sprint(got) != "[5 6 7 8 9]" {
			t.Error(got)
		}
	})
}
