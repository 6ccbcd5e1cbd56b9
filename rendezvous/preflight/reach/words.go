package reach

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// accuse makes one finding of the attempts that failed, nothing if none did.
func accuse(f *preflight.Fleet, e *evidence, say phrases, consequence string) []preflight.Finding {
	if len(e.attempts) == 0 {
		return nil
	}
	faults := e.blame()
	if len(faults) == 0 {
		return nil
	}
	for i := range faults {
		faults[i].both = faults[i].both || say.undirected
	}
	w := speaker{Fleet: f, evidence: e, say: say, names: f.Names(), ifaces: ifaces(f)}
	var text []string
	for i, g := range w.alike(faults) {
		if i == 4 {
			text = append(text, "And more.")
			break
		}
		text = append(text, w.sentence(g))
	}
	steps := elsewhere(f, e)
	if steps == nil {
		steps = w.fix(faults[0])
	}
	return []preflight.Finding{{
		Text:   strings.Join(text, " ") + " " + w.meaning() + consequence + ".",
		Values: f.Complete(w.values(faults)),
		Steps:  steps,
		Matrix: e.draw(),
	}}
}

// speaker puts faults into words.
type speaker struct {
	*preflight.Fleet
	*evidence
	say    phrases
	names  []string
	ifaces map[point]string
}

// ifaces names the interface of each point.
func ifaces(f *preflight.Fleet) map[point]string {
	out := map[point]string{}
	for i, n := range f.Known() {
		for _, l := range n.Listeners {
			out[point{i, hostOf(l.Addr)}] = l.Iface
		}
	}
	return out
}

// name is "node7 (eth0 10.0.0.7)".
func (w *speaker) name(id int) string {
	p := w.points[id]
	where := strings.TrimSpace(w.ifaces[p] + " " + p.addr)
	return fmt.Sprintf("%s (%s)", preflight.NodeName(p.node, w.names), where)
}

func (w *speaker) list(points []int) string {
	const most = 6
	var parts []string
	for i, p := range points {
		if i == most-1 && len(points) > most {
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more", len(points)-i)
		}
		parts = append(parts, w.name(p))
	}
	return strings.Join(parts, ", ")
}

// results are what the attempts of a fault ended with, the most frequent first.
func (w *speaker) results(attempts []int) string {
	count := map[preflight.Result]int{}
	var kinds []preflight.Result
	for _, i := range attempts {
		r := w.attempts[i].probe.Result
		if count[r] == 0 {
			kinds = append(kinds, r)
		}
		count[r]++
	}
	slices.SortStableFunc(kinds, func(a, b preflight.Result) int {
		return cmp.Or(count[b]-count[a], strings.Compare(string(a), string(b)))
	})
	var words []string
	for _, r := range kinds[:min(3, len(kinds))] {
		words = append(words, string(r))
	}
	if len(kinds) == 1 && kinds[0] == preflight.Failed && len(attempts) > 0 {
		return preflight.Clean(w.attempts[attempts[0]].probe.Text, 100)
	}
	return strings.Join(words, " or ")
}

// alike puts faults together that one sentence can tell: addresses of nodes with
// the same trouble.
func (w *speaker) alike(faults []fault) [][]fault {
	var out [][]fault
	at := map[string]int{}
	for _, f := range faults {
		key := ""
		if (f.from.kind == onePoint) != (f.to.kind == onePoint) && (f.from.kind == anyone || f.to.kind == anyone) {
			key = fmt.Sprint(f.from.kind, f.both, w.results(f.attempts))
		}
		if i, ok := at[key]; ok && key != "" {
			out[i] = append(out[i], f)
			continue
		}
		at[key] = len(out)
		out = append(out, []fault{f})
	}
	return out
}

// sentence says what is wrong with faults that are alike.
func (w *speaker) sentence(g []fault) string {
	f := g[0]
	why := ": " + w.results(f.attempts) + "."
	if w.say.undirected { // its words are the result
		why = "."
	}
	var points []int
	for _, x := range g {
		if x.from.kind == onePoint {
			points = append(points, x.from.id)
		} else {
			points = append(points, x.to.id)
		}
	}
	slices.SortFunc(points, func(a, b int) int {
		return cmp.Or(w.points[a].node-w.points[b].node, strings.Compare(w.points[a].addr, w.points[b].addr))
	})
	switch from, to := f.from, f.to; {
	case f.islands != nil:
		return fmt.Sprintf(w.say.islands, len(f.islands)) + why
	case from.kind == anyone && to.kind == anyone:
		return w.say.nobody + why
	case (from.kind == anyone || to.kind == anyone) && f.both:
		return fmt.Sprintf(w.say.cutOff, w.list(points)) + why
	case from.kind == anyone:
		return fmt.Sprintf(w.say.deaf, w.list(points)) + why
	case to.kind == anyone:
		return fmt.Sprintf(w.say.mute, w.list(points)) + why
	case from.kind == onePoint && to.kind == onePoint && f.both:
		return fmt.Sprintf(w.say.pair, w.name(from.id), w.name(to.id)) + why
	case from.kind == onePoint && to.kind == onePoint && w.back(f):
		return fmt.Sprintf(w.say.oneWay, w.name(from.id), w.name(to.id)) + ", though the other direction works" + why
	case from.kind == onePoint && to.kind == onePoint:
		return fmt.Sprintf(w.say.oneWay, w.name(from.id), w.name(to.id)) + why
	case from == to:
		return w.say.none + " within " + w.nets[from.id] + why
	case f.both && w.say.undirected:
		return w.say.none + " between " + w.half(from) + " and " + w.half(to) + why
	case f.both:
		return w.say.none + " between " + w.half(from) + " and " + w.half(to) + ", in neither direction" + why
	default:
		return w.say.none + " from " + w.half(from) + " to " + w.half(to) + why
	}
}

func (w *speaker) half(h half) string {
	switch h.kind {
	case oneNet:
		return w.nets[h.id]
	case onePoint:
		return w.name(h.id)
	default:
		return "other networks"
	}
}

// back tells whether the other direction of a single pair works.
func (w *speaker) back(f fault) bool {
	return slices.ContainsFunc(w.attempts, func(a attempt) bool { return !a.bad && a.from == f.to.id && a.to == f.from.id })
}

// meaning explains the results that there are.
func (w *speaker) meaning() string {
	seen := map[preflight.Result]bool{}
	for _, a := range w.attempts {
		if a.bad {
			seen[a.probe.Result] = true
		}
	}
	var out strings.Builder
	for _, m := range []struct {
		r    preflight.Result
		text string
	}{
		{preflight.Refused, "Refused: an agent listens there, so the address leads to another machine, or a firewall rejects."},
		{preflight.NoRoute, "No route: this network is not reached from there, the machine does not answer in its own subnet, or a firewall says so."},
		{preflight.TimedOut, "Timed out: a firewall drops the packets without a word, or they take a wrong way."},
		{preflight.Reset, "Reset: a proxy or firewall in between breaks the connection, or the address exists twice."},
		{preflight.Denied, "Denied: the connecting node's own firewall or SELinux forbids it."},
		{preflight.NoAddress, "No address: the connecting node no longer has the address that it would use."},
	} {
		if seen[m.r] {
			out.WriteString(m.text + " ")
		}
	}
	return out.String()
}
