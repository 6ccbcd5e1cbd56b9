package envprop

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Unify decides from the reports of all nodes, by group rank. It is pure, and
// looks at each variable apart:
//
//   - What the user asks for counts first (Ask.weight). Of several nodes' equally
//     weighty requests that of the first node counts; where nodes may differ, a
//     node's own does.
//   - What must or should agree has one value: the first node's effective one.
//     Where the first node has none, nobody has: its word is "unset".
//   - What may differ between nodes stays as each node has it, else it is what
//     gorun chose. It is never copied.
//   - What belongs to a rank or a machine, and what is not governed, stays behind.
//   - What makes programs run or load code is each node's own business, unless
//     the nodes trust each other.
//
// An assignment has what changes a node, no more. The first node is the first
// whose report there is.
func Unify(reports []Report, p Policy) Decision {
	u := unifier{policy: p, reports: reports, offers: collect(reports, p.Trusted), first: -1}
	u.members = make([]member, len(reports))
	for i := range reports {
		u.members[i] = member{i, &reports[i], reports[i].Node.targets(i)}
		if u.first < 0 && reports[i].Format != 0 {
			u.first = i
		}
	}
	d := Decision{Members: make([]Assignment, len(reports))}
	for _, name := range u.names() {
		if x := u.decide(name, &d); x != nil {
			d.Differences = append(d.Differences, *x)
		}
	}
	u.remove(&d)
	u.note(&d)
	return d
}

type unifier struct {
	policy  Policy
	reports []Report
	members []member
	offers  offers
	first   int // group rank of the first node, -1 when there are no reports
	stuck   []stuck
}

// names lists the variables about which there is something to decide.
func (u *unifier) names() []string {
	all := map[string]bool{} // and whether it is for the decision
	for name := range u.offers.best {
		all[name] = true
	}
	for i := range u.reports {
		for _, o := range u.reports[i].Own {
			if _, seen := all[o.Name]; !seen {
				all[o.Name] = isReported(o.Name)
			}
		}
	}
	for _, chosen := range u.policy.Chosen {
		for _, c := range chosen {
			all[c.Name] = all[c.Name] || !reserved(c.Name)
		}
	}
	maps.DeleteFunc(all, func(_ string, decide bool) bool { return !decide })
	return names(all)
}

// state is what a node has of a variable before or after the decision.
type state struct {
	known bool // else it is left out of differences
	set   bool
	value Value
}

func (s state) same(t state) bool { return s.set == t.set && s.value.Reveal() == t.value.Reveal() }

// of is the state that a node reports.
func (r *Report) of(name string) state {
	s := state{known: r.Format != 0}
	if o := r.find(name); o != nil {
		s.set, s.value = true, o.Value
	}
	return s
}

// decide settles one variable on all nodes.
func (u *unifier) decide(name string, d *Decision) *Difference {
	v, _ := ncclenv.Governed(name)
	agree := mustAgree(name)
	before, after := make([]state, len(u.members)), make([]state, len(u.members))
	asked := 0
	for i := range u.members {
		m := &u.members[i]
		own := m.report.of(name)
		before[i], after[i] = own, own
		a := &d.Members[i]
		o, wanted := u.offers.winner(name, m, v.Scope)
		chosen, offered := u.chosen(name, i)
		switch {
		case wanted && o.ask.Kind == FromUnset:
			asked++
			after[i] = state{known: own.known}
			u.under(name, m, &after[i])
		case wanted:
			asked++
			after[i] = u.put(a, Setting{name, o.ask.Value, u.source(o)}, own.known)
		case offered && (chosen.Asked || !agree && !own.set || agree && !u.has(name)):
			after[i] = u.put(a, Setting{name, NewValue(name, chosen.Value), Source{Kind: FromGorun, Rule: chosen.Rule}}, own.known)
		case agree:
			u.word(name, m, a, &after[i])
		}
	}
	return u.difference(v, name, asked, before, after)
}

// has reports whether the first node has a value of its own.
func (u *unifier) has(name string) bool {
	return u.first >= 0 && u.reports[u.first].find(name) != nil
}

// word makes a node have what the first node has.
func (u *unifier) word(name string, m *member, a *Assignment, after *state) {
	if u.first < 0 {
		return
	}
	first := &u.reports[u.first]
	word := first.of(name)
	if after.known && word.same(*after) {
		return
	}
	source := Source{Kind: FromFirst, Node: first.Node.called(u.first), Rule: rule(name)}
	switch {
	case word.set && !u.offers.travels(name, word.value):
	case word.set:
		source.At = first.find(name).Conf
		*after = u.put(a, Setting{name, word.value, source}, after.known)
	case after.set:
		o := m.report.find(name)
		*after = state{known: true}
		if o.Conf == "" {
			a.Unset = append(a.Unset, Removal{Name: name, Source: source})
		}
		u.under(name, m, after)
	}
}

// put sets a variable and is the state after it.
func (u *unifier) put(a *Assignment, s Setting, known bool) state {
	a.Set = append(a.Set, s)
	return state{known: known, set: true, value: s.Value}
}

// source is where a wanted value comes from.
func (u *unifier) source(o offer) Source {
	return Source{Kind: o.ask.Kind, Node: u.reports[o.node].Node.called(o.node), At: o.ask.At, Rule: rule(o.ask.Name)}
}

// chosen is what gorun computed of a variable for a node.
func (u *unifier) chosen(name string, i int) (Chosen, bool) {
	if i < len(u.policy.Chosen) {
		for _, c := range slices.Backward(u.policy.Chosen[i]) {
			if c.Name == name {
				return c, true
			}
		}
	}
	return Chosen{}, false
}

// Conflict is what becomes of a variable that has to agree and does not.
type Conflict string

const (
	ConflictFirst Conflict = "first" // the first node's word counts, the difference is shown
	ConflictError Conflict = "error" // the job does not start
)

// ParseConflict reads --env-conflict; "" is the default.
func ParseConflict(s string) (Conflict, error) {
	switch c := Conflict(s); c {
	case "":
		return ConflictFirst, nil
	case ConflictFirst, ConflictError:
		return c, nil
	default:
		return "", fmt.Errorf("--env-conflict %s: first or error is expected", line(s))
	}
}

// Policy is what the coordinator adds to the reports.
type Policy struct {
	Conflict Conflict
	// Trusted: the nodes have proven a secret to each other. Without one no node
	// takes from another what makes programs run or load code (ncclenv.RunsCode).
	Trusted bool
	Chosen  [][]Chosen // by group rank: what gorun computed for a node
}

// Chosen is a value that gorun computed for one node. It counts where the node
// has none; with Asked (--iface eth0) over the node's own, too.
type Chosen struct {
	Name, Value string
	Rule        string // why, as part of a sentence
	Asked       bool
}

// Decision is the environment of a world.
type Decision struct {
	Members     []Assignment // by group rank
	Differences []Difference // by name
	Notes       []string     // for the user, one line each
}
