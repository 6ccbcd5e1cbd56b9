package tcp

import (
	"net/netip"
	"testing"
)

func TestChooseAddr(t *testing.T) {
	prefixes := func(list ...string) (of []netip.Prefix) {
		for _, p := range list {
			of = append(of, netip.MustParsePrefix(p))
		}
		return of
	}
	for _, tc := range []struct {
		want string
		of   []netip.Prefix
		got  string
	}{
		{"10.0.0.2", nil, "10.0.0.2"},
		{"", nil, ""},
		{"10.0.0.2", prefixes("192.168.0.7/24"), "192.168.0.7"},
		{"10.0.0.2", prefixes("192.168.0.7/24", "10.0.0.2/8"), "10.0.0.2"},
		{"10.0.0.2", prefixes("fe80::1/64", "fd00::7/64", "192.168.0.7/24"), "192.168.0.7"},
		{"fd01::2", prefixes("192.168.0.7/24", "fd00::7/64"), "fd00::7"},
		{"fd01::2", prefixes("192.168.0.7/24"), "192.168.0.7"},
		{"", prefixes("fd00::7/64", "192.168.0.7/24"), "192.168.0.7"},
		{"10.0.0.2", prefixes("fe80::1/64"), "10.0.0.2"},
		{"127.0.0.3", prefixes("127.0.0.1/8", "::1/128"), "127.0.0.3"},
		{"node1", prefixes("192.168.0.7/24"), "192.168.0.7"},
	} {
		if got := chooseAddr(tc.want, tc.of); got != tc.got {
			t.Errorf("%q of %v: %q, want %q", tc.want, tc.of, got, tc.got)
		}
	}
	if got := (Listen{Addr: "127.0.0.9", Iface: "lo"}).host(); got != "127.0.0.9" {
		t.Errorf("on lo: %q", got)
	}
	if got := (Listen{Addr: "127.0.0.9", Iface: "no-such-iface"}).host(); got != "127.0.0.9" {
		t.Errorf("without the interface: %q", got)
	}
}
