package meet

import (
	"net/netip"
	"testing"

	"github.com/gorun/gorun/launch/spec"
)

func TestIsNameOf(t *testing.T) {
	names := []string{"job-0", "job-0.svc.default.svc.cluster.local"}
	for host, want := range map[string]bool{
		"job-0": true, "JOB-0": true, "job-0.svc": true, "job-0.svc.default.svc.cluster.local.": true,
		"job-00": false, "job-0.sv": false, "job": false, "svc": false, "": false, "10.0.0.1": false, "job-1.svc": false,
	} {
		if got := isNameOf(host, names); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// TestStandsForSeveral checks which names stand for several nodes, or may do so.
func TestStandsForSeveral(t *testing.T) {
	at := func(list ...string) (out []netip.AddrPort) {
		for _, s := range list {
			out = append(out, netip.AddrPortFrom(netip.MustParseAddr(s), 1))
		}
		return out
	}
	for _, tt := range []struct {
		name, host string
		elastic    bool
		addrs      []netip.AddrPort
		want       bool
	}{
		{"this machine's own name", "job-0.svc", true, at("127.0.0.1"), false},
		{"its own name in a domain", "job-0.example", true, at("127.0.0.1"), false},
		{"another name of it", "svc", false, at("127.0.0.1"), false},
		{"which may grow", "svc", true, at("127.0.0.1"), true},
		{"two of its addresses", "svc", false, at("127.0.0.1", "127.0.0.2"), false},
		{"the address that others reach", "job-0.svc", true, at("203.0.113.1"), false},
		{"it and others", "svc", false, at("127.0.0.1", "203.0.113.2"), true},
		{"its own name at another machine", "job-0.svc", false, at("203.0.113.2"), true},
		{"one of another machine", "job-1.svc", true, at("203.0.113.2"), false},
		{"several others", "svc", false, at("203.0.113.2", "203.0.113.3"), true},
	} {
		ns := newNames(&spec.Network{}, "203.0.113.1", tt.elastic)
		ns.own = []string{"job-0", "job-0.svc.default"}
		ns.asked["svc 127.0.0.1"], ns.asked["svc 203.0.113.2"] = false, false
		if got := ns.standsForSeveral(t.Context(), tt.host, tt.addrs); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	ns := newNames(&spec.Network{}, "203.0.113.1", true)
	ns.asked["h2 203.0.113.2"] = true
	if ns.standsForSeveral(t.Context(), "h2", at("203.0.113.2", "203.0.113.3")) {
		t.Error("a machine with two addresses is several nodes")
	}
}

// TestOwnNameServesTheEndpoint checks a node whose own name is the endpoint, and unknown to
// DNS.
func TestOwnNameServesTheEndpoint(t *testing.T) {
	n := spec.Network{LocalAddr: "127.0.0.7", Endpoints: []spec.Endpoint{{Host: "job-0.invalid", Port: 1}, {Host: "job-1.invalid", Port: 1}}}
	for name, want := range map[string]int{"job-0.invalid": 0, "job-1.invalid.cluster": 1, "job-2.invalid": -1} {
		at, err := findAddress(t.Context(), &n, []string{name})
		if err != nil || at.endpoint != want || at.ip != "127.0.0.7" {
			t.Errorf("%s: %+v, %v", name, at, err)
		}
	}
}
