package reach

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// maxSentences bounds the sentences of one finding.
const maxSentences = 4

// finding returns the finding about the bad cells; none without evidence.
func (e *evidence) finding(texts phrases, consequence string) []preflight.Finding {
	if e == nil {
		return nil
	}
	faults := e.explain()
	for i := range faults {
		faults[i].both = faults[i].both || texts.undirected
	}
	w := describer{evidence: e, texts: texts, names: e.Names()}
	var text []string
	for i, g := range w.groupAlike(faults) {
		if i == maxSentences {
			text = append(text, "There are more faults.")
			break
		}
		text = append(text, w.sentence(g))
	}
	steps := e.otherNetwork()
	if steps == nil {
		steps = w.steps(faults[0])
	}
	return []preflight.Finding{{
		Text:   strings.Join(text, " ") + " " + e.resultMeanings() + consequence + ".",
		Values: e.Complete(w.values(faults)),
		Steps:  steps,
		Matrix: e.draw(),
	}}
}

// describer describes faults in words.
type describer struct {
	*evidence
	texts phrases
	names []string
}

// where returns "eth0 10.0.0.7".
func (p point) where() string { return strings.TrimSpace(p.iface + " " + p.addr) }

// name returns "node7 (eth0 10.0.0.7)".
func (w *describer) name(id int) string {
	p := w.points[id]
	return fmt.Sprintf("%s (%s)", preflight.NodeName(p.node, w.names), p.where())
}

// list names points, in the order of their nodes.
func (w *describer) list(points []int) string {
	const most = 6
	slices.SortFunc(points, func(a, b int) int {
		return cmp.Or(w.points[a].node-w.points[b].node, strings.Compare(w.points[a].addr, w.points[b].addr))
	})
	var parts []string
	for i, p := range points {
		if i == most-1 && len(points) > most {
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more", len(points)-i)
		}
		parts = append(parts, w.name(p))
	}
	return strings.Join(parts, ", ")
}

// results returns ": " and the results of a fault's cells, the most frequent
// first; "" if the phrases say it.
func (w *describer) results(f fault) string {
	if w.texts.undirected {
		return ""
	}
	count := map[preflight.Result]int{}
	var kinds []preflight.Result
	for _, i := range f.cells {
		r := w.cells[i].probe.Result
		if count[r] == 0 {
			kinds = append(kinds, r)
		}
		count[r]++
	}
	if len(kinds) == 1 && kinds[0] == preflight.Failed {
		return ": " + preflight.Clean(cmp.Or(w.cells[f.cells[0]].probe.Text, string(preflight.Failed)), 100)
	}
	slices.SortFunc(kinds, func(a, b preflight.Result) int {
		return cmp.Or(count[b]-count[a], strings.Compare(string(a), string(b)))
	})
	var words []string
	for _, r := range kinds[:min(3, len(kinds))] {
		words = append(words, string(r))
	}
	return ": " + strings.Join(words, " or ")
}

// groupAlike groups the faults that one sentence can describe: points with the
// same fault.
func (w *describer) groupAlike(faults []fault) [][]fault {
	var out [][]fault
	at := map[string]int{}
	for _, f := range faults {
		if _, ok := f.point(); !ok {
			out = append(out, []fault{f})
			continue
		}
		key := fmt.Sprint(!f.both && f.from.kind == anyNode, f.both, w.results(f))
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], f)
	}
	return out
}

// point returns the point that a fault is about. ok is false if it is not about
// one point.
func (f *fault) point() (id int, ok bool) {
	switch {
	case f.from.kind == onePoint && f.to.kind == anyNode:
		return f.from.id, true
	case f.from.kind == anyNode && f.to.kind == onePoint:
		return f.to.id, true
	}
	return 0, false
}

// sentence says what is wrong with faults that are alike.
func (w *describer) sentence(alike []fault) string {
	f := alike[0]
	why := w.results(f) + "."
	var points []int
	for _, x := range alike {
		if id, ok := x.point(); ok {
			points = append(points, id)
		}
	}
	switch from, to := f.from, f.to; {
	case f.islands != nil:
		return fmt.Sprintf(w.texts.groups, len(f.islands)) + why
	case points != nil && f.both:
		return fmt.Sprintf(w.texts.point, w.list(points)) + why
	case points != nil && from.kind == anyNode:
		return fmt.Sprintf(w.texts.toPoint, w.list(points)) + why
	case points != nil:
		return fmt.Sprintf(w.texts.fromPoint, w.list(points)) + why
	case from.kind == anyNode:
		return w.texts.everywhere + why
	case f.isPair() && f.both:
		return fmt.Sprintf(w.texts.pair, w.name(from.id), w.name(to.id)) + why
	case f.isPair() && w.works(to.id, from.id):
		return fmt.Sprintf(w.texts.oneWay, w.name(from.id), w.name(to.id)) + ", though the other direction works" + why
	case f.isPair():
		return fmt.Sprintf(w.texts.oneWay, w.name(from.id), w.name(to.id)) + why
	case from == to:
		return w.texts.between + " within " + w.nets[from.id] + why
	case f.both && w.texts.undirected:
		return w.texts.between + " between " + w.side(from) + " and " + w.side(to) + why
	case f.both:
		return w.texts.between + " between " + w.side(from) + " and " + w.side(to) + ", in neither direction" + why
	default:
		return w.texts.between + " from " + w.side(from) + " to " + w.side(to) + why
	}
}

func (w *describer) side(s side) string {
	if s.kind == oneNet {
		return w.nets[s.id]
	}
	return w.name(s.id)
}

