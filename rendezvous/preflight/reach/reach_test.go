package reach_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

func TestReachOfHealthyFleets(t *testing.T) {
	for _, n := range []int{1, 2, 3, 63, 64, 65, 1000} {
		f := flat(n).run()
		if got := compare(f); len(got) > 0 {
			t.Errorf("%d nodes: %+v", n, got)
		}
	}
}

// TestReachNamesWhatIsBroken breaks something and checks the finding.
func TestReachNamesWhatIsBroken(t *testing.T) {
	two := []simnode{{"eth0 10.37.8.72/24"}, {"eth1 10.37.12.78/24"}}
	halves := []simnode{{"eth0 10.37.8.1/24"}, {"eth0 10.37.8.2/24"}, {"eth1 10.37.12.3/24"}, {"eth1 10.37.12.4/24"}}
	three := []simnode{{"eth0 10.0.0.1/24"}, {"eth0 10.0.0.2/24"}, {"eth0 10.0.0.3/24"}}
	resultWhere := func(what func(from, to int) bool, r preflight.Result) func(preflight.Probe) preflight.Result {
		return func(p preflight.Probe) preflight.Result {
			if what(p.From, p.To) {
				return r
			}
			return preflight.OK
		}
	}
	cases := []struct {
		name    string
		nodes   []simnode
		connect func(preflight.Probe) preflight.Result
		text    string // how the finding begins
		fix     string // part of the fix
		odd     []int
	}{
		{
			"two nodes in two networks", two, resultWhere(func(int, int) bool { return true }, preflight.TimedOut),
			"node0 (eth0 10.37.8.72) and node1 (eth1 10.37.12.78) cannot connect to each other: timed out.", "there is no network that all nodes share",
			[]int{0},
		},
		{
			"one direction of two", two, resultWhere(func(from, _ int) bool { return from == 0 }, preflight.Refused),
			"node0 (eth0 10.37.8.72) cannot connect to node1 (eth1 10.37.12.78), though the other direction works: refused.", "",
			[]int{0},
		},
		{
			"two halves", halves, resultWhere(func(from, to int) bool { return from/2 != to/2 }, preflight.NoRoute),
			"No connection between 10.37.8.0/24 and 10.37.12.0/24, in neither direction: no route.", "", nil,
		},
		{
			"the one in another network", append(slices.Clone(three), simnode{"eth1 10.0.9.4/24"}), resultWhere(func(from, to int) bool { return from == 3 || to == 3 }, preflight.NoRoute),
			"No connection to or from node3 (eth1 10.0.9.4): no route.", "",
			[]int{3},
		},
		{
			"a firewall on one node", three, resultWhere(func(_, to int) bool { return to == 1 }, preflight.TimedOut),
			"No node can connect to node1 (eth0 10.0.0.2): timed out.", "on node1:\n  ip -br addr; nft list ruleset; iptables -S\nwhich route the packets take, on node0:\n  ip route get 10.0.0.2 from 10.0.0.1",
			[]int{1},
		},
		{
			"a firewall of its own", three, resultWhere(func(from, _ int) bool { return from == 2 }, preflight.Denied),
			"node2 (eth0 10.0.0.3) can connect to no node: denied.", "ask the administrator of node2 to let it open connections",
			[]int{2},
		},
		{
			"a missing address", three, resultWhere(func(from, _ int) bool { return from == 2 }, preflight.NoAddress),
			"node2 (eth0 10.0.0.3) can connect to no node: no address.", "ask the administrator of node2 to give it its address 10.0.0.3 again",
			[]int{2},
		},
		{
			"one pair", three, resultWhere(func(from, to int) bool { return from == 0 && to == 1 }, preflight.Reset),
			"node0 (eth0 10.0.0.1) cannot connect to node1 (eth0 10.0.0.2), though the other direction works: reset.", "",
			[]int{0},
		},
		{
			"everything", three, resultWhere(func(int, int) bool { return true }, preflight.TimedOut),
			"No node can connect to any other: timed out.", "let all TCP ports through", nil,
		},
		{
			"two broken in the same way", slices.Concat(three, []simnode{{"eth0 10.0.0.4/24"}, {"eth0 10.0.0.5/24"}}), resultWhere(func(_, to int) bool { return to == 1 || to == 3 }, preflight.TimedOut),
			"No node can connect to node1 (eth0 10.0.0.2), node3 (eth0 10.0.0.4): timed out.", "",
			[]int{1, 3},
		},
		{
			"a cut within a subnet", spread(8, 1), resultWhere(func(from, to int) bool { return from/4 != to/4 }, preflight.TimedOut),
			"The nodes fall into 2 groups with no connection between them: timed out.", "", nil,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSimnet(c.nodes)
			s.connect = c.connect
			got := findings("I02", s.run())
			if len(got) != 1 {
				t.Fatalf("%d findings: %+v", len(got), got)
			}
			if !strings.HasPrefix(got[0].Text, c.text) || !strings.Contains(got[0].Fix, c.fix) || !slices.Equal(oddNodes(got[0]), c.odd) {
				t.Errorf("text %q\nfix %q\nodd %v", got[0].Text, got[0].Fix, oddNodes(got[0]))
			}
			if got[0].Matrix == nil || len(got[0].Matrix.Nodes) != min(12, len(c.nodes)) {
				t.Errorf("matrix %+v", got[0].Matrix)
			}
			if again := findings("I03", &s.fleet); len(again) > 0 { // on the same addresses
				t.Errorf("a second finding: %+v", again)
			}
			if shown := preflight.Render(got, s.fleet.Names(), preflight.Style{}); !strings.Contains(shown, "fix:") {
				t.Errorf("%s", shown)
			}
		})
	}
}

func TestReachMatrixIsSmallAndShowsTheFailures(t *testing.T) {
	s := flat(1000)
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To == 700 {
			return preflight.TimedOut
		}
		return preflight.OK
	}
	m := findings("I02", s.run())[0].Matrix
	column := slices.Index(m.Nodes, 700)
	if column < 0 || len(m.Nodes) > 12 {
		t.Fatalf("%+v", m.Nodes)
	}
	failures := 0
	for i := range m.Cells {
		if m.Cells[i][column] == string(preflight.TimedOut) {
			failures++
		}
	}
	if failures < 3 {
		t.Errorf("only %d failures shown", failures)
	}
}
