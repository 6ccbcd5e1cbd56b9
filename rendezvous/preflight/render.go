package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Style says how a table looks.
type Style struct {
	Width  int  // columns, 100 when 0; commands that can be pasted are never broken
	Colour bool // with the terminal's colours
	Notes  bool // show notes, too
	Check  bool // for gorun check, which never starts workers
}

// shownNodes is how many nodes of a group are named. Of a longer list some are
// named and the rest is counted.
const shownNodes = 8

// Render returns the findings as one table for people, "" if no finding is to
// be shown. names are the nodes' names by group rank (Fleet.Names). The table
// depends on the arguments alone, so every node shows the same.
func Render(found []Finding, names []string, s Style) string {
	if s.Width <= 0 {
		s.Width = 100
	}
	w := writer{Style: s, names: names}
	count := map[Severity]int{}
	for _, x := range found {
		if x.Severity != Note || s.Notes {
			count[x.Severity]++
			w.finding(x)
		}
	}
	if len(count) == 0 {
		return ""
	}
	head := fmt.Sprintf("preflight: %s on %s\n", counts(count), Plural(len(names), "node"))
	if len(count) > 1 || count[Note] == 0 {
		w.end(found)
	}
	return head + w.String()
}

func counts(n map[Severity]int) string {
	var parts []string
	for _, s := range []Severity{Error, Warning, Note} {
		if n[s] > 0 {
			parts = append(parts, Plural(n[s], string(s)))
		}
	}
	return strings.Join(parts, ", ")
}

// Plural returns a number with its noun: "1 node", "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writer collects the lines of a table.
type writer struct {
	strings.Builder
	Style
	names []string
}

func (w *writer) finding(x Finding) {
	fmt.Fprintf(w, "\n%s %s %s\n", w.paint(x.Severity), clip(x.ID), clip(x.Title))
	w.block("  ", "  ", x.Text)
	for _, v := range x.Values {
		w.value(v)
	}
	if x.Matrix != nil {
		w.matrix(x.Matrix)
	}
	w.fix(x.Fix)
}

// value shows the nodes on the left, odd nodes marked, and the value on the
// right.
func (w *writer) value(v Value) {
	const left = 34
	mark := "    "
	if v.Odd {
		mark = "  > "
	}
	nodes := wrap(w.nodesAndRanks(v), left)
	values := wrap(Clean(v.Value, 2000), max(20, w.Width-left-len(mark)-2))
	for i := range max(len(nodes), len(values)) {
		line := mark + fmt.Sprintf("%-*s", left, lineAt(nodes, i)) + "  " + lineAt(values, i)
		w.WriteString(strings.TrimRight(line, " ") + "\n")
		mark = "    "
	}
}

// nodesAndRanks names the nodes of a group and their ranks.
func (w *writer) nodesAndRanks(v Value) string {
	s := nameList(v.Nodes, w.names, len(w.names), v.Odd)
	if len(v.Ranks) == 0 || len(v.Ranks) > 3 || len(v.Nodes) == len(w.names) {
		return s
	}
	var ranks []string
	word := "ranks "
	for _, r := range v.Ranks {
		if r.First == r.Last {
			ranks = append(ranks, fmt.Sprint(r.First))
			continue
		}
		ranks = append(ranks, fmt.Sprintf("%d-%d", r.First, r.Last))
	}
	if len(v.Ranks) == 1 && v.Ranks[0].First == v.Ranks[0].Last {
		word = "rank "
	}
	return s + " (" + word + strings.Join(ranks, ", ") + ")"
}

// nameList names nodes. Of many nodes it names the first and counts the others.
// For all nodes, and for a large group that is not odd, it shows only the
// number.
func nameList(nodes []int, names []string, all int, odd bool) string {
	switch {
	case len(nodes) == all && all == 2:
		return "both nodes"
	case len(nodes) == all && all > 2:
		return fmt.Sprintf("all %d nodes", all)
	case len(nodes) > shownNodes && !odd:
		return fmt.Sprintf("%d nodes", len(nodes))
	}
	shown, rest := nodes, ""
	if len(nodes) > shownNodes {
		shown, rest = nodes[:shownNodes-1], fmt.Sprintf(" and %d more", len(nodes)-shownNodes+1)
	}
	var list []string
	for _, i := range shown {
		list = append(list, NodeName(i, names))
	}
	return strings.Join(list, ", ") + rest
}

// NodeName returns the node's name. It accepts any number, because a finding
// may come from another machine.
func NodeName(i int, names []string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("node %d", i)
	}
	return Clean(names[i], 120)
}

// fix shows what to do. Lines that begin with two blanks are commands.
func (w *writer) fix(text string) {
	first := "  fix: "
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if command, ok := strings.CutPrefix(line, "  "); ok {
			w.WriteString("         " + Clean(command, 4000) + "\n")
			continue
		}
		w.block(first, "       ", line)
		first = "       "
	}
}

