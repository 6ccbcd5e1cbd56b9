package selftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fleet returns the ranks of nodes with so many ranks each.
func fleet(nodes ...int) []Rank {
	var ranks []Rank
	for n, locals := range nodes {
		for l := range locals {
			ranks = append(ranks, Rank{Rank: len(ranks), Local: l, Node: n, Host: fmt.Sprintf("node%d", n)})
		}
	}
	return ranks
}

// play plays a ladder. fails says which result a rank of a group has; nil: all pass.
func play(t *testing.T, ranks []Rank, scope Scope, fails func(p Plan, group []int, rank int) *Result) (*Report, []Plan) {
	t.Helper()
	l := NewLadder(ranks, scope)
	var plans []Plan
	var results []Result
	for {
		p, more := l.Next(results)
		if !more {
			return l.Report(), plans
		}
		if len(plans) > 1000 {
			t.Fatal("the ladder does not end")
		}
		plans, results = append(plans, p), nil
		used := make(map[int]bool)
		for _, g := range p.Groups {
			for i, rank := range g.Ranks {
				if used[rank] || ranks[rank].Node != g.Nodes[i] {
					t.Fatalf("%s: rank %d is in two groups, or on node %d: %v", p.Rung, rank, g.Nodes[i], p.Groups)
				}
				used[rank] = true
				r := Result{Rank: rank, End: EndPassed}
				for _, size := range p.Sizes {
					r.Timing = append(r.Timing, Timing{size, 1e-3})
				}
				if fails != nil {
					if f := fails(p, g.Ranks, rank); f != nil {
						r = *f
						r.Rank = rank
					}
				}
				results = append(results, r)
			}
		}
		rand.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	}
}

func names(plans []Plan) string {
	var rungs []string
	for _, p := range plans {
		rungs = append(rungs, p.Rung)
	}
	return strings.Join(slices.Compact(rungs), ", ")
}

func TestLadderOfAHealthyJob(t *testing.T) {
	for _, c := range []struct {
		ranks []Rank
		scope Scope
		want  string
	}{
		{fleet(1), ScopeFull, "load, alone"},
		{fleet(4), ScopeFull, "load, alone, pairs in a node, node, ring, all-reduce, all-to-all"},
		{fleet(1, 1), ScopeFull, "load, alone, pairs of nodes, ring, all-reduce, all-to-all"},
		{fleet(2, 2), ScopeFull, "load, alone, pairs in a node, node, pairs of nodes, pairs of nodes, all ranks, ring, all-reduce, all-to-all"},
		{fleet(2, 1, 3), ScopeFull, "load, alone, pairs in a node, node, pairs of nodes, pairs of nodes, all ranks, ring, all-reduce, all-to-all"},
		{fleet(2, 2), ScopeQuick, "load, node, ring, all-reduce"},
		{fleet(4, 4, 4, 4, 4, 4, 4), ScopeLinks, "load, pairs of nodes"},
	} {
		r, plans := play(t, c.ranks, c.scope, nil)
		if got := names(plans); got != c.want || !r.OK || r.Failure != nil || len(r.Warnings) > 0 {
			t.Errorf("%s of %d ranks: %s: %+v", c.scope, len(c.ranks), got, r)
		}
	}
}

