package selftest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// compareGPUs compares what the ranks found at the rung load: no node may have fewer
// GPUs than the others, no two ranks the same one, and all need the same release of NCCL.
// Other models, drivers or ports are a warning.
func (r *Report) compareGPUs() {
	for _, compare := range []func() *Failure{r.compareCounts, r.compareSharing, r.compareNCCL} {
		if f := compare(); f != nil {
			f.Rung = "load"
			r.Failure, r.OK = f, false
			return
		}
	}
	r.warnOdd("GPU model", "GPUs of the model", func(g *GPU) string { return g.Model })
	r.warnOdd("network", "ports with", (*GPU).port)
	r.warnOdd("driver", "a driver for CUDA", func(g *GPU) string { return fmt.Sprintf("%d.%d", g.Driver/1000, g.Driver/10%100) })
}

// compareSharing finds two ranks with one GPU. NCCL takes NCCL_HOSTID for the machine, so
// ranks with different ones may share a GPU.
func (r *Report) compareSharing() *Failure {
	type place struct{ host, uuid string }
	owners := make(map[place]*Rank)
	var lines []string
	f := &Failure{Fix: "start as many workers as there are GPUs, or give each its own: CUDA_VISIBLE_DEVICES, --pin, MIG"}
	for i := range r.Ranks {
		of := &r.Ranks[i]
		if of.GPU == nil || of.GPU.UUID == "" {
			continue
		}
		at := place{of.GPU.Host, of.GPU.UUID}
		owner, taken := owners[at]
		if !taken {
			owners[at] = of
			continue
		}
		lines = append(lines, fmt.Sprintf("rank %d and rank %d on %s have the same GPU, %s, and NCCL takes one rank for each", owner.Rank, of.Rank, of.Host, of.GPU.UUID))
		f.blame(nil, []int{owner.Rank, of.Rank})
		r.mark([]int{owner.Node, of.Node}, StateSuspect)
	}
	if lines == nil {
		return nil
	}
	f.Text = strings.Join(few(lines), "; ")
	return f
}

// compareCounts finds nodes with fewer GPUs than most.
func (r *Report) compareCounts() *Failure {
	counts := make([]int, len(r.Nodes))
	for i, n := range r.Nodes {
		for _, rank := range n.Ranks {
			if g := r.Ranks[rank].GPU; g != nil {
				counts[i] = max(counts[i], g.Visible)
			}
		}
	}
	return r.fewerGPUs(counts)
}

// fewerGPUs makes the failure of nodes that have fewer GPUs than most nodes do; of as many,
// than those that have more.
func (r *Report) fewerGPUs(counts []int) *Failure {
	usual := mostOften(counts, func(a, b int) bool { return a > b })
	f := &Failure{Fix: "look there for a GPU that is hidden or lost: nvidia-smi -L, CUDA_VISIBLE_DEVICES, the container's devices, dmesg for Xid 79"}
	var lines []string
	for i, n := range counts {
		if n >= usual {
			continue
		}
		lines = append(lines, fmt.Sprintf("node %d (%s) has %s, others %d", i, r.Nodes[i].Host, counted(n, "GPU"), usual))
		f.Nodes = append(f.Nodes, i)
		r.mark([]int{i}, StateBad)
	}
	if lines == nil {
		return nil
	}
	f.Text = strings.Join(few(lines), "; ")
	return f
}

