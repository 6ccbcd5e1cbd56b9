package numa

import (
	"cmp"
	"fmt"
	"slices"
)

// claim is one GPU, or one worker without a GPU, that wants CPUs of a node.
type claim struct {
	worker int  // local rank; -1: a GPU that no worker of this agent owns
	node   Node // whose CPUs may be used; ID Unknown: all CPUs
	what   string
	index  int // among the claims on this node, from 0
	count  int // claims on this node
}

// claims returns all claims in the order of the GPUs, or of the workers where
// there are no GPUs. doubt says why all of them use the node of all CPUs.
func (r *Request) claims() (all []claim, doubt string, err error) {
	if r.areCPUWorkers() {
		all, err = r.byWorker()
	} else {
		all, doubt = r.byGPU()
	}
	if err != nil {
		return nil, "", err
	}
	total := map[int]int{}
	for i := range all {
		c := &all[i]
		wide := c.node.CPUs
		c.node.CPUs = wide.And(r.CPUs)
		if len(c.node.CPUs) == 0 && c.worker >= 0 {
			return nil, "", fmt.Errorf("--numa-binding %s: %s is on NUMA node %d (CPUs %v), and this process may use CPUs %v only: give the job CPUs of that node, or leave out --numa-binding", r.Mode, c.what, c.node.ID, wide, r.CPUs)
		}
		c.index = total[c.node.ID]
		total[c.node.ID]++
	}
	for i := range all {
		all[i].count = total[all[i].node.ID]
	}
	return all, doubt, nil
}

// areCPUWorkers reports whether the workers count as workers that compute on CPUs.
func (r *Request) areCPUWorkers() bool {
	return slices.ContainsFunc(r.Workers, func(gpus []int) bool { return len(gpus) == 0 })
}

func (r *Request) byGPU() (all []claim, doubt string) {
	everywhere := Node{ID: Unknown, CPUs: r.CPUs, Package: Unknown}
	for g, pci := range r.GPUs {
		node, ok := r.node(pci)
		if !ok && doubt == "" {
			doubt = fmt.Sprintf("--numa-binding %s: this machine does not say on which NUMA node GPU %s is (numa_node of /sys, often -1 in virtual machines), so workers are not brought near their GPUs", r.Mode, cmp.Or(pci, fmt.Sprint(g)))
		}
		idle := true
		for w, gpus := range r.Workers {
			if slices.Contains(gpus, g) {
				idle = false
				all = append(all, claim{worker: w, node: node, what: fmt.Sprintf("GPU %s of local rank %d", pci, w)})
			}
		}
		if idle {
			all = append(all, claim{worker: -1, node: node})
		}
	}
	if doubt != "" {
		for i := range all {
			all[i].node = everywhere
		}
	}
	return all, doubt
}

// byWorker spreads the workers in blocks over the nodes that have CPUs for
// them.
func (r *Request) byWorker() ([]claim, error) {
	nodes := slices.DeleteFunc(slices.Clone(r.Topology.Nodes), func(n Node) bool { return len(n.CPUs.And(r.CPUs)) == 0 })
	if len(nodes) == 0 {
		return nil, fmt.Errorf("--numa-binding %s: this process may use CPUs %v, and none of them is on a NUMA node that /sys lists", r.Mode, r.CPUs)
	}
	all := make([]claim, len(r.Workers))
	for w := range all {
		all[w] = claim{worker: w, node: nodes[w*len(nodes)/len(all)]}
	}
	return all, nil
}

func (r *Request) node(pci string) (Node, bool) {
	id, ok := r.Topology.GPUs[pci]
	if !ok && len(r.Topology.Nodes) == 1 {
		return r.Topology.Nodes[0], true
	}
	at := slices.IndexFunc(r.Topology.Nodes, func(n Node) bool { return n.ID == id })
	if !ok || at < 0 {
		return Node{}, false
	}
	return r.Topology.Nodes[at], true
}

// cpus returns what the claim gets.
func (c *claim) cpus(r Request) (Set, error) {
	switch {
	case c.worker < 0:
		return nil, nil
	case r.Mode == BySocket && c.node.ID != Unknown:
		var all Set
		for _, n := range r.Topology.Nodes {
			if n.Package == c.node.Package {
				all = all.Or(n.CPUs)
			}
		}
		return all.And(r.CPUs), nil
	case r.Mode == Exclusive:
		cores := intersectEach(r.Topology.Cores, c.node.CPUs)
		each, more := len(cores)/c.count, len(cores)%c.count // the first claims get the remaining cores
		if each == 0 {
			return nil, fmt.Errorf("--numa-binding exclusive: %s cannot be divided among %d GPUs or workers: use --numa-binding node, or give the job more CPUs", c.describeCores(len(cores)), c.count)
		}
		first := c.index*each + min(c.index, more)
		if c.index < more {
			each++
		}
		return slices.Concat(cores[first : first+each]...).sorted(), nil
	case r.Mode == CoreComplex:
		parts := intersectEach(r.Topology.Complexes, c.node.CPUs)
		if len(parts) == 0 {
			return c.node.CPUs, nil
		}
		// The groups with most CPUs come first, because a mask may leave little
		// of some.
		slices.SortStableFunc(parts, func(a, b Set) int { return cmp.Compare(len(b), len(a)) })
		return parts[c.index%len(parts)], nil
	}
	return c.node.CPUs, nil
}

// describeCores says how many cores the claim's node has.
func (c *claim) describeCores(cores int) string {
	text := fmt.Sprintf("%d physical cores", cores)
	if cores == 1 {
		text = "1 physical core"
	}
	if c.node.ID == Unknown {
		return text
	}
	return fmt.Sprintf("%s of NUMA node %d", text, c.node.ID)
}

// intersectEach returns the parts of groups that lie in a set.
func intersectEach(groups []Set, in Set) []Set {
	var all []Set
	for _, g := range groups {
		if part := g.And(in); len(part) > 0 {
			all = append(all, part)
		}
	}
	return all
}

// memory returns the nodes of the CPUs whose memory may be used, none where the
// place is unknown.
func (c *claim) memory(r Request, cpus Set) Set {
	if c.node.ID == Unknown {
		return nil
	}
	var near Set
	for _, n := range r.Topology.Nodes {
		if len(n.CPUs.And(cpus)) > 0 {
			near = append(near, n.ID)
		}
	}
	return near.And(r.Memory).And(r.Topology.Memory)
}
