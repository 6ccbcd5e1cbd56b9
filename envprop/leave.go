package envprop

import (
	"fmt"
	"slices"
	"strings"
)

// stuck is a variable that an nccl.conf sets on nodes that should not have it.
type stuck struct {
	name, file string
	nodes      []int
}

// under keeps the value that an nccl.conf gives once nothing is exported: it
// cannot be taken away.
func (u *unifier) under(name string, m *member, after *state) {
	o := m.report.find(name)
	if o == nil {
		return
	}
	file := o.Under
	if o.Conf != "" {
		file = o.Conf
		after.set, after.value = true, o.Value
	} else if file != "" {
		after.set, after.value = true, NewValue(name, "what "+file+" says")
	}
	if file == "" {
		return
	}
	for i := range u.stuck {
		if s := &u.stuck[i]; s.name == name && s.file == file {
			s.nodes = append(s.nodes, m.rank)
			return
		}
	}
	u.stuck = append(u.stuck, stuck{name, file, []int{m.rank}})
}

// remove takes away what the user wants to be away: by pattern too what no
// report tells of, but nothing that an assignment sets.
func (u *unifier) remove(d *Decision) {
	for i := range u.members {
		a := &d.Members[i]
		for _, o := range u.offers.removals {
			sets := slices.ContainsFunc(a.Set, func(s Setting) bool { return s.Name == o.ask.Name })
			gone := slices.ContainsFunc(a.Unset, func(r Removal) bool { return r.Name == o.ask.Name })
			if u.members[i].means(o.ask.To) && !sets && !gone {
				s := u.source(o)
				s.Rule = ""
				a.Unset = append(a.Unset, Removal{o.ask.Name, s})
			}
		}
		slices.SortStableFunc(a.Unset, func(x, y Removal) int { return strings.Compare(x.Name, y.Name) })
	}
}

// note tells of targets that no node has, and of files that stay.
func (u *unifier) note(d *Decision) {
	has := map[Target]bool{}
	for i := range u.members {
		for _, t := range u.members[i].targets {
			has[t] = true
		}
	}
	said := map[string]bool{}
	for i := range u.reports {
		for _, a := range u.reports[i].Asks {
			if !has[a.To] && !said[a.At] {
				said[a.At] = true
				d.Notes = append(d.Notes, fmt.Sprintf("%s: no node of this job is meant by %s", line(a.At), strings.TrimSuffix(a.To.String(), ":")))
			}
		}
	}
	for _, s := range u.stuck {
		where := u.reports[s.nodes[0]].Node.called(s.nodes[0])
		if more := len(s.nodes) - 1; more > 0 {
			where += fmt.Sprintf(" and %d nodes more", more)
		}
		d.Notes = append(d.Notes, fmt.Sprintf("%s: %s on %s sets it, and gorun cannot take that away: remove it there, or give it a value with -x %s=...", s.name, line(s.file), where, s.name))
	}
	if n := len(d.Notes); n > maxNotes {
		d.Notes = append(d.Notes[:maxNotes], fmt.Sprintf("and %d notes more about the environment", n-maxNotes))
	}
}

const maxNotes = 64
