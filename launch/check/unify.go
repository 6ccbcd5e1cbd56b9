package check

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop"
	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/launch/wrap"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
)

// unified is a fleet for which one environment was decided.
type unified struct {
	before  *preflight.Fleet // as its nodes are
	reports []envprop.Report
	fleet   *preflight.Fleet // as its workers will find them
	members []envprop.Assignment
	notes   []string
}

// unify gives the nodes one environment. Group rank 0 is the first node, whose
// word counts: after a restart that is the node of the lowest group rank that
// survived, so values change with the first node only.
func unify(p *Policy, before *preflight.Fleet, reports []envprop.Report) unified {
	f := *before
	f.Nodes = slices.Clone(before.Nodes)
	if p.Iface == "auto" && len(f.Nodes) > 1 { // one node has no other to reach
		f.Asked = chooseInterfaces(f.Nodes)
	}
	d := envprop.Unify(reports, envprop.Policy{Conflict: p.Conflict, Trusted: p.Trusted, Chosen: chosenVariables(f.Nodes)})
	for i := range f.Nodes {
		wrap.Settle(&f.Nodes[i], d.Members[i])
		apply(&f.Nodes[i], d.Members[i])
	}
	for _, x := range d.Differences {
		f.Differences = append(f.Differences, difference(x))
	}
	return unified{before, reports, &f, d.Members, d.Notes}
}

// encode writes what each member's workers are given.
func (d unified) encode() ([][]byte, error) {
	out := make([][]byte, len(d.members))
	for i, m := range d.members {
		var err error
		if out[i], err = m.Encode(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// apply makes the facts those of a node whose workers get what was decided, and
// that is probed where these workers would talk.
func apply(f *preflight.Facts, a envprop.Assignment) {
	if f.Format == 0 || len(a.Set) == 0 && len(a.Unset) == 0 {
		return
	}
	old := probeAddresses(f, false)
	var list []ncclenv.Value
	for _, v := range f.Settings {
		set := slices.ContainsFunc(a.Set, func(s envprop.Setting) bool { return s.Name == v.Name })
		switch {
		case set:
		case v.Source == ncclenv.Environment && a.Removes(v.Name):
			if len(v.Hidden) > 0 { // a conf file shows through
				list = append(list, ncclenv.Value{Name: v.Name, Value: v.Hidden[0].Value, Source: v.Hidden[0].Source, Hidden: v.Hidden[1:]})
			}
		default:
			list = append(list, v)
		}
	}
	for _, s := range a.Set {
		if source, ok := effective(s); ok {
			list = append(list, ncclenv.Value{Name: s.Name, Value: ncclenv.Shown(s.Name, s.Value.Reveal()), Source: source})
		}
	}
	f.Settings = list
	slices.SortStableFunc(f.Settings, func(a, b ncclenv.Value) int { return strings.Compare(a.Name, b.Name) })
	if now := probeAddresses(f, false); !slices.Equal(old, now) {
		keepListeners(f, now)
	}
}

// effective is where a unified value comes from, for rules that blame a source:
// but for --iface it is exported to the workers. What no rule knows is left out.
func effective(s envprop.Setting) (source string, ok bool) {
	if s.Source.Kind == envprop.FromGorun {
		return ifaceSource, true
	}
	_, ok = ncclenv.Governed(s.Name)
	return ncclenv.Environment, ok
}

// keepListeners keeps those listeners that are still where the workers would talk. A
// node listens before it knows what others ask for, so it may have none there.
func keepListeners(f *preflight.Facts, now []probe.Address) {
	var kept []preflight.Listener
	for _, l := range f.Listeners {
		if i := slices.IndexFunc(now, func(a probe.Address) bool { return a.IP == l.Addr }); i >= 0 {
			l.Use = now[i].Use
			kept = append(kept, l)
		}
	}
	f.Listeners = kept
}

// difference is one for the rules and their readers.
func difference(x envprop.Difference) preflight.Difference {
	d := preflight.Difference{Name: x.Name, Text: x.Text, Asked: x.Asked, Left: x.Left, Error: x.Error, Targeted: x.Targeted}
	for _, g := range x.Groups {
		d.Values = append(d.Values, preflight.Value{Value: shown(x.Name, g), Nodes: g.Nodes})
	}
	return d
}

// tooMuch is the finding that an environment cannot be given to its node.
func tooMuch(err error) preflight.Finding {
	return preflight.Finding{
		ID: "E01", Title: "env-must-agree", Severity: preflight.Error, Text: err.Error() + ".",
		Fix:   "ask for fewer variables with -x and --env-file",
		Steps: []preflight.Step{{Place: preflight.ByHand, Text: "ask for fewer variables with -x and --env-file"}},
	}
}
