package envprop

import "github.com/gorun/gorun/envprop/ncclenv"

// offer is what a node asks for a variable.
type offer struct {
	node int
	ask  *Ask
}

// offers indexes what all nodes ask for.
type offers struct {
	// best has the winning ask by variable and target. Of several nodes' asks with the
	// highest weight the first node's wins.
	best map[string]map[Target]offer
	// perNode has, by node, that node's own asks for all nodes. Where nodes may differ, a
	// node's own ask wins over another node's ask of the same weight.
	perNode []map[string]offer
	// competing are the asks for all nodes that have the weight of the best ask; of each
	// node the last such ask.
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
		asks := reports[i].Asks
		for k := range asks {
			o := offer{i, &asks[k]}
			if o.ask.Kind == FromUnset {
				if t := (subject{o.ask.To, o.ask.Name}); !seen[t] {
					seen[t] = true
					x.removals = append(x.removals, o)
				}
			}
			if o.ask.Kind == FromUnset && !o.ask.Whole {
				continue
			}
			x.add(o)
		}
	}
	for name, byTarget := range x.best {
		b, ok := byTarget[Target{}]
		if !ok || b.ask.Kind == FromUnset {
			continue
		}
		for i := range x.perNode {
			if o, ok := x.perNode[i][name]; ok && o.ask.weight() == b.ask.weight() {
				x.competing[name] = append(x.competing[name], o)
			}
		}
	}
	return x
}

// add records an offer where it wins over the offers so far.
func (x *offers) add(o offer) {
	name, to, w := o.ask.Name, o.ask.To, o.ask.weight()
	if x.best[name] == nil {
		x.best[name] = map[Target]offer{}
	}
	if !x.isFollowed(o.ask) {
		return // only the node itself follows it: member.ownRequest
	}
	if b, ok := x.best[name][to]; !ok || w > b.ask.weight() || w == b.ask.weight() && b.node == o.node {
		x.best[name][to] = o
	}
	if to != (Target{}) {
		return
	}
	if x.perNode[o.node] == nil {
		x.perNode[o.node] = map[string]offer{}
	}
	if b, ok := x.perNode[o.node][name]; !ok || w >= b.ask.weight() {
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
	for _, own := range m.targets {
		if own == t {
			return true
		}
	}
	return false
}

// mayTravel reports whether a node may take a value of a variable from another one.
func (x *offers) mayTravel(name string, v Value) bool {
	return x.trusted || !ncclenv.RunsCodeWith(name, v.Reveal())
}

// isFollowed reports whether other nodes follow a node's ask.
func (x *offers) isFollowed(a *Ask) bool {
	if a.Kind == FromUnset {
		return x.trusted || !ncclenv.RunsCode(a.Name)
	}
	return x.mayTravel(a.Name, a.Value)
}

// mayRemove reports whether a pattern that takes variables away may take this one
// from a node.
func (x *offers) mayRemove(pattern *Ask, name string, m *member) bool {
	return x.trusted || !ncclenv.RunsCode(name) || m.asks(pattern)
}

// ownRequest returns the winning request among this node's own requests for a variable.
func (m *member) ownRequest(name string) (won offer, ok bool) {
	for k := range m.report.Asks {
		a := &m.report.Asks[k]
		if m.isIncludedIn(a.To) && (a.Whole && a.Name == name || !a.Whole && matches(a.Name, name)) && (!ok || a.weight() >= won.ask.weight()) {
			won, ok = offer{m.rank, a}, true
		}
	}
	return won, ok
}

// winner returns the request that counts for a variable of a scope on a node.
func (x *offers) winner(name string, m *member, scope ncclenv.Scope) (won offer, ok bool) {
	try := func(o offer) {
		// A pattern gives a node's interfaces or paths only to nodes without a value.
		if scope == ncclenv.Node && o.ask.Kind == FromFlag && !o.ask.Whole && o.node != m.rank && m.report.find(name) != nil {
			return
		}
		if !ok || o.ask.weight() > won.ask.weight() {
			won, ok = o, true
		}
	}
	if o, mine := m.ownRequest(name); mine && !x.trusted && ncclenv.RunsCode(name) {
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
		if !o.ask.Whole && x.mayRemove(o.ask, name, m) && m.isIncludedIn(o.ask.To) && matches(o.ask.Name, name) {
			try(o)
		}
	}
	return won, ok
}
