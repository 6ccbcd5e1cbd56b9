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

// unifiedFleet is a fleet with one decided environment.
type unifiedFleet struct {
	reported *preflight.Fleet // as its nodes reported it
	reports  []envprop.Report
	fleet    *preflight.Fleet // as its workers will see it
	members  []envprop.Assignment
	notes    []string
}

// unify gives the nodes one environment. The first node is group rank 0, and its
// values count. After a restart that is the surviving node of the lowest group
// rank, so values change only with the first node.
func unify(p *Policy, before *preflight.Fleet, reports []envprop.Report) unifiedFleet {
	f := *before
	f.Nodes = slices.Clone(before.Nodes)
	if p.Iface == "auto" && len(f.Nodes) > 1 { // a single node reaches no other node
		f.IfaceError = chooseInterfaces(f.Nodes)
	}
	d := envprop.Unify(reports, envprop.Policy{Conflict: p.Conflict, Trusted: p.Trusted, Chosen: chosenVariables(f.Nodes)})
	for i := range f.Nodes {
		wrap.UpdateLoss(&f.Nodes[i], d.Members[i])
		apply(&f.Nodes[i], d.Members[i])
	}
	for _, x := range d.Differences {
		f.Differences = append(f.Differences, convertDifference(x))
	}
	return unifiedFleet{before, reports, &f, d.Members, d.Notes}
}

// encode encodes the assignment of each member's workers.
func (d unifiedFleet) encode() ([][]byte, error) {
	out := make([][]byte, len(d.members))
	for i, m := range d.members {
		var err error
		if out[i], err = m.Encode(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// apply changes the facts to those of a node whose workers get the decided
// environment. It also moves the probes to the addresses that these workers would
// use.
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
			if len(v.Hidden) > 0 { // the value of the conf file counts again
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

// effective returns the source of a unified value, for rules that name a source. A
// value that --iface did not set is exported to the workers. ok is false for a
// variable that no rule knows.
func effective(s envprop.Setting) (source string, ok bool) {
	if s.Source.Kind == envprop.FromGorun {
		return ifaceSource, true
	}
	_, ok = ncclenv.Governed(s.Name)
	return ncclenv.Environment, ok
}

// keepListeners keeps the listeners whose addresses the workers would still use. A
// node listens before it knows what other nodes ask for, so it may have no listener
// there.
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

// convertDifference converts a difference for the rules and their readers.
func convertDifference(x envprop.Difference) preflight.Difference {
	d := preflight.Difference{Name: x.Name, Text: x.Text, Requested: x.Requested, Remains: x.Remains, Error: x.Error, Targeted: x.Targeted}
	for _, g := range x.Groups {
		d.Values = append(d.Values, preflight.Value{Value: formatValue(x.Name, g), Nodes: g.Nodes})
	}
	return d
}

// environmentTooLarge returns the finding about an environment that is too large to
// send.
func environmentTooLarge(err error) preflight.Finding {
	return preflight.Finding{
		ID: "E01", Title: "env-must-agree", Severity: preflight.Error, Text: err.Error() + ".",
		Fix:   "ask for fewer variables with -x and --env-file",
		Steps: []preflight.Step{{Place: preflight.ByHand, Text: "ask for fewer variables with -x and --env-file"}},
	}
}
