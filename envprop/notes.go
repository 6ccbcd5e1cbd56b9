package envprop

import (
	"fmt"
	"slices"
	"strings"
)

// confValue is a variable that an nccl.conf sets on nodes that should not have it.
type confValue struct {
	name, file string
	nodes      []int
}

// keepConfValue keeps the value of an nccl.conf. NCCL uses it when the variable is not
// exported, and gorun cannot change the file.
func (u *unifier) keepConfValue(name string, m *member, after *state) {
	o := m.report.find(name)
	if o == nil {
		return
	}
	file := o.Overridden
	if o.Conf != "" {
		file = o.Conf
		after.set, after.value = true, o.Value
	} else if file != "" {
		after.set, after.value = true, NewValue(name, "the value in "+file)
	}
	if file == "" {
		return
	}
	for i := range u.confValues {
		if s := &u.confValues[i]; s.name == name && s.file == file {
			s.nodes = append(s.nodes, m.rank)
			return
		}
	}
	u.confValues = append(u.confValues, confValue{name, file, []int{m.rank}})
}

// requestKey identifies a request without its node: nodes that start the same command
// have equal keys.
type requestKey struct {
	to         Target
	name, text string
	kind       Kind
}

// nodesWithout lists the group ranks of at most two nodes that a request targets and that
// do not make it themselves. Most nodes of a large job make the same requests, so known
// keeps the result of each.
func (u *unifier) nodesWithout(a *Override, known map[requestKey][]int) []int {
	w := requestKey{a.To, a.Name, a.Value.Reveal(), a.Kind}
	if list, ok := known[w]; ok {
		return list
	}
	var list []int
	for i := range u.members {
		m := &u.members[i]
		if m.report.Format == 0 || !m.isIncludedIn(a.To) || len(list) == 2 {
			continue
		}
		o, ok := m.nodeRequest(a.Name)
		if !ok || o.override.Kind != a.Kind || o.override.Value.Reveal() != w.text {
			list = append(list, i)
		}
	}
	known[w] = list
	return list
}

// rejected lists the requests of a node that other nodes do not follow, because they do
// not trust it. The list has no values.
func (u *unifier) rejected(from *member, known map[requestKey][]int) []string {
	var list []string
	for k := range from.report.Overrides {
		a := &from.report.Overrides[k]
		if a.Kind == FromUnset && !a.Exact || u.offers.isFollowed(a) || slices.Contains(list, a.At) {
			continue
		}
		if slices.ContainsFunc(u.nodesWithout(a, known), func(rank int) bool { return rank != from.rank }) {
			list = append(list, a.At)
		}
	}
	return list
}

// noteRejected adds a note for each node whose requests other nodes do not follow.
func (u *unifier) noteRejected(d *Decision) {
	const most = 8
	known := map[requestKey][]int{}
	for i := range u.members {
		list := u.rejected(&u.members[i], known)
		if len(list) == 0 {
			continue
		}
		more := ""
		if n := len(list) - most; n > 0 {
			list, more = list[:most], fmt.Sprintf(" and %d more", n)
		}
		d.Notes = append(d.Notes, fmt.Sprintf("%s%s of %s is left out on the other nodes: %s", line(strings.Join(list, ", ")), more, u.reports[i].Node.displayName(i), UntrustedReason))
	}
}

// note adds notes about targets that no node has, about requests that other nodes do
// not follow, and about nccl.conf files whose values stay. It bounds all notes.
func (u *unifier) note(d *Decision) {
	has := map[Target]bool{}
	for i := range u.members {
		for _, t := range u.members[i].targets {
			has[t] = true
		}
	}
	said := map[string]bool{}
	for i := range u.reports {
		for _, a := range u.reports[i].Overrides {
			if !has[a.To] && !said[a.At] {
				said[a.At] = true
				d.Notes = append(d.Notes, fmt.Sprintf("%s: no node of this job is %s", line(a.At), strings.TrimSuffix(a.To.String(), ":")))
			}
		}
	}
	u.noteRejected(d)
	for _, s := range u.confValues {
		where := u.reports[s.nodes[0]].Node.displayName(s.nodes[0])
		if more := len(s.nodes) - 1; more > 0 {
			where += fmt.Sprintf(" and %d nodes more", more)
		}
		d.Notes = append(d.Notes, fmt.Sprintf("%s: %s on %s sets it, and gorun cannot change that file: delete the line there, or set a value with -x %s=...", s.name, line(s.file), where, s.name))
	}
	if n := len(d.Notes); n > maxNotes {
		d.Notes = append(d.Notes[:maxNotes], fmt.Sprintf("and %d notes more about the environment", n-maxNotes))
	}
}

const maxNotes = 64
