package envprop

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// Unify decides the environment from the reports of all nodes, by group rank. It is
// pure and decides each variable separately:
//
//   - What the user asks for counts first (Override.weight). If several nodes' requests
//     have equal weight, the first node's request counts; where nodes may differ, a
//     node's own request counts.
//   - A variable that must or should agree gets one value: the first node's effective
//     one. Where the first node has no value, no node gets one.
//   - A variable that may differ between nodes keeps each node's value, else it gets
//     the value that gorun chose. It is never copied.
//   - A variable that belongs to a rank or a machine, or is not governed, is not sent.
//   - A variable that makes programs run or load code is taken from no other node,
//     unless the nodes trust each other.
//
// An assignment contains only what changes a node. The first node is the node with
// the lowest group rank that sent a report.
func Unify(reports []Report, p Policy) Decision {
	u := unifier{policy: p, reports: reports, offers: indexOffers(reports, p.Trusted), first: -1}
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
	policy     Policy
	reports    []Report
	members    []member
	offers     offers
	first      int // group rank of the first node, -1 when there are no reports
	confValues []confValue
}

// names lists the variables that need a decision.
func (u *unifier) names() []string {
	all := map[string]bool{} // true: it needs a decision
	for name := range u.offers.best {
		all[name] = true
	}
	for i := range u.reports {
		for _, o := range u.reports[i].Values {
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

// state is a variable on a node before or after the decision.
type state struct {
	known bool // false: the node is left out of differences
	set   bool
	value Value
}

func (s state) same(t state) bool { return s.set == t.set && s.value.Reveal() == t.value.Reveal() }

// stateOf returns the state of a variable that a node reports.
func (r *Report) stateOf(name string) state {
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
	requests := 0
	for i := range u.members {
		m := &u.members[i]
		nodeState := m.report.stateOf(name)
		before[i], after[i] = nodeState, nodeState
		a := &d.Members[i]
		o, wanted := u.offers.winner(name, m, v.Scope)
		chosen, offered := u.chosen(name, i)
		switch {
		case wanted && o.override.Kind == FromUnset:
			requests++
			after[i] = state{known: nodeState.known}
			u.keepConfValue(name, m, &after[i])
		case wanted:
			requests++
			after[i] = u.put(a, Setting{name, o.override.Value, u.source(o)}, nodeState.known)
		case offered && (chosen.Requested || !agree && !nodeState.set || agree && !u.firstHas(name)):
			after[i] = u.put(a, Setting{name, NewValue(name, chosen.Value), Source{Kind: FromGorun, Rule: chosen.Rule}}, nodeState.known)
		case agree:
			u.assignFirst(name, m, a, &after[i])
		}
	}
	return u.difference(v, name, requests, before, after)
}

// firstHas reports whether the first node has a value of its own.
func (u *unifier) firstHas(name string) bool {
	return u.first >= 0 && u.reports[u.first].find(name) != nil
}

// assignFirst gives a node the first node's state of a variable.
func (u *unifier) assignFirst(name string, m *member, a *Assignment, after *state) {
	if u.first < 0 {
		return
	}
	first := &u.reports[u.first]
	want := first.stateOf(name)
	if after.known && want.same(*after) {
		return
	}
	source := Source{Kind: FromFirst, Node: first.Node.displayName(u.first), Rule: rule(name)}
	switch {
	case want.set && !u.offers.mayTravel(name, want.value):
	case want.set:
		source.At = first.find(name).Conf
		*after = u.put(a, Setting{name, want.value, source}, after.known)
	case after.set:
		o := m.report.find(name)
		*after = state{known: true}
		if o.Conf == "" {
			a.Unset = append(a.Unset, Removal{Name: name, Source: source})
		}
		u.keepConfValue(name, m, after)
	}
}

// put adds a setting to an assignment and returns the variable's new state.
func (u *unifier) put(a *Assignment, s Setting, known bool) state {
	a.Set = append(a.Set, s)
	return state{known: known, set: true, value: s.Value}
}

// source returns where the value of an offer comes from.
func (u *unifier) source(o offer) Source {
	return Source{Kind: o.override.Kind, Node: u.reports[o.node].Node.displayName(o.node), At: o.override.At, Rule: rule(o.override.Name)}
}

// chosen returns the value of a variable that gorun computed for a node.
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

// Conflict says what happens when a variable that has to agree differs.
type Conflict string

const (
	ConflictFirst Conflict = "first" // the first node's value counts, the difference is shown
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
	// Trusted says that the nodes have proven a secret to each other. Without a secret
	// no node takes variables from another node that make programs run or load code
	// (ncclenv.RunsCode).
	Trusted bool
	Chosen  [][]Chosen // values that gorun computed for the nodes, by group rank
}

// Chosen is a value that gorun computed for one node. It counts where the node has no
// value. With Requested (--iface eth0) it also wins over the node's own value.
type Chosen struct {
	Name, Value string
	Rule        string // why, as part of a sentence
	Requested   bool
}

// Decision is the environment of a world.
type Decision struct {
	Members     []Assignment // by group rank
	Differences []Difference // by name
	Notes       []string     // for the user, one line each
}
