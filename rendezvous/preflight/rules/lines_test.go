package rules

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

// TestTextsOfOtherNodesAreQuoted checks that a text from another node stays one
// word in a line, and that no line from another node does more than start one
// program.
func TestTextsOfOtherNodesAreQuoted(t *testing.T) {
	addr := []string{"x;id", "y;id"} // Decode lets no such address through
	f := preflighttest.H100s(2)
	for i := range f.Nodes {
		f.Nodes[i].Listeners = []preflight.Listener{{Iface: "e;id", Addr: addr[i], Port: 40000 + i, Use: preflight.UseBootstrap}}
		f.Nodes[i].Network.Interfaces[1].Name = "e;id"
		f.Nodes[i].Network.Addresses = f.Nodes[i].Network.Addresses[3:] // so that no other interface can be proposed
	}
	for _, result := range []preflight.Result{preflight.TimedOut, preflight.NoRoute, preflight.Denied, preflight.NoAddress, preflight.Stalled, preflight.OtherAgent} {
		f.Probes = []preflight.Probe{{From: 0, To: 1, Use: preflight.UseBootstrap, Source: addr[0], Target: addr[1] + ":40001", Large: true, Result: result}}
		steps := 0
		for _, x := range preflight.Compare(f, All(), preflight.Options{}) {
			for _, s := range x.Steps {
				for _, line := range s.Lines {
					steps++
					if bare := strings.NewReplacer("'x;id'", "", "'y;id'", "", "'e;id'", "").Replace(line); strings.Contains(bare, ";id") {
						t.Errorf("%s: %s", result, line)
					}
				}
			}
		}
		if steps == 0 {
			t.Errorf("%s: no line", result)
		}
	}
	l := preflight.WrapperLoss{Wrapper: "docker run", Missing: []string{"RANK"}, Fix: []string{"pass it on:", "  docker run -e RANK; reboot ..."}}
	for _, s := range wrapperSteps(&l) {
		if len(s.Lines) > 0 {
			t.Errorf("%q", s.Lines)
		}
	}
}
