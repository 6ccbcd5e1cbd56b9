package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

// FuzzDecode checks that facts from a node are either refused, or every rule
// can check them and the table can be shown.
func FuzzDecode(f *testing.F) {
	for _, fleet := range []*preflight.Fleet{preflighttest.H100s(1), preflighttest.CPUs(1)} {
		b, err := preflight.Encode(fleet.Nodes[0])
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
				if b, err := preflight.Encode(n); err == nil {
					f.Add(b)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := preflight.Decode(b)
		if err != nil {
			return
		}
		again, err := preflight.Encode(n)
		if err != nil {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		if _, err := preflight.Decode(again); err != nil {
			t.Fatalf("what was encoded is refused: %v", err)
		}
		for _, base := range []func(int) *preflight.Fleet{preflighttest.H100s, preflighttest.CPUs} {
			fleet := base(3)
			fleet.Nodes[1] = n
			found := preflight.Compare(fleet, All(), preflight.Options{})
			if table := preflight.Render(found, fleet.Names(), preflight.Style{Notes: true}); strings.ContainsAny(table, "\x1b\r\x00") {
				t.Fatalf("not plain: %q", table)
			}
		}
	})
}

// TestInventedNamesAreBounded checks that a node which invents names does not
// make the other nodes compute for long.
func TestInventedNamesAreBounded(t *testing.T) {
	f := preflighttest.H100s(50)
	for i := range 1024 {
		preflighttest.Set(&f.Nodes[7], fmt.Sprintf("NCCL_SOCKET_IFNAME%s%d", strings.Repeat("X", 70), i), "1")
		preflighttest.Set(&f.Nodes[7], fmt.Sprint("FI_", i), "1")
		addDifference(f, fmt.Sprint("FI_", i))
	}
	found := preflight.Compare(f, All(), preflight.Options{})
	if x := findingsOf("E04", found); len(x) != 1 || len(x[0].Values) > preflight.MaxValues {
		t.Errorf("E04: %d findings", len(x))
	}
	x := findingsOf("E01", found)
	if len(x) != 1 || !slices.Equal(oddNodes(x...), []int{7}) {
		t.Fatalf("E01: %d findings of nodes %v", len(x), oddNodes(x...))
	}
	for _, v := range x[0].Values {
		if len(v.Value) > 1000 {
			t.Errorf("a value of %d bytes", len(v.Value))
		}
	}
}
