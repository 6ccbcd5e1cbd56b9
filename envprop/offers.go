package envprop

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
)

// offer is what one node requests for a variable.
type offer struct {
	node     int
	override *Override
}

// offers indexes the requests of all nodes.
type offers struct {
	// best has the winning request by variable and target. Of several nodes' requests with the
	// highest weight the first node's wins.
	best map[string]map[Target]offer
	// perNode has, by node, that node's own requests for all nodes. Where nodes may differ, a
	// node's own request wins over another node's request of the same weight.
	perNode []map[string]offer
	// competing are the requests for all nodes that have the weight of the best one; of each
	// node the last such request.
	competing map[string][]offer
	// removals are the distinct removals, by name and by pattern.
	removals []offer
	// trusted says that variables that run code travel too (Policy.Trusted).
	trusted bool
}

func indexOffers(reports []Report, trusted bool) offers {
	x := offers{
		trusted:   trusted,
		best:      map[string]map[Target]offer{},
		perNode:   make([]map[string]offer, len(reports)),
		competing: map[string][]offer{},
	}
	type subject struct {
		to   Target
		name string
	}
	seen := map[subject]bool{}
	for i := range reports {
		overrides := reports[i].Overrides
		for k := range overrides {
			o := offer{i, &overrides[k]}
			if o.override.Kind == FromUnset {
				if t := (subject{o.override.To, o.override.Name}); !seen[t] {
					seen[t] = true
					x.removals = append(x.removals, o)
				}
			}
			if o.override.Kind == FromUnset && !o.override.Exact {
				continue
			}
			x.add(o)
		}
	}
	for name, byTarget := range x.best {
		b, ok := byTarget[Target{}]
		if !ok || b.override.Kind == FromUnset {
			continue
		}
		for i := range x.perNode {
			if o, ok := x.perNode[i][name]; ok && o.override.weight() == b.override.weight() {
				x.competing[name] = append(x.competing[name], o)
			}
		}
	}
	return x
}

// add records an offer where it wins over the offers so far.
func (x *offers) add(o offer) {
	name, to, w := o.override.Name, o.override.To, o.override.weight()
	if x.best[name] == nil {
		x.best[name] = map[Target]offer{}
	}
	if !x.isFollowed(o.override) {
		return // only the node itself follows it: member.nodeRequest
	}
	if b, ok := x.best[name][to]; !ok || w > b.override.weight() || w == b.override.weight() && b.node == o.node {
		x.best[name][to] = o
	}
	if to != (Target{}) {
		return
	}
	if x.perNode[o.node] == nil {
		x.perNode[o.node] = map[string]offer{}
	}
	if b, ok := x.perNode[o.node][name]; !ok || w >= b.override.weight() {
		x.perNode[o.node][name] = o
	}
}

// member is a node for which Unify decides.
type member struct {
	rank    int
	report  *Report
	targets []Target
}

// isIncludedIn reports whether a target includes this node.
func (m *member) isIncludedIn(t Target) bool {
	for _, target := range m.targets {
		if target == t {
			return true
		}
	}
	return false
}

// mayTravel reports whether a node may take a value of a variable from another one.
func (x *offers) mayTravel(name string, v Value) bool {
	return x.trusted || !ncclenv.RunsCodeWith(name, v.Reveal())
}

// isFollowed reports whether other nodes follow a node's request.
func (x *offers) isFollowed(a *Override) bool {
	if a.Kind == FromUnset {
		return x.trusted || !ncclenv.RunsCode(a.Name)
	}
	return x.mayTravel(a.Name, a.Value)
}

// mayRemove reports whether a pattern of --unset may remove a variable from
// a node.
func (x *offers) mayRemove(pattern *Override, name string, m *member) bool {
	return x.trusted || !ncclenv.RunsCode(name) || m.requests(pattern)
}

// nodeRequest returns the winning request among this node's own requests for a variable.
func (m *member) nodeRequest(name string) (won offer, ok bool) {
	for k := range m.report.Overrides {
		a := &m.report.Overrides[k]
		if m.isIncludedIn(a.To) && (a.Exact && a.Name == name || !a.Exact && matches(a.Name, name)) && (!ok || a.weight() >= won.override.weight()) {
			won, ok = offer{m.rank, a}, true
		}
	}
	return won, ok
}

// winner returns the request that counts for a variable of a scope on a node.
func (x *offers) winner(name string, m *member, scope ncclenv.Scope) (won offer, ok bool) {
	try := func(o offer) {
		// A pattern gives a node's interfaces or paths only to nodes without a value.
		if scope == ncclenv.Node && o.override.Kind == FromFlag && !o.override.Exact && o.node != m.rank && m.report.find(name) != nil {
			return
		}
		if !ok || o.override.weight() > won.override.weight() {
			won, ok = o, true
		}
	}
	if o, mine := m.nodeRequest(name); mine && !x.trusted && ncclenv.RunsCode(name) {
		try(o)
	}
	switch scope {
	case ncclenv.Node, ncclenv.NodeKeepAll, ncclenv.Rank, ncclenv.Never: // the node's own request first
		if o, mine := x.perNode[m.rank][name]; mine {
			try(o)
		}
	}
	if byTarget := x.best[name]; byTarget != nil {
		for _, t := range m.targets {
			if o, wanted := byTarget[t]; wanted {
				try(o)
			}
		}
	}
	for _, o := range x.removals { // patterns: whole names are among the best
		if !o.override.Exact && x.mayRemove(o.override, name, m) && m.isIncludedIn(o.override.To) && matches(o.override.Name, name) {
			try(o)
		}
	}
	return won, ok
}

// remove adds the user's removals to the assignments. A pattern also removes
// variables that no report has. It removes nothing that an assignment sets.
func (u *unifier) remove(d *Decision) {
	for i := range u.members {
		a := &d.Members[i]
		for _, o := range u.offers.removals {
			sets := slices.ContainsFunc(a.Set, func(s Setting) bool { return s.Name == o.override.Name })
			removes := slices.ContainsFunc(a.Unset, func(r Removal) bool { return r.Name == o.override.Name })
			others := !u.offers.trusted && !u.members[i].requests(o.override)
			if others && o.override.Exact && ncclenv.RunsCode(o.override.Name) {
				continue
			}
			if u.members[i].isIncludedIn(o.override.To) && !sets && !removes {
				s := u.source(o)
				s.Rule = ""
				a.Unset = append(a.Unset, Removal{o.override.Name, s, others && !o.override.Exact})
			}
		}
		slices.SortStableFunc(a.Unset, func(x, y Removal) int { return strings.Compare(x.Name, y.Name) })
	}
}

// requests reports whether the node itself requests this removal.
func (m *member) requests(removal *Override) bool {
	return slices.ContainsFunc(m.report.Overrides, func(a Override) bool {
		return a.Kind == FromUnset && a.To == removal.To && a.Name == removal.Name
	})
}
