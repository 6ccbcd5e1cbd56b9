package rules

import (
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func leftoverCases() map[string][]ruleCase {
	busy := func(f *preflight.Fleet) {
		f.Nodes[1].GPU.Busy = []preflight.Holder{{GPU: "GPU-1-3", PID: 4242, Name: "python", User: "ann", MemMiB: 71000}}
	}
	left := func(n *preflight.Facts, bytes int64) { n.Host.Leftover.SHMFiles, n.Host.Leftover.SHMBytes = 12, bytes }
	return map[string][]ruleCase{
		"S01": {
			{name: "another process computes", severity: preflight.Warning, odd: []int{1}, change: busy, says: []string{"pid 4242 (python, user ann) holds GPU 3 with 71000 MiB"}},
			{name: "on a GPU that is not visible", change: func(f *preflight.Fleet) {
				busy(f)
				f.Nodes[1].Node.Workers = 2
				f.Nodes[1].GPU.Visible = f.Nodes[1].GPU.Visible[:2]
			}},
			{name: "another agent of the job", change: func(f *preflight.Fleet) { busy(f); preflighttest.OnOneMachine(f) }},
			{name: "segments", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) { left(&f.Nodes[2], 3<<30) }, says: []string{"12 segments of ended ranks in /dev/shm, 3.0 GiB"}},
			{name: "a few segments", change: func(f *preflight.Fleet) { left(&f.Nodes[2], 100<<20) }},
			{name: "segments that may be in use", change: func(f *preflight.Fleet) { left(&f.Nodes[2], 3<<30); f.Nodes[2].Host.Leftover.Unsure = true }},
		},
		"T01": {
			{name: "one file for all", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_DEBUG_FILE", "/logs/nccl.log") })
			}, says: []string{"/logs/nccl.log lacks %h and %p"}},
			{name: "one file for a node", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_DEBUG_FILE", "/logs/nccl.%h") })
			}},
			{name: "no such folder", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_DEBUG_FILE", "/logs/nccl.%h.%p") })
				f.Nodes[3].Host.Leftover.Log = []host.File{{Path: "/logs", Error: "no such file or directory"}}
			}, says: []string{"/logs cannot be written: no such file or directory"}},
			{name: "a file each", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					preflighttest.Set(n, "NCCL_DEBUG_FILE", "/logs/nccl.%h.%p")
					n.Host.Leftover.Log = []host.File{{Path: "/logs", Writable: true, Free: 1 << 40}}
				})
			}},
			{name: "one worker on one node", nodes: 1, change: func(f *preflight.Fleet) {
				f.Nodes[0].Node.Workers = 1
				preflighttest.Set(&f.Nodes[0], "NCCL_DEBUG_FILE", "/logs/nccl.log")
			}},
			{name: "without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_DEBUG_FILE", "/logs/nccl.log") })
			}},
		},
	}
}
