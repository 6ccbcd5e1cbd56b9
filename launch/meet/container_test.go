package meet

import (
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// TestBridgeHint checks in which networks a container has an address of its own that
// other machines do not reach.
func TestBridgeHint(t *testing.T) {
	lo := netif.Interface{Index: 1, Name: "lo", Loopback: true, Up: true}
	veth := netif.Interface{Index: 2, Name: "eth0", Kind: "veth", Up: true}
	tunnel := netif.Interface{Index: 3, Name: "sit0", Kind: "sit"}
	for name, c := range map[string]struct {
		address    string
		interfaces []netif.Interface
		hint       bool
	}{
		"a bridge":             {"172.17.0.2", []netif.Interface{lo, veth}, true},
		"a tunnel that is off": {"172.17.0.2", []netif.Interface{lo, tunnel, veth}, true},
		"the machine's own":    {"10.0.0.2", []netif.Interface{lo, {Index: 4, Name: "eth0", Up: true, Device: true}, {Index: 5, Name: "docker0", Kind: "bridge", Up: true}}, false},
		"macvlan":              {"10.0.0.2", []netif.Interface{lo, {Index: 6, Name: "eth0", Kind: "macvlan", Up: true}}, false},
		"loopback":             {"127.0.0.1", []netif.Interface{lo, veth}, false},
		"no address":           {"", []netif.Interface{lo, veth}, false},
	} {
		if got := bridgeHint(netif.Facts{Interfaces: c.interfaces}, c.address); (got != "") != c.hint {
			t.Errorf("%s: %q", name, got)
		}
	}
}
