package preflight

import (
	"cmp"
	"fmt"
)

// Fleet is the facts of all nodes of a world and the probes between them.
type Fleet struct {
	Nodes      []Facts // in the order of group ranks; facts of a node that sent none have Format 0
	Probes     []Probe // of all nodes; nil before the probes were made
	IfaceError string  // why --iface auto has no answer; "" when it has one or is not used
	Master     string  // host:port of the store of the workers; "" when no job is started

	// Differences are found when one environment is decided from the
	// environments of all nodes; they are sorted by name. Settings are what
	// workers have after that.
	Differences []Difference

	view *View // set by Compare, so that rules share its results
}

// Difference is a variable whose values differ between the nodes of a job.
type Difference struct {
	Name      string
	Text      string  // what a difference leads to, as part of a sentence
	Values    []Value // group ranks by value; the first value is that of the node that decides
	Requested bool    // -x requests different values, and Values are these
	Remains   bool    // workers still differ; else all get the first value

	Targeted bool // with Remains: because the user requests a value on some nodes only
	Error    bool // the job must not start with this difference
}

// Names returns the names of the nodes in messages, by group rank: the host if
// only one node has that host, else the host with its address, else the group
// rank.
func (f *Fleet) Names() []string {
	names := make([]string, len(f.Nodes))
	hosts, fullNames := map[string]int{}, map[string]int{}
	for _, n := range f.Known() {
		hosts[n.Node.Host]++
		fullNames[n.Node.Name]++
	}
	for i := range f.Nodes {
		n := f.Nodes[i].Node
		switch {
		case n.Host != "" && hosts[n.Host] == 1:
			names[i] = n.Host
		case n.Name != "" && fullNames[n.Name] == 1:
			names[i] = n.Name
		default:
			names[i] = fmt.Sprintf("node %d", i)
			if host := cmp.Or(n.Name, n.Host); host != "" {
				names[i] += " on " + host
			}
		}
		names[i] = Clean(names[i], 120)
	}
	return names
}

// NamesOf names nodes for a text, "" for no nodes.
func (f *Fleet) NamesOf(nodes []int) string {
	if len(nodes) == 0 {
		return ""
	}
	return nameList(nodes, f.Names(), len(f.Nodes), true)
}