// works reports whether the cell between two points is good.
func (e *evidence) works(from, to int) bool {
	return slices.ContainsFunc(e.cells, func(c cell) bool { return !c.bad && c.from == from && c.to == to })
}

// resultMeanings explains the results of the bad cells.
func (e *evidence) resultMeanings() string {
	var out strings.Builder
	for _, m := range []struct {
		result preflight.Result
		text   string
	}{
		{preflight.Refused, "Refused: an agent listens there, so the address leads to another machine, or a firewall rejects the connection."},
		{preflight.NoRoute, "No route: there is no route to this network, the machine does not answer in its own subnet, or a firewall rejects the connection."},
		{preflight.TimedOut, "Timed out: a firewall drops the packets, or they take a wrong route."},
		{preflight.Reset, "Reset: a proxy or a firewall breaks the connection, or two machines have the address."},
		{preflight.Denied, "Denied: the connecting node's own firewall or SELinux forbids it."},
		{preflight.NoAddress, "No address: the connecting node no longer has the address that it would use."},
	} {
		if slices.ContainsFunc(e.cells, func(c cell) bool { return c.bad && c.probe.Result == m.result }) {
			out.WriteString(m.text + " ")
		}
	}
	return out.String()
}

// values says for each node that a fault names what is wrong with it. Networks
// that are not the largest are odd.
func (w *describer) values(faults []fault) []preflight.Value {
	var out []preflight.Value
	add := func(text string, odd bool, nodes ...int) {
		i := slices.IndexFunc(out, func(v preflight.Value) bool { return v.Value == text })
		if i < 0 {
			i = len(out)
			out = append(out, preflight.Value{Value: text})
		}
		out[i].Odd = out[i].Odd || odd
		out[i].Nodes = append(out[i].Nodes, nodes...)
		slices.Sort(out[i].Nodes)
		out[i].Nodes = slices.Compact(out[i].Nodes)
	}
	most := 0 // nodes of a network
	for _, f := range faults {
		for _, s := range []side{f.from, f.to} {
			if s.kind == oneNet {
				most = max(most, len(w.members(s.id)))
			}
		}
	}
	for _, f := range faults {
		why := w.results(f)
		id, isPoint := f.point()
		switch from, to := f.from, f.to; {
		case f.islands != nil:
			for i, g := range f.islands {
				add(fmt.Sprintf("group %d", i+1), len(g) < len(f.islands[0]), g...)
			}
		case isPoint && f.both:
			add(w.texts.node.point+why, true, w.points[id].node)
		case isPoint && from.kind == anyNode:
			add(w.texts.node.toPoint+why, true, w.points[id].node)
		case isPoint:
			add(w.texts.node.fromPoint+why, true, w.points[id].node)
		case from.kind == anyNode:
			add(w.texts.everywhere+why, false, w.members(0)...)
		case f.isPair() && w.texts.undirected:
			add(w.texts.node.point, true, w.points[from.id].node, w.points[to.id].node)
		case f.isPair() && f.both:
			add(fmt.Sprintf(w.texts.node.pair, w.name(to.id))+why, true, w.points[from.id].node)
		case f.isPair():
			add(fmt.Sprintf(w.texts.node.oneWay, w.name(to.id))+why, true, w.points[from.id].node)
		default:
			for _, s := range []side{from, to} {
				if s.kind == oneNet {
					nodes := w.members(s.id)
					add("in "+w.nets[s.id], len(nodes) < most, nodes...)
				} else {
					add("at "+w.points[s.id].where(), true, w.points[s.id].node)
				}
			}
		}
	}
	return out
}

// maxDrawn is how many nodes the matrix of a finding shows.
const maxDrawn = 12

// draw shows the cells as a small matrix. It shows all nodes of a small fleet.
// Of a large fleet it shows the nodes with the most failures and the nodes that
// share most cells with them.
func (e *evidence) draw() *preflight.Matrix {
	failures := map[int]int{}
	for _, c := range e.cells {
		from, to := e.nodes(c)
		bad := 0
		if c.bad {
			bad = 1
		}
		failures[from] += bad
		failures[to] += bad
	}
	nodes := byCount(failures)
	if len(nodes) > maxDrawn {
		nodes = nodes[:maxDrawn/3]
		partners := map[int]int{}
		for _, c := range e.cells {
			from, to := e.nodes(c)
			switch f, t := slices.Contains(nodes, from), slices.Contains(nodes, to); {
			case f && !t:
				partners[to]++
			case t && !f:
				partners[from]++
			}
		}
		more := byCount(partners)
		nodes = append(nodes, more[:min(len(more), maxDrawn-len(nodes))]...)
	}
	slices.Sort(nodes)
	m := &preflight.Matrix{Nodes: nodes, Cells: make([][]string, len(nodes))}
	at := map[int]int{}
	for i, n := range nodes {
		at[n] = i
		m.Cells[i] = make([]string, len(nodes))
	}
	for _, c := range e.cells {
		from, to := e.nodes(c)
		i, known := at[from]
		j, also := at[to]
		switch {
		case !known || !also:
		case c.bad:
			m.Cells[i][j] = string(c.probe.Result)
		case m.Cells[i][j] == "":
			m.Cells[i][j] = string(preflight.OK)
		}
	}
	return m
}

// byCount returns the nodes, those with the largest count first.
func byCount(count map[int]int) []int {
	nodes := make([]int, 0, len(count))
	for n := range count {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Or(count[b]-count[a], a-b) })
	return nodes
}
