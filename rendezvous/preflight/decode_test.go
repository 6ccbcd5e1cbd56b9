package preflight

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

func TestFactsTravelUnchanged(t *testing.T) {
	for _, f := range []*Fleet{h100s(2), cpus(1)} {
		for _, n := range f.Nodes {
			n.Unknown = []Unknown{{"gpu", "a reason"}}
			n.Listeners = []Listener{{"eth0", "10.0.0.1", 4711, UseBootstrap, []int{4711, 4713}}, {"eth0", "fe80::1%eth0", 4712, UseGloo, nil}}
			b, err := Encode(n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(b)
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
	n := h100s(1).Nodes[0]
	n.Program.Args = make([]string, 5000)
	for i := range n.Program.Args {
		n.Program.Args[i] = strings.Repeat("x", 300)
	}
	for i := range 3000 {
		n.Network.Interfaces = append(n.Network.Interfaces, netif.Interface{Index: i + 4, Name: fmt.Sprint("veth", i)})
	}
	n.set("NCCL_ALGO", "\x1b[2Jü\xff\n")
	n.Program.Dir = strings.Repeat("ü", 100_000)
	before := len(n.Program.Args)
	b, err := Encode(n)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > MaxSize {
		t.Fatalf("%d bytes", len(b))
	}
	got, err := Decode(b)
	if err != nil {
		t.Fatalf("what was encoded is refused: %v", err)
	}
	if v := got.env("NCCL_ALGO"); v != "?[2Jü??" {
		t.Errorf("NCCL_ALGO=%q", v)
	}
	if len(got.Unknown) != 1 || got.Unknown[0].Source != "facts" || !strings.Contains(got.Unknown[0].Why, "cut to") {
		t.Errorf("it does not say that something is missing: %+v", got.Unknown)
	}
	if got.Network.Interfaces[1].Name != "eth0" {
		t.Errorf("the first interfaces are gone: %+v", got.Network.Interfaces)
	}
	if len(n.Program.Args) != before || n.Program.Args[0] != strings.Repeat("x", 300) {
		t.Error("the caller's facts have changed")
	}
}

func TestDecodeRefuses(t *testing.T) {
	with := func(change func(n *Facts)) string {
		n := cpus(1).Nodes[0]
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
		{"an address that is none", with(func(n *Facts) { n.Network.Addresses[0].IP = "garbage" }), `at "garbage", which is not an IP address`},
		{"an address with a long prefix", with(func(n *Facts) { n.Network.Addresses[0].Bits = 33 }), "127.0.0.1/33"},
		{"a host name that is nowhere", with(func(n *Facts) { n.Network.Hostname = []string{"node1"} }), `at "node1", which is not an IP address`},
		{"another format", `{"format":2}`, "use the same gorun on every node"},
		{"no format", `{}`, "format 0"},
		{"a string for a number", `{"format":1,"host":{"cpus":"many"}}`, "not as gorun writes them"},
		{"too large", `{"format":1,"program":{"dir":"` + strings.Repeat("x", MaxSize) + `"}}`, "at most"},
		{"a long text", with(func(n *Facts) { n.Program.Dir = strings.Repeat("x", maxString+1) }), "facts.Program.Dir: a text of"},
		{"a long list", with(func(n *Facts) { n.Program.Args = make([]string, maxList+1) }), "facts.Program.Args: a list of 1025 entries"},
		{"an escape in a name", with(func(n *Facts) { n.Node.Host = "a\x1b[2J" }), "facts.Node.Host: a text with control characters"},
		{"a line break in a list", with(func(n *Facts) { n.Settings[0].Value = "a\nb" }), "control characters"},
		{"a text that turns round", with(func(n *Facts) { n.Node.Host = "a\u202eb" }), "control characters"},
		{"too many workers", with(func(n *Facts) { n.Node.Workers = maxWorker + 1 }), "65537 workers"},
		{"a negative number of workers", with(func(n *Facts) { n.Node.Workers = -1 }), "-1 workers"},
		{"a listener that is no address", with(func(n *Facts) { n.Listeners = []Listener{{"eth0", "example.com", 22, UseData, nil}} }), `"example.com", which is not an IP address`},
		{"a listener without port", with(func(n *Facts) { n.Listeners = []Listener{{"eth0", "10.0.0.1", 22, UseData, []int{65536}}} }), "port 65536"},
	} {
		if _, err := Decode([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// Whatever a node sends, it is refused, or every rule can judge it and the table
// can be shown.
func FuzzDecode(f *testing.F) {
	for _, fleet := range []*Fleet{h100s(1), cpus(1)} {
		b, err := Encode(fleet.Nodes[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, list := range cases() {
		for _, c := range list {
			fleet := c.fleet()
			if len(fleet.Nodes) > 4 {
				continue
			}
			for _, n := range fleet.Nodes {
				if b, err := Encode(n); err == nil {
					f.Add(b)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Encode(n)
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("what was encoded is refused: %v", err)
		}
		for _, base := range []func(int) *Fleet{h100s, cpus} {
			fleet := base(3)
			fleet.Nodes[1] = n
			found := Compare(fleet, Options{})
			if table := Render(found, fleet.Names(), Style{Notes: true}); strings.ContainsAny(table, "\x1b\r\x00") {
				t.Fatalf("not plain: %q", table)
			}
		}
	})
}

// A node that invents names must not make the others compute for long.
func TestInventedNamesAreBounded(t *testing.T) {
	f := h100s(50)
	for i := range maxList {
		f.Nodes[7].set(fmt.Sprintf("NCCL_SOCKET_IFNAME%s%d", strings.Repeat("X", 70), i), "1")
		f.Nodes[7].set(fmt.Sprint("FI_", i), "1")
		f.leaves(fmt.Sprint("FI_", i))
	}
	found := Compare(f, Options{})
	if x := of("E04", found); len(x) != 1 || len(x[0].Values) > maxValues {
		t.Errorf("E04: %d findings", len(x))
	}
	x := of("E01", found)
	if len(x) != 1 || !slices.Equal(oddNodes(x...), []int{7}) {
		t.Fatalf("E01: %d findings of nodes %v", len(x), oddNodes(x...))
	}
	for _, v := range x[0].Values {
		if len(v.Value) > 1000 {
			t.Errorf("a value of %d bytes", len(v.Value))
		}
	}
}
