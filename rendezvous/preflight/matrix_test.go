package preflight

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mesh returns a matrix in which all connections work but those for which bad
// returns a result.
func mesh(nodes int, bad func(i, j int) string) *Matrix {
	m := &Matrix{Nodes: firstNodes(nodes)}
	for i := range nodes {
		row := make([]string, nodes)
		for j := range nodes {
			if row[j] = bad(i, j); row[j] == "" && i != j {
				row[j] = "ok"
			}
		}
		m.Cells = append(m.Cells, row)
	}
	return m
}

func draw(m *Matrix) string {
	names := make([]string, len(m.Nodes))
	for i := range names {
		names[i] = fmt.Sprintf("node%d", i)
	}
	return Render([]Finding{{ID: "I02", Severity: Error, Title: "reach", Text: "No.", Matrix: m, Fix: "do"}}, names, Style{})
}

func TestGrid(t *testing.T) {
	unreachable := func(i, j int) string {
		if j == 2 && i != 2 {
			return string(TimedOut)
		}
		return ""
	}
	got := draw(mesh(3, unreachable))
	for _, want := range []string{
		"    from      to  0          1          2\n",
		"    0 node0       -          ok         timed out\n",
		"    2 node2       ok         ok         -\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the grid lacks %q:\n%s", want, got)
		}
	}
	got = draw(mesh(16, unreachable))
	if !strings.Contains(got, "T = timed out") || strings.Contains(got, "ok   timed out") {
		t.Errorf("16 nodes are not drawn with letters:\n%s", got)
	}
	for line := range strings.Lines(got) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestPairs(t *testing.T) {
	got := draw(mesh(40, func(i, j int) string {
		switch {
		case j == 17 && i != 17:
			return string(TimedOut)
		case i == 5 && j == 6:
			return string(Refused)
		default:
			return ""
		}
	}))
	for _, want := range []string{"node0, node1, node2, node3, node4, node5, node6 and 32 more -> node17: timed out", "node5 -> node6: refused"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("the list lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 20 {
		t.Errorf("%d lines for two failures:\n%s", n, got)
	}
}

// TestMatrixOfAnyShape checks that any matrix can be shown. A finding may come
// from another machine, so its matrix need not be square, nor name nodes that
// exist.
func TestMatrixOfAnyShape(t *testing.T) {
	for _, m := range []*Matrix{
		{},
		{Nodes: []int{0, 1}},
		{Nodes: []int{7, -1}, Cells: [][]string{{}, {"", "\x1b[2J", "x"}, {"a"}}},
		{Nodes: firstNodes(20), Cells: slices.Repeat([][]string{slices.Repeat([]string{"odd"}, 30)}, 30)},
	} {
		if got := draw(m); strings.Contains(got, "\x1b") {
			t.Errorf("not plain: %q", got)
		}
	}
}

func TestNameList(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	for _, c := range []struct {
		nodes []int
		all   int
		odd   bool
		want  string
	}{
		{[]int{3}, 100, true, "n3"},
		{firstNodes(8), 100, false, "n0, n1, n2, n3, n4, n5, n6, n7"},
		{firstNodes(9), 100, false, "9 nodes"},
		{firstNodes(9), 100, true, "n0, n1, n2, n3, n4, n5, n6 and 2 more"},
		{firstNodes(100), 100, true, "all 100 nodes"},
		{firstNodes(1), 1, true, "n0"},
		{[]int{-1, 4711}, 100, true, "node -1, node 4711"},
	} {
		if got := nameList(c.nodes, names, c.all, c.odd); got != c.want {
			t.Errorf("%v: %q, want %q", c.nodes, got, c.want)
		}
	}
}

// firstNodes returns the numbers below n.
func firstNodes(n int) []int { return (&Fleet{Nodes: make([]Facts, n)}).AllNodes() }
