package rules

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

// everyNode changes every node.
func everyNode(f *preflight.Fleet, change func(n *preflight.Facts)) {
	for i := range f.Nodes {
		change(&f.Nodes[i])
	}
}

// findingsOf returns the findings of one rule.
func findingsOf(id string, found []preflight.Finding) []preflight.Finding {
	return slices.DeleteFunc(slices.Clone(found), func(x preflight.Finding) bool { return x.ID != id })
}

// oddNodes returns the nodes that the findings mark, ascending.
func oddNodes(found ...preflight.Finding) []int {
	nodes := []int{}
	for _, x := range found {
		for _, v := range x.Values {
			if v.Odd {
				nodes = append(nodes, v.Nodes...)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func TestHealthyFleetsYieldNothing(t *testing.T) {
	old := preflighttest.CPUs(2) // an agent that knows hardly anything about its node
	everyNode(old, func(n *preflight.Facts) {
		*n = preflight.Facts{Format: preflight.Format, Node: preflight.Node{Host: n.Node.Host, Workers: 1, NodeRank: -1}}
	})
	silent := preflighttest.H100s(3)
	silent.Nodes[1] = preflight.Facts{}
	for _, c := range []struct {
		name  string
		fleet *preflight.Fleet
		notes int
	}{
		{"no node", &preflight.Fleet{}, 0},
		{"one node with GPUs", preflighttest.H100s(1), 0},
		{"2 nodes with GPUs", preflighttest.H100s(2), 0},
		{"64 nodes with GPUs", preflighttest.H100s(64), 0},
		{"one node without", preflighttest.CPUs(1), 0},
		{"2 nodes without", preflighttest.CPUs(2), 0},
		{"300 nodes without", preflighttest.CPUs(300), 0},
		{"4 nodes on this machine", preflighttest.OnOneMachine(preflighttest.CPUs(4)), 0},
		{"4 nodes on this machine with GPUs", preflighttest.OnOneMachine(preflighttest.H100s(4)), 0},
		{"nothing known", old, 0},
		{"a node that sent nothing", silent, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := preflight.Compare(c.fleet, All(), preflight.Options{})
			if len(found) != c.notes || c.notes == 1 && found[0].ID != "F01" {
				t.Errorf("%d findings, want %d:\n%s", len(found), c.notes, preflight.Render(found, c.fleet.Names(), preflight.Style{Notes: true}))
			}
		})
	}
}

// firstNodes returns the numbers below n.
func firstNodes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