func TestLadderNamesTheFault(t *testing.T) {
	type fault = func(p Plan, group []int, rank int) *Result
	crashed := &Result{End: EndCrashed, Text: "signal: killed"}
	lost := &Result{End: EndLost, Text: "rank is gone"}
	late := &Result{End: EndLate, Text: "killed after 22s"}
	// with returns the fault of every group that has all of these ranks: the first of them
	// crashes, the others lose it.
	with := func(from string, bad ...int) fault {
		reached := false
		return func(p Plan, group []int, rank int) *Result {
			reached = reached || p.Rung == from
			if !reached || slices.ContainsFunc(bad, func(b int) bool { return !slices.Contains(group, b) }) {
				return nil
			}
			if rank == bad[0] {
				return crashed
			}
			return lost
		}
	}
	all := func(from string, r *Result) fault {
		return func(p Plan, group []int, _ int) *Result {
			if p.Rung == from {
				return r
			}
			return nil
		}
	}
	for _, c := range []struct {
		name  string
		ranks []Rank
		fails fault
		rung  string
		nodes []int
		text  string
		bad   []string
	}{
		{"a rank cannot start", fleet(2, 2), with("load", 3), "load", []int{1}, "rank 3 (local rank 1) on node1: crashed: signal: killed", []string{"node1"}},
		{"a GPU fails with each other", fleet(4, 4), with("pairs in a node", 6), "pairs in a node", []int{1}, "rank 6 (local rank 2) on node1 fails with each partner", []string{"node1"}},
		{"two GPUs do not reach each other", fleet(4, 4), with("pairs in a node", 5, 6), "pairs in a node", nil, "rank 5 (local rank 1) on node1 and rank 6 (local rank 2) on node1 fail together; each works with others", []string{"node1"}},
		{"a node as a whole", fleet(4, 4), all("node", late), "node", []int{0, 1}, "the 4 ranks of node 0 (node0) fail together: rank 0 on node0 not done in time", []string{"node0", "node1"}},
		{"a bad node of five", fleet(1, 1, 1, 1, 1), with("pairs of nodes", 3), "pairs of nodes", []int{3}, "node 3 (node3) fails with each partner, and they work with others: rank 3 on node3 crashed", []string{"node3"}},
		{"a bad node of 33", fleet(slices.Repeat([]int{1}, 33)...), with("pairs of nodes", 32), "pairs of nodes", []int{32}, "node 32 (node32) fails", []string{"node32"}},
		{"a bad link", fleet(1, 1, 1, 1, 1, 1), with("pairs of nodes", 2, 3), "pairs of nodes", nil, "node 2 (node2) and node 3 (node3) fail together; each works with others, so it is what connects them", []string{"node2", "node3"}},
		{"two nodes", fleet(1, 1), all("pairs of nodes", late), "pairs of nodes", nil, "node 0 (node0) and node 1 (node1) fail together: rank 0 on node0 not done in time", []string{"node0", "node1"}},
		{"the network", fleet(slices.Repeat([]int{2}, 6)...), all("pairs of nodes", late), "pairs of nodes", nil, "most pairs fail", []string{"node0", "node1", "node2", "node3", "node4", "node5"}},
		{"a second rail", fleet(2, 2, 2, 2), with("pairs of nodes, all ranks", 5), "pairs of nodes, all ranks", []int{2}, "node 2 (node2) fails with each partner", []string{"node2"}},
		{"only all together", fleet(2, 2), all("all-reduce", late), "all-reduce", nil, "all 4 ranks together fail, although the pairs work", []string{"node0", "node1"}},
		{"one crashes in all together", fleet(2, 2), with("all-to-all", 2), "all-to-all", []int{1}, "rank 2 (local rank 0) on node1: crashed", []string{"node1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, plans := play(t, c.ranks, ScopeFull, c.fails)
			if r.Failure == nil || r.OK {
				t.Fatalf("passed: %s", names(plans))
			}
			if last := plans[len(plans)-1].Rung; last != c.rung || r.Failure.Rung != c.rung {
				t.Errorf("ended at %q, failure of %q", last, r.Failure.Rung)
			}
			if !strings.Contains(r.Failure.Text, c.text) || !slices.Equal(r.Failure.Nodes, c.nodes) || r.Failure.Fix == "" {
				t.Errorf("%+v", r.Failure)
			}
			if bad := r.Hosts(StateBad, StateSuspect); !slices.Equal(bad, c.bad) {
				t.Errorf("bad: %v", bad)
			}
			var table, text bytes.Buffer
			if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "FAILED at the rung") {
				t.Errorf("%v: %s", err, &table)
			}
			if drained := strings.Contains(table.String(), "State=DRAIN"); drained != (len(c.nodes) > 0) {
				t.Errorf("%s", &table)
			}
			var again Report
			if err := r.WriteJSON(&text); err != nil || json.Unmarshal(text.Bytes(), &again) != nil || again.Failure.Text != r.Failure.Text {
				t.Errorf("%v: %s", err, &text)
			}
		})
	}
}

