package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// matrixNodes is the largest matrix that is drawn; of a larger one the failures
// are listed.
const matrixNodes = 16

// matrix shows who could not reach whom.
func (w *writer) matrix(m *Matrix) {
	if len(m.Nodes) <= matrixNodes {
		w.grid(m)
		return
	}
	w.pairs(m)
}

// grid draws a row for each node that connected and a column for each that was
// connected to: in words where they fit, else in letters that are explained.
func (w *writer) grid(m *Matrix) {
	cell := func(i, j int) string {
		if i >= len(m.Cells) || j >= len(m.Cells[i]) || i == j && m.Cells[i][j] == "" {
			return "-"
		}
		return clean(m.Cells[i][j], 20)
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
		w.line(fmt.Sprintf("    %-*s     ", label, clean(w.row(m, i), label)), m, column, func(j int) string {
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
	return fmt.Sprintf("%d %s", m.Nodes[i], nameOf(m.Nodes[i], w.names))
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

// letter stands for a result where words do not fit.
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
	case Stranger:
		return "O"
	case Failed:
		return "F"
	default:
		return "?"
	}
}

// pairs lists the failures of a large matrix. Nodes that failed towards the same
// nodes in the same way are one line.
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
		if i == maxValues {
			w.block("    ", "    ", fmt.Sprintf("and %d more", len(lines)-i))
			return
		}
		w.block("    ", "      ", fmt.Sprintf("%s -> %s: %s",
			nameList(l.from, w.names, len(w.names), true), nameList(l.to, w.names, len(w.names), true), clean(l.result, 20)))
	}
}
