package preflight_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func TestFactsTravelUnchanged(t *testing.T) {
	for _, f := range []*preflight.Fleet{preflighttest.H100s(2), preflighttest.CPUs(1)} {
		for _, n := range f.Nodes {
			n.Unknown = []preflight.Unknown{{"gpu", "a reason"}}
			n.Listeners = []preflight.Listener{{"eth0", "10.0.0.1", 4711, preflight.UseBootstrap, []int{4711, 4713}}, {"eth0", "fe80::1%eth0", 4712, preflight.UseGloo, nil}}
			b, err := preflight.Encode(n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := preflight.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, n) {
				t.Errorf("came as %+v, was %+v", got, n)
			}
		}
	}
}

func TestEncodeStaysWithinBounds(t *testing.T) {
	n := preflighttest.H100s(1).Nodes[0]
	n.Program.Args = make([]string, 5000)
	for i := range n.Program.Args {
		n.Program.Args[i] = strings.Repeat("x", 300)
	}
	for i := range 3000 {
		n.Network.Interfaces = append(n.Network.Interfaces, netif.Interface{Index: i + 4, Name: fmt.Sprint("veth", i)})
	}
	preflighttest.Set(&n, "NCCL_ALGO", "\x1b[2Jü\xff\n")
	n.Program.Dir = strings.Repeat("ü", 100_000)
	before := len(n.Program.Args)
	b, err := preflight.Encode(n)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > preflight.MaxSize {
		t.Fatalf("%d bytes", len(b))
	}
	got, err := preflight.Decode(b)
	if err != nil {
		t.Fatalf("what was encoded is refused: %v", err)
	}
	if v := got.Env("NCCL_ALGO"); v != "?[2Jü??" {
		t.Errorf("NCCL_ALGO=%q", v)
	}
	if len(got.Unknown) != 1 || got.Unknown[0].Source != "facts" || !strings.Contains(got.Unknown[0].Why, "cut to") {
		t.Errorf("it does not say that something is missing: %+v", got.Unknown)
	}
	if got.Network.Interfaces[1].Name != "eth0" {
		t.Errorf("the first interfaces are missing: %+v", got.Network.Interfaces)
	}
	if len(n.Program.Args) != before || n.Program.Args[0] != strings.Repeat("x", 300) {
		t.Error("the caller's facts have changed")
	}
}

func TestDecodeRefuses(t *testing.T) {
	with := func(change func(n *preflight.Facts)) string {
		n := preflighttest.CPUs(1).Nodes[0]
		change(&n)
		b, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "not JSON"},
		{"a list", "[]", "it holds a JSON list, not the facts of a node"},
		{"a number", "7.5", "it holds a JSON number, not the facts of a node"},
		{"an invalid address", with(func(n *preflight.Facts) { n.Network.Addresses[0].IP = "garbage" }), `at "garbage", which is not an IP address`},
		{"an address with a long prefix", with(func(n *preflight.Facts) { n.Network.Addresses[0].Bits = 33 }), "127.0.0.1/33"},
		{"a host name with an invalid address", with(func(n *preflight.Facts) { n.Network.Hostname = []string{"node1"} }), `at "node1", which is not an IP address`},
		{"another format", `{"format":2}`, "use the same gorun on every node"},
		{"no format", `{}`, "format 0"},
		{"a string for a number", `{"format":1,"host":{"cpus":"many"}}`, "not as gorun writes them"},
		{"too large", `{"format":1,"program":{"dir":"` + strings.Repeat("x", preflight.MaxSize) + `"}}`, "at most"},
		{"a long text", with(func(n *preflight.Facts) { n.Program.Dir = strings.Repeat("x", 16<<10+1) }), "facts.Program.Dir: a text of"},
		{"a long list", with(func(n *preflight.Facts) { n.Program.Args = make([]string, 1025) }), "facts.Program.Args: a list of 1025 entries"},
		{"an escape in a name", with(func(n *preflight.Facts) { n.Node.Host = "a\x1b[2J" }), "facts.Node.Host: a text with control characters"},
		{"a line break in a list", with(func(n *preflight.Facts) { n.Settings[0].Value = "a\nb" }), "control characters"},
		{"a text that changes its direction", with(func(n *preflight.Facts) { n.Node.Host = "a\u202eb" }), "control characters"},
		{"too many workers", with(func(n *preflight.Facts) { n.Node.Workers = 1<<16 + 1 }), "65537 workers"},
		{"a negative number of workers", with(func(n *preflight.Facts) { n.Node.Workers = -1 }), "-1 workers"},
		{"a listener at a host name", with(func(n *preflight.Facts) {
			n.Listeners = []preflight.Listener{{"eth0", "example.com", 22, preflight.UseData, nil}}
		}), `"example.com", which is not an IP address`},
		{"a listener without port", with(func(n *preflight.Facts) {
			n.Listeners = []preflight.Listener{{"eth0", "10.0.0.1", 22, preflight.UseData, []int{65536}}}
		}), "port 65536"},
	} {
		if _, err := preflight.Decode([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
