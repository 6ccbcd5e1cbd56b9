package selftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
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
	return playOn(t, NewLadder(ranks, scope, ComputeCPU), fails)
}

// playOn plays a ladder that may be of GPUs.
func playOn(t *testing.T, l *Ladder, fails func(p Plan, group []int, rank int) *Result) (*Report, []Plan) {
	t.Helper()
	ranks := l.ranks
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
	node := func(bad int, from string, r *Result) fault { // of nodes with four ranks
		return func(p Plan, _ []int, rank int) *Result {
			if p.Rung == from && rank/4 == bad {
				return r
			}
			return nil
		}
	}
	group := func(from string, ranks []int, r *Result) fault {
		return func(p Plan, group []int, _ int) *Result {
			if p.Rung == from && slices.Equal(group, ranks) {
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
		{"two GPUs do not reach each other", fleet(4, 4), group("pairs in a node", []int{5, 6}, late), "pairs in a node", nil, "rank 5 (local rank 1) on node1 and rank 6 (local rank 2) on node1 fail together; each works with others", []string{"node1"}},
		{"a node as a whole", fleet(4, 4), with("node", 5), "node", []int{1}, "rank 5 (local rank 1) on node1: crashed: signal: killed", []string{"node1"}},
		{"a node as a whole, late", fleet(4, 4), node(1, "node", late), "node", []int{1}, "the 4 ranks of node 1 (node1) fail together: rank 4 on node1 not done in time", []string{"node1"}},
		{"all nodes as a whole", fleet(4, 4, 1), all("node", late), "node", nil, "2 of 2 nodes fail, so it is what they share, the network or a setting: rank 0 on node0 not done in time", []string{"node0", "node1"}},
		{"a node alone", fleet(4), all("node", late), "node", []int{0}, "the 4 ranks of node 0 (node0) fail together", []string{"node0"}},
		{"each rank of a node", fleet(4, 4), node(1, "load", crashed), "load", []int{1}, "the 4 ranks of node 1 (node1) fail, each by itself: rank 4 on node1 crashed", []string{"node1"}},
		{"most nodes cannot start", fleet(2, 2, 2), func(p Plan, group []int, rank int) *Result {
			if rank >= 2 {
				return crashed
			}
			return nil
		}, "load", nil, "2 of 3 nodes fail", []string{"node1", "node2"}},
		{"killed once in a pair", fleet(1, 1, 1, 1, 1, 1), with("pairs of nodes", 2, 3), "pairs of nodes", []int{2}, "rank 2 (local rank 0) on node2: crashed: signal: killed", []string{"node2"}},
		{"killed once in a pair of a node", fleet(4, 4), with("pairs in a node", 6, 5), "pairs in a node", []int{1}, "rank 6 (local rank 2) on node1: crashed: signal: killed", []string{"node1"}},
		{"both of a pair crash", fleet(1, 1, 1, 1, 1, 1), group("pairs of nodes", []int{2, 3}, crashed), "pairs of nodes", nil, "node 2 (node2) and node 3 (node3) fail together; each works with others, so it is what connects them", []string{"node2", "node3"}},
		{"wrong values in a pair", fleet(1, 1, 1, 1, 1, 1), group("pairs of nodes", []int{2, 3}, &Result{End: EndWrong}), "pairs of nodes", nil, "node 2 (node2) and node 3 (node3) fail together", []string{"node2", "node3"}},
		{"killed with all ranks of two nodes", fleet(2, 2, 2, 2, 2, 2), with("pairs of nodes, all ranks", 5, 7), "pairs of nodes, all ranks", []int{2}, "rank 5 (local rank 1) on node2: crashed", []string{"node2"}},
		{"two of all crash", fleet(2, 2, 2), func(p Plan, group []int, rank int) *Result {
			if p.Rung != "ring" {
				return nil
			}
			return map[int]*Result{2: crashed, 3: crashed, 0: lost, 1: lost, 4: late, 5: nil}[rank]
		}, "ring", []int{1}, "rank 2 (local rank 0) on node1: crashed: signal: killed; rank 3 (local rank 1) on node1: crashed: signal: killed", []string{"node1"}},
		{"most of all crash", fleet(1, 1), all("ring", crashed), "ring", nil, "all 2 ranks together fail", []string{"node0", "node1"}},
		{"a bad node of five", fleet(1, 1, 1, 1, 1), with("pairs of nodes", 3), "pairs of nodes", []int{3}, "node 3 (node3) fails with each partner, and they work with others: rank 3 on node3 crashed", []string{"node3"}},
		{"a bad node of 33", fleet(slices.Repeat([]int{1}, 33)...), with("pairs of nodes", 32), "pairs of nodes", []int{32}, "node 32 (node32) fails", []string{"node32"}},
		{"a bad link", fleet(1, 1, 1, 1, 1, 1), group("pairs of nodes", []int{2, 3}, late), "pairs of nodes", nil, "node 2 (node2) and node 3 (node3) fail together; each works with others, so it is what connects them", []string{"node2", "node3"}},
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
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`5 +node5 +slow +\d+\.\d+ GB/s, 2\.00 x the usual time +over 1\.25 times`, `7 others +good +\d+\.\d+ GB/s`} {
		if !regexp.MustCompile(want).Match(table.Bytes()) {
			t.Errorf("no %s in %s", want, &table)
		}
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
	if err := r.WriteTable(&table); err != nil || !strings.Contains(r.Failure.Text, "512 of 512 nodes fail") || len(r.Failure.Text) > 5000 {
		t.Errorf("%v: %d bytes: %.300s", err, len(r.Failure.Text), r.Failure.Text)
	}
	if n := strings.Count(table.String(), "scontrol"); n != 0 {
		t.Errorf("%d lines of scontrol", n)
	}
	r, _ = play(t, fleet(slices.Repeat([]int{8}, 512)...), ScopeFull, func(_ Plan, _ []int, rank int) *Result {
		if rank%8 == 3 && rank < 2000 {
			return &Result{End: EndCrashed, Text: strings.Repeat("x", 400)}
		}
		return nil
	})
	table.Reset()
	if err := r.WriteTable(&table); err != nil || !strings.Contains(r.Failure.Text, "and 242 more") || len(r.Failure.Text) > 5000 {
		t.Errorf("%v: %d bytes: %.300s", err, len(r.Failure.Text), r.Failure.Text)
	}
	if n := strings.Count(table.String(), "\nin Slurm: scontrol"); n != 1 || strings.Count(table.String(), "\n") > 40 {
		t.Errorf("%s", &table)
	}
}

// TestReportSaysWhatWasNotTested checks that the nodes that passed are not taken for
// tested in all.
func TestReportSaysWhatWasNotTested(t *testing.T) {
	r, _ := play(t, fleet(2, 2, 2), ScopeFull, func(p Plan, _ []int, rank int) *Result {
		if p.Rung == "alone" && rank == 2 {
			return &Result{End: EndCrashed}
		}
		return nil
	})
	if len(r.NotPlayed) != 7 || r.NotPlayed[0] != "pairs in a node" || r.NotPlayed[6] != "all-to-all" {
		t.Errorf("%q", r.NotPlayed)
	}
	var table bytes.Buffer
	want := "good so far: node0,node2; not tested after the fault: pairs in a node, node, pairs of nodes, pairs of nodes, all ranks, ring, all-reduce, all-to-all."
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), want) {
		t.Errorf("%v: %s", err, &table)
	}
}

// TestLinksOfManyNodes checks that the full matrix of a large job has each pair once.
func TestLinksOfManyNodes(t *testing.T) {
	const n = 200
	r, plans := play(t, fleet(slices.Repeat([]int{1}, n)...), ScopeLinks, nil)
	met := make(map[[2]int]bool)
	for _, p := range plans[1:] {
		for _, g := range p.Groups {
			met[[2]int{g.Ranks[0], g.Ranks[1]}] = true
		}
	}
	if !r.OK || len(plans) != n || len(met) != n*(n-1)/2 || r.Rungs[1].Groups != len(met) || r.Rungs[1].Sizes[0].Median != 1e-3 {
		t.Errorf("%d steps, %d pairs, %+v", len(plans), len(met), r.Rungs[1])
	}
}

// TestTextsNameTheRanksOfTheGroup checks that a text that counts the ranks of a group from
// 0 says which they are.
func TestTextsNameTheRanksOfTheGroup(t *testing.T) {
	for _, c := range []struct {
		text  string
		group []int
		want  string
	}{
		{"rank 1 has not arrived", []int{4, 6}, "rank 1 has not arrived (the group counts its ranks 4, 6 from 0)"},
		{"rank 1 has not arrived", []int{0, 1}, "rank 1 has not arrived"},
		{"signal: killed", []int{4, 6}, "signal: killed"},
		{"rank 0 cannot start", []int{4}, "rank 0 cannot start"},
		{"rank 1", []int{9, 1, 2, 3, 4, 5, 6, 7, 8}, "rank 1 (the group counts its ranks 9, 1, 2, 3, 4, 5, 6, 7, … from 0)"},
	} {
		if got := withRanks(c.text, c.group); got != c.want {
			t.Errorf("%s", got)
		}
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

// TestPairsThatFail checks that a pair has the reason of its own test, not that of another
// test of one of its ranks, and that what fails twice is named once.
func TestPairsThatFail(t *testing.T) {
	l := NewLadder(fleet(1, 1, 1, 2), ScopeFull, ComputeCPU)
	group := func(end End, of int, pair ...int) failedGroup {
		g := failedGroup{ranks: pair, result: Result{Rank: of, End: end}}
		if end.isOwn() {
			g.owners = []Result{g.result}
		}
		return g
	}
	failed := []failedGroup{group(EndCrashed, 0, 0, 1), group(EndFailed, 0, 0, 2), group(EndLate, 2, 2, 1), group(EndCrashed, 3, 1, 3), group(EndCrashed, 4, 2, 4)}
	b := blame{failed: true, passed: map[int]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}}
	for _, g := range failed {
		b.pairs = append(b.pairs, slices.Sorted(slices.Values(g.ranks)))
	}
	l.report.failPairs("pairs", b, l.rankSubject, failed)
	f := l.report.Failure
	if !slices.Equal(f.Nodes, []int{0, 3}) || !slices.Equal(f.Ranks, []int{0, 3, 4}) || !reflect.DeepEqual(f.Pairs, [][]int{{1, 2}}) {
		t.Errorf("nodes %v, ranks %v, pairs %v", f.Nodes, f.Ranks, f.Pairs)
	}
	if !strings.Contains(f.Text, "what connects them: rank 2 on node2 not done in time;") || strings.Count(f.Text, "rank 0 ") != 1 {
		t.Error(f.Text)
	}
}
