package preflight_test

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func TestSummary(t *testing.T) {
	f := preflighttest.H100s(4)
	f.Nodes[2].Libraries.NCCL.Version = "2.19.3"
	f.Nodes[3] = preflight.Facts{}
	got := preflight.Summary(f)
	for _, want := range []string{"GPUs       8 x ", "NCCL       ", "(node1, node2)", "2.19.3", "(node3)", "interface  eth0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "node4") {
		t.Errorf("a node without facts is in\n%s", got)
	}
	if got := preflight.Summary(&preflight.Fleet{Nodes: make([]preflight.Facts, 2)}); got != "" {
		t.Errorf("of nodes without facts: %s", got)
	}
}
