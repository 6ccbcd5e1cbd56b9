package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// deviceRules is D01: whether each rank has a GPU of its own.
func deviceRules() []Rule {
	return []Rule{{
		ID: "D01", Name: "distinct-gpu", Severity: Error,
		Meaning: "No two agents of one machine (several containers, --local-nodes) give the same GPU to their workers; for a program of which gorun sees neither NCCL nor torch, it is a warning.",
		Users:   "`Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1a000`, or `out of memory` and half the speed.",
		Steps: []Step{
			toGorun("share them on purpose", "--oversubscribe-gpus").everywhere(),
			byHand("give each agent GPUs of its own, with CUDA_VISIBLE_DEVICES or the option --gpus of docker run").or(),
		},
		Check: checkDistinctGPUs,
	}}
}

// shownGPUs bounds the UUIDs that one value names.
const shownGPUs = 4

func checkDistinctGPUs(f *Fleet) []Finding {
	twice := f.ownedTwice()
	find := func(grave bool) []Value {
		return odd(f.collect(func(i int, n *Facts, add func(string)) {
			for _, s := range twice[i] {
				if grave == s.grave {
					add(s.String())
				}
			}
		}))
	}
	const text = "Agents of one machine give the same GPU to their workers: ranks would compute on one device, which NCCL refuses where it notices."
	return append(one(find(true), Finding{Text: text, Steps: f.shareOut(twice)}), one(find(false), Finding{Severity: Warning, Text: text, Steps: f.shareOut(twice)})...)
}

// shareOut gives each agent of a machine GPUs of its own, where there are enough
// for all workers.
func (f *Fleet) shareOut(twice map[int][]*sharing) []Step {
	v := f.look()
	share := toGorun("share them on purpose", "--oversubscribe-gpus").everywhere()
	free := map[int][]string{} // UUIDs of a machine that nobody was given
	var nodes []int
	for i, n := range f.known() {
		if len(twice[i]) == 0 {
			continue
		}
		nodes = append(nodes, i)
		for _, uuid := range n.GPU.Owned {
			if !slices.Contains(free[v.machine[i]], uuid) {
				free[v.machine[i]] = append(free[v.machine[i]], uuid)
			}
		}
	}
	given := map[int][]string{}
	for _, i := range nodes {
		m, want := v.machine[i], f.Nodes[i].Node.Workers
		if f.Nodes[i].Host.NS.PID != "" && v.place[i] == v.place[nodes[0]] && i != nodes[0] { // one command may have started them
			return []Step{share}
		}
		for len(given[i]) < want && len(free[m]) > 0 {
			k := slices.IndexFunc(free[m], func(id string) bool { return slices.Contains(f.Nodes[i].GPU.Owned, id) })
			if k < 0 {
				break
			}
			given[i] = append(given[i], free[m][k])
			free[m] = slices.Delete(free[m], k, k+1)
		}
		if len(given[i]) < want {
			return []Step{share}
		}
	}
	steps := f.each(nodes, inShell, "give each agent GPUs of its own", func(i int, n *Facts) []string {
		if n.Host.Container != "" {
			return nil
		}
		return []string{"export CUDA_VISIBLE_DEVICES=" + quote(strings.Join(given[i], ","))}
	})
	steps = append(steps, f.each(nodes, toContainer, "give each container GPUs of its own", func(i int, n *Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{"--gpus " + quote(`"device=`+strings.Join(given[i], ",")+`"`)}
	})...)
	return or(steps, share)
}

// sharing is GPUs that the same nodes own.
type sharing struct {
	gpus  []string
	grave bool // the workers of one of the nodes need GPUs
}

func (s *sharing) String() string {
	text := plural(len(s.gpus), "GPU") + ": " + strings.Join(s.gpus[:min(len(s.gpus), shownGPUs)], ", ")
	if more := len(s.gpus) - shownGPUs; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ownedTwice gives, by node, the GPUs that it does not own alone. A GPU's UUID is
// the same in every container; its index is not.
func (f *Fleet) ownedTwice() map[int][]*sharing {
	v := f.look()
	type gpu struct {
		machine int
		uuid    string
	}
	owners := map[gpu][]int{}
	var order []gpu
	for i, n := range f.known() {
		if !v.shared[i] || n.on("NCCL_MULTI_RANK_GPU_ENABLE") {
			continue
		}
		for _, uuid := range n.GPU.Owned {
			g := gpu{v.machine[i], uuid}
			nodes := owners[g]
			if nodes == nil {
				order = append(order, g)
			}
			if len(nodes) == 0 || nodes[len(nodes)-1] != i { // twice on one node is what the user asked for
				owners[g] = append(nodes, i)
			}
		}
	}
	by := map[string]*sharing{}
	twice := map[int][]*sharing{}
	for _, g := range order {
		nodes := owners[g]
		if len(nodes) < 2 {
			continue
		}
		key := fmt.Sprint(nodes)
		s := by[key]
		if s == nil {
			s = &sharing{}
			by[key] = s
			for _, i := range nodes {
				twice[i] = append(twice[i], s)
				s.grave = s.grave || f.Nodes[i].usesGPU()
			}
		}
		s.gpus = append(s.gpus, g.uuid)
	}
	return twice
}
