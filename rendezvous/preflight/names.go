package preflight

import (
	"cmp"
	"fmt"
)

// Names are what messages call the nodes, by group rank: the host where it names
// one node only, else the host with its address, else the group rank.
func (f *Fleet) Names() []string {
	names := make([]string, len(f.Nodes))
	hosts, long := map[string]int{}, map[string]int{}
	for _, n := range f.known() {
		hosts[n.Node.Host]++
		long[n.Node.Name]++
	}
	for i := range f.Nodes {
		n := f.Nodes[i].Node
		switch {
		case n.Host != "" && hosts[n.Host] == 1:
			names[i] = n.Host
		case n.Name != "" && long[n.Name] == 1:
			names[i] = n.Name
		default:
			names[i] = fmt.Sprintf("node %d", i)
			if host := cmp.Or(n.Name, n.Host); host != "" {
				names[i] += " on " + host
			}
		}
		names[i] = clean(names[i], 120)
	}
	return names
}