// compareNCCL finds ranks with another release of NCCL than most.
func (r *Report) compareNCCL() *Failure {
	var releases []int
	for i := range r.Ranks {
		if g := r.Ranks[i].GPU; g != nil {
			releases = append(releases, g.NCCL)
		}
	}
	usual := mostOften(releases, func(a, b int) bool { return a > b })
	one := slices.IndexFunc(r.Ranks, func(of Rank) bool { return of.GPU != nil && of.GPU.NCCL == usual })
	var lines []string
	f := &Failure{Fix: "install the same release of NCCL on all nodes, or name its file by GORUN_NCCL_LIB"}
	for i := range r.Ranks {
		of := &r.Ranks[i]
		if of.GPU == nil || of.GPU.NCCL == usual {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s has NCCL %s, others %s", of.text(), of.GPU.nccl(), r.Ranks[one].GPU.nccl()))
		f.blame([]int{of.Node}, []int{of.Rank})
	}
	if lines == nil {
		return nil
	}
	if 2*len(f.Nodes) > len(r.Nodes) { // there is no majority of nodes
		r.mark(f.Nodes, StateSuspect)
		f.Nodes = nil
	} else {
		r.mark(f.Nodes, StateBad)
	}
	f.Text = strings.Join(few(lines), "; ")
	return f
}

// warnOdd warns of nodes that have something else than most.
func (r *Report) warnOdd(what, have string, of func(g *GPU) string) {
	var all []string
	nodes := make(map[string][]int)
	for i := range r.Ranks {
		if g := r.Ranks[i].GPU; g != nil {
			text := of(g)
			all = append(all, text)
			if !slices.Contains(nodes[text], r.Ranks[i].Node) {
				nodes[text] = append(nodes[text], r.Ranks[i].Node)
			}
		}
	}
	usual := mostOften(all, func(a, b string) bool { return a < b })
	for _, text := range slices.Sorted(maps.Keys(nodes)) {
		if text != usual {
			r.Warnings = append(r.Warnings, fmt.Sprintf("not all nodes have the same %s: %s has %s %s, others %s", what, r.nodeNames(nodes[text]), have, text, usual))
		}
	}
}

// nodeNames names the first nodes of a list.
func (r *Report) nodeNames(nodes []int) string {
	var names []string
	for _, n := range nodes {
		names = append(names, fmt.Sprintf("node %d (%s)", n, r.Nodes[n].Host))
	}
	return join(few(names))
}

// mostOften returns the value that is most often there; of several, the one that is
// before the others.
func mostOften[T comparable](values []T, before func(a, b T) bool) (most T) {
	counts := make(map[T]int)
	for _, v := range values {
		counts[v]++
	}
	best := 0
	for v, n := range counts {
		if n > best || n == best && before(v, most) {
			most, best = v, n
		}
	}
	return most
}

// compareRate marks the nodes of a group whose largest call is slower than its GPUs are
// known to be. Groups of several nodes depend on the network, which no table has.
func (r *Report) compareRate(p Plan, group []int, result Result) {
	if p.Compute != ComputeGPU || result.End != EndPassed || len(result.Timing) == 0 {
		return
	}
	node := r.Ranks[group[0]].Node
	if slices.ContainsFunc(group, func(rank int) bool { return r.Ranks[rank].Node != node || r.Ranks[rank].sharesGPU() }) {
		return
	}
	last := result.Timing[len(result.Timing)-1]
	want := r.Ranks[group[0]].GPU.expected(p.Kind, len(group), len(r.Nodes[node].Ranks), last.Bytes)
	got := busBandwidth(p.Kind, len(group), last.Bytes, last.Seconds)
	if want == 0 || got >= want {
		return
	}
	text := fmt.Sprintf("%.0f of %.0f GB/s expected", got, want)
	r.markSlow(node, fmt.Sprintf("%s (%s)", text, p.Rung))
	who := fmt.Sprintf("the %d ranks of node %d (%s) are", len(group), node, r.Nodes[node].Host)
	if len(group) < len(r.Nodes[node].Ranks) || len(group) == 1 {
		var names []string
		for _, rank := range group {
			names = append(names, fmt.Sprint(rank))
		}
		who = fmt.Sprintf("rank %s on %s is", join(names), r.Nodes[node].Host)
		if len(group) > 1 {
			who = fmt.Sprintf("ranks %s on %s are", join(names), r.Nodes[node].Host)
		}
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf("%s slow: %s of %s in the rung %q", who, text, r.Ranks[group[0]].GPU.Model, p.Rung))
}

// sharesGPU reports whether the rank may share its GPU with others, as NCCL_HOSTID allows.
func (r *Rank) sharesGPU() bool { return r.GPU != nil && r.GPU.Host != "" }