// TestSlowNodeIsMarked checks that a node that is slow with each partner is marked, and
// that the ladder goes on.
func TestSlowNodeIsMarked(t *testing.T) {
	ranks := fleet(slices.Repeat([]int{2}, 8)...)
	r, plans := play(t, ranks, ScopeFull, func(p Plan, group []int, _ int) *Result {
		slow := Result{End: EndPassed}
		for _, size := range p.Sizes {
			slow.Timing = append(slow.Timing, Timing{size, 2e-3})
		}
		if strings.HasPrefix(p.Rung, "pairs of nodes") && slices.ContainsFunc(group, func(rank int) bool { return ranks[rank].Node == 5 }) {
			return &slow
		}
		return nil
	})
	if !r.OK || len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "node 5 (node5) is slow") || r.Nodes[5].State != StateSlow {
		t.Errorf("%+v", r)
	}
	if last := plans[len(plans)-1].Rung; last != "all-to-all" {
		t.Errorf("ended at %q", last)
	}
	if good := r.Hosts(StateGood, StateSlow); len(good) != 8 {
		t.Errorf("good: %v", good)
	}
}

// TestBusBandwidth checks the factors of nccl-tests.
func TestBusBandwidth(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		ranks int
		want  float64
	}{
		{KindAllReduce, 2, 1}, {KindAllReduce, 4, 1.5}, {KindRing, 8, 1}, {KindAllToAll, 4, 3}, {KindCopy, 1, 1},
	} {
		if got := busBandwidth(c.kind, c.ranks, 1e9, 1); got != c.want {
			t.Errorf("%s of %d: %v", c.kind, c.ranks, got)
		}
	}
}

// TestAllToAllOfManyRanks checks that the exchange of a large job needs bounded memory.
func TestAllToAllOfManyRanks(t *testing.T) {
	_, plans := play(t, fleet(slices.Repeat([]int{8}, 512)...), ScopeFull, nil)
	p := plans[len(plans)-1]
	if sent := 512 * 8 * slices.Max(p.Sizes); p.Kind != KindAllToAll || sent > maxExchange || len(p.Sizes) != 1 {
		t.Errorf("%s of %v bytes", p.Kind, p.Sizes)
	}
}

// TestManyFaultsAreAFewLines checks the text of a fault that every rank of a large job has.
func TestManyFaultsAreAFewLines(t *testing.T) {
	r, _ := play(t, fleet(slices.Repeat([]int{8}, 512)...), ScopeFull, func(Plan, []int, int) *Result {
		return &Result{End: EndCrashed, Text: strings.Repeat("x", 400)}
	})
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(r.Failure.Text, "and 4088 more") || len(r.Failure.Text) > 5000 {
		t.Errorf("%v: %d bytes: %.300s", err, len(r.Failure.Text), r.Failure.Text)
	}
	if n := strings.Count(table.String(), "scontrol"); n != 1 {
		t.Errorf("%d lines of scontrol", n)
	}
}

// TestWrongValuesOfAllTogetherNameNobody checks that the first rank that saw wrong values,
// which come from any of them, is not blamed.
func TestWrongValuesOfAllTogetherNameNobody(t *testing.T) {
	r, _ := play(t, fleet(2, 2), ScopeQuick, func(p Plan, _ []int, _ int) *Result {
		if p.Rung == "all-reduce" {
			return &Result{End: EndWrong, Text: "element 3"}
		}
		return nil
	})
	if r.Failure == nil || r.Failure.Nodes != nil || r.Failure.Ranks != nil || !strings.Contains(r.Failure.Text, "although smaller groups work") {
		t.Errorf("%+v", r.Failure)
	}
}

// TestHostOfSeveralNodesHasTheWorstState checks that no host is both good and bad.
func TestHostOfSeveralNodesHasTheWorstState(t *testing.T) {
	r := Report{Nodes: []NodeReport{{Host: "a", State: StateGood}, {Host: "a", State: StateBad}, {Host: "b", State: StateGood}}}
	if good, bad := r.Hosts(StateGood), r.Hosts(StateBad); !slices.Equal(good, []string{"b"}) || !slices.Equal(bad, []string{"a"}) {
		t.Errorf("good %v, bad %v", good, bad)
	}
}