// end says how to start the job without a repair.
func (w *writer) end(found []Finding) {
	var ids []string
	gpu := false
	for _, x := range found {
		gpu = gpu || x.Severity == Error && strings.ContainsAny(x.ID[:min(1, len(x.ID))], "VDN")
		if n := len(ids); x.Severity != Note && (n == 0 || ids[n-1] != x.ID) {
			ids = append(ids, clip(x.ID))
		}
	}
	w.WriteString("\n")
	if Worst(found) == Error && !w.Check {
		if gpu { // a machine with a GPU is assumed to use it
			w.block("", "", "For workers that use no GPU, hide them: CUDA_VISIBLE_DEVICES= gorun ...")
		}
		w.block("", "", "--preflight=warn starts the workers all the same; --ignore "+strings.Join(ids, ",")+" leaves these checks out.")
		return
	}
	w.block("", "", "--ignore "+strings.Join(ids, ",")+" leaves these checks out.")
}

// block writes wrapped prose.
func (w *writer) block(first, next, text string) {
	for _, line := range wrap(Clean(text, 4000), w.Width-len(next)) {
		w.WriteString(first + line + "\n")
		first = next
	}
}

func (w *writer) paint(s Severity) string {
	word := clip(string(s))
	if !w.Colour {
		return word
	}
	switch s {
	case Error:
		return "\x1b[1;31m" + word + "\x1b[0m"
	case Warning:
		return "\x1b[1;33m" + word + "\x1b[0m"
	default:
		return "\x1b[1m" + word + "\x1b[0m"
	}
}

// matrixNodes is the largest matrix that is drawn. For a larger one the
// failures are listed.
const matrixNodes = 16

// matrix shows which nodes could not reach which.
func (w *writer) matrix(m *Matrix) {
	if len(m.Nodes) <= matrixNodes {
		w.grid(m)
		return
	}
	w.pairs(m)
}

// grid draws a row for each node that connects and a column for each target. It
// uses words if they fit, else letters with an explanation.
func (w *writer) grid(m *Matrix) {
	cell := func(i, j int) string {
		if i >= len(m.Cells) || j >= len(m.Cells[i]) || i == j && m.Cells[i][j] == "" {
			return "-"
		}
		return Clean(m.Cells[i][j], 20)
	}
	label, column := 0, 3
	for i := range m.Nodes {
		label = max(label, len(w.row(m, i)))
		for j := range m.Nodes {
			column = max(column, len(cell(i, j)))
		}
	}
	label = min(label, 30)
	letters := label+8+len(m.Nodes)*(column+2) > w.Width
	if letters {
		column = 3
	}
	w.line(fmt.Sprintf("    %-*s   to", label, "from"), m, column, func(j int) string { return fmt.Sprint(m.Nodes[j]) })
	used := map[string]string{}
	for i := range m.Nodes {
		w.line(fmt.Sprintf("    %-*s     ", label, Clean(w.row(m, i), label)), m, column, func(j int) string {
			text := cell(i, j)
			if !letters || text == string(OK) || len(text) < 2 {
				return text
			}
			used[letter(text)] = text
			return letter(text)
		})
	}
	var legend []string
	for short, text := range used {
		legend = append(legend, short+" = "+text)
	}
	slices.Sort(legend)
	if len(legend) > 0 {
		w.block("    ", "    ", strings.Join(legend, ", "))
	}
}

func (w *writer) row(m *Matrix, i int) string {
	return fmt.Sprintf("%d %s", m.Nodes[i], NodeName(m.Nodes[i], w.names))
}

// line writes one line of the grid.
func (w *writer) line(head string, m *Matrix, column int, cell func(j int) string) {
	var b strings.Builder
	b.WriteString(head)
	for j := range m.Nodes {
		fmt.Fprintf(&b, "  %-*s", column, cell(j))
	}
	w.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}

// letter returns the letter for a result where words do not fit.
func letter(result string) string {
	switch Result(result) {
	case Refused:
		return "R"
	case NoRoute:
		return "N"
	case TimedOut:
		return "T"
	case Stalled:
		return "S"
	case Reset:
		return "X"
	case Denied:
		return "D"
	case NoAddress:
		return "A"
	case OtherAgent:
		return "O"
	case Failed:
		return "F"
	default:
		return "?"
	}
}

// pairs lists the failures of a large matrix. Nodes that failed towards the
// same nodes in the same way share a line.
func (w *writer) pairs(m *Matrix) {
	type line struct {
		result   string
		from, to []int
	}
	var lines []*line
	index := map[string]*line{}
	for i, cells := range m.Cells {
		to := map[string][]int{}
		var results []string
		for j, result := range cells {
			if i >= len(m.Nodes) || j >= len(m.Nodes) || result == "" || result == string(OK) {
				continue
			}
			if to[result] == nil {
				results = append(results, result)
			}
			to[result] = append(to[result], m.Nodes[j])
		}
		for _, result := range results {
			key := fmt.Sprint(result, to[result])
			if index[key] == nil {
				index[key] = &line{result: result, to: to[result]}
				lines = append(lines, index[key])
			}
			index[key].from = append(index[key].from, m.Nodes[i])
		}
	}
	slices.SortStableFunc(lines, func(a, b *line) int {
		return len(b.from)*len(b.to) - len(a.from)*len(a.to)
	})
	for i, l := range lines {
		if i == MaxValues {
			w.block("    ", "    ", fmt.Sprintf("and %d more", len(lines)-i))
			return
		}
		w.block("    ", "      ", fmt.Sprintf("%s -> %s: %s",
			nameList(l.from, w.names, len(w.names), true), nameList(l.to, w.names, len(w.names), true), Clean(l.result, 20)))
	}
}
