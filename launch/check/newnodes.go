package check

import (
	"slices"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/rendezvous"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// maxSeparate bounds the number of new nodes that refuseNewNodes compares with the
// others one by one. A comparison of ten thousand nodes takes a second.
const maxSeparate = 16

// refuseNewNodes refuses the new nodes that do not fit the others. It returns nil if
// the others alone have an error too.
func refuseNewNodes(p *Policy, c rendezvous.Compare, all unifiedFleet, found []preflight.Finding) (*rendezvous.Outcome, []rendezvous.NodeID) {
	isNew := func(i int) bool { return slices.Contains(c.New, i) }
	fits := func(isLeftOut func(i int) bool) bool {
		return !isRefused(p, runChecks(p, all.without(p, isLeftOut).fleet))
	}
	if !fits(isNew) {
		return nil, nil
	}
	var refused []int
	if len(c.New) <= maxSeparate {
		refused = slices.DeleteFunc(slices.Clone(c.New), func(n int) bool {
			return fits(func(i int) bool { return i != n && isNew(i) })
		})
	} else {
		refused = slices.DeleteFunc(slices.Clone(c.New), func(n int) bool { return !isBlamed(found, n) })
	}
	if len(refused) == 0 { // each node fits alone, but not all together
		refused = c.New
	}
	var ids []rendezvous.NodeID
	for _, n := range refused {
		ids = append(ids, c.World.Members[n].ID)
	}
	return refuseOutcome(p, found, all.fleet), ids
}

// without unifies the fleet again without some nodes. It leaves out the probes from
// and to these nodes.
func (d unifiedFleet) without(p *Policy, isLeftOut func(i int) bool) unifiedFleet {
	before := *d.reported
	before.Nodes, before.Probes = slices.Clone(before.Nodes), d.fleet.Probes
	for i := range before.Nodes {
		from := &d.fleet.Nodes[i].Node
		before.Nodes[i].Node.Offset, before.Nodes[i].Node.Within = from.Offset, from.Within
	}
	var rest []envprop.Report
	for i, r := range d.reports {
		if !isLeftOut(i) {
			rest = append(rest, r)
		}
	}
	return unify(p, without(&before, isLeftOut), rest)
}

// without returns the fleet without some nodes and without the probes from and to
// them.
func without(f *preflight.Fleet, leave func(i int) bool) *preflight.Fleet {
	part := &preflight.Fleet{Master: f.Master}
	at := make([]int, len(f.Nodes))
	for i, n := range f.Nodes {
		at[i] = -1
		if !leave(i) {
			at[i] = len(part.Nodes)
			part.Nodes = append(part.Nodes, n)
		}
	}
	for _, p := range f.Probes {
		if p.From, p.To = at[p.From], at[p.To]; p.From >= 0 && p.To >= 0 {
			part.Probes = append(part.Probes, p)
		}
	}
	return part
}

// isBlamed reports whether a finding of severity error names the node as odd.
func isBlamed(found []preflight.Finding, node int) bool {
	return slices.ContainsFunc(found, func(x preflight.Finding) bool {
		return x.Severity == preflight.Error && slices.ContainsFunc(x.Values, func(v preflight.Value) bool {
			return v.Odd && slices.Contains(v.Nodes, node)
		})
	})
}
