package rules

import (
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func deviceCases() map[string][]ruleCase {
	// own puts the first two nodes onto one machine, in containers, and gives
	// them GPUs.
	own := func(f *preflight.Fleet, first, second []string) {
		f.Nodes[1].Host = f.Nodes[0].Host
		f.Nodes[1].Host.NS.Net = "net:[7]"
		everyNode(f, func(n *preflight.Facts) { n.GPU.Devices = f.Nodes[0].GPU.Devices })
		f.Nodes[0].GPU.Owned, f.Nodes[1].GPU.Owned = first, second
	}
	same := []string{"GPU-a", "GPU-b"}
	return map[string][]ruleCase{
		"D01": {
			{
				name: "two containers", severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) { own(f, same, same) },
				says: []string{"2 GPUs: GPU-a, GPU-b", "--oversubscribe-gpus"},
			},
			{
				name: "--local-nodes, one GPU of two", nodes: 2, severity: preflight.Error, odd: []int{0, 1},
				change: func(f *preflight.Fleet) {
					preflighttest.OnOneMachine(f)
					own(f, []string{"GPU-a", "GPU-b"}, []string{"GPU-b", "GPU-c"})
				},
				says: []string{"1 GPU: GPU-b"}, omits: []string{"GPU-a", "GPU-c"},
			},
			{
				name: "two shells with half of the GPUs each", severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
					own(f, f.Nodes[0].GPU.Visible, f.Nodes[0].GPU.Visible)
					f.Nodes[1].GPU = f.Nodes[0].GPU
					f.Nodes[1].Host.NS.Net = "net:[7]"
					everyNode(f, func(n *preflight.Facts) { n.Node.Workers = 4 })
				},
				says: []string{"on node1: export CUDA_VISIBLE_DEVICES=GPU-0-0,GPU-0-1,GPU-0-2,GPU-0-3 on node2: export CUDA_VISIBLE_DEVICES=GPU-0-4,GPU-0-5,GPU-0-6,GPU-0-7"},
			},
			{
				name: "two containers with half of the GPUs each", severity: preflight.Error, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
					own(f, f.Nodes[0].GPU.Visible, f.Nodes[0].GPU.Visible)
					f.Nodes[1].GPU = f.Nodes[0].GPU
					f.Nodes[1].Host.NS.Net = "net:[7]"
					everyNode(f, func(n *preflight.Facts) { n.Node.Workers, n.Host.Container = 4, "docker" })
				},
				says: []string{`on node2: docker run --gpus '"device=GPU-0-4,GPU-0-5,GPU-0-6,GPU-0-7"' ...`},
			},
			{
				name: "many", nodes: 2, severity: preflight.Error, odd: []int{0, 1},
				change: func(f *preflight.Fleet) { own(f, f.Nodes[0].GPU.Visible, f.Nodes[0].GPU.Visible) }, says: []string{"8 GPUs: GPU-0-0, GPU-0-1, GPU-0-2, GPU-0-3 and 4 more"},
			},
			{
				name: "three agents, by pairs", nodes: 3, severity: preflight.Error, odd: []int{0, 1, 2}, says: []string{"1 GPU: GPU-a", "1 GPU: GPU-b"},
				change: func(f *preflight.Fleet) {
					own(f, []string{"GPU-a"}, same)
					f.Nodes[2].Host, f.Nodes[2].GPU.Owned = f.Nodes[0].Host, []string{"GPU-b"}
					f.Nodes[2].Host.NS.Net = "net:[8]"
				},
			},
			{name: "a program that may need none", severity: preflight.Warning, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				own(f, same, same)
				everyNode(f, func(n *preflight.Facts) { n.Libraries = library.Facts{} })
			}},
			{name: "GPUs of its own each", change: func(f *preflight.Fleet) { own(f, same, []string{"GPU-c", "GPU-d"}) }},
			{name: "two machines", change: func(f *preflight.Fleet) { f.Nodes[0].GPU.Owned, f.Nodes[1].GPU.Owned = same, same }},
			{name: "shared on purpose", change: func(f *preflight.Fleet) { own(f, same, nil) }},
			{name: "several ranks a GPU are wanted", change: func(f *preflight.Fleet) {
				own(f, same, same)
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_MULTI_RANK_GPU_ENABLE", "1") })
			}},
			{name: "one agent, by hand", nodes: 1, change: func(f *preflight.Fleet) { f.Nodes[0].GPU.Owned = []string{"GPU-a", "GPU-a"} }},
			{name: "machines that are not known", change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.BootID = ""
				own(f, same, same)
			}},
		},
	}
}
