package rules

import (
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func healthCases() map[string][]ruleCase {
	// gpu changes one GPU of the third node.
	gpu := func(i int, change func(d *preflight.Device)) func(f *preflight.Fleet) {
		return func(f *preflight.Fleet) { change(&f.Nodes[2].GPU.Devices[i]) }
	}
	all := func(f *preflight.Fleet, change func(d *preflight.Device)) {
		everyNode(f, func(n *preflight.Facts) {
			for i := range n.GPU.Devices {
				change(&n.GPU.Devices[i])
			}
		})
	}
	links := func(up, of int) []bool {
		list := make([]bool, of)
		for i := range up {
			list[i] = true
		}
		return list
	}
	fabric := func(state string) func(d *preflight.Device) {
		return func(d *preflight.Device) { d.Fabric, d.Links = state, links(18, 18) }
	}
	mig := func(f *preflight.Fleet, at, instances int) {
		n := &f.Nodes[2]
		d := &n.GPU.Devices[at]
		d.MIG = new(true)
		n.GPU.Visible[at] = "MIG-0"
		d.Instances = []string{"MIG-0", "MIG-1"}
		if instances > 1 {
			n.GPU.Visible = append(n.GPU.Visible, "MIG-1")
		}
		n.Node.Workers = len(n.GPU.Visible)
	}
	hidden := func(f *preflight.Fleet) {
		everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "CUDA_VISIBLE_DEVICES", "") })
	}
	return map[string][]ruleCase{
		"D03": {
			{name: "not started", severity: preflight.Error, odd: []int{2}, says: []string{"GPU 5: its part of the NVLink fabric is not started", "systemctl restart nvidia-fabricmanager"}, change: gpu(5, fabric("not started"))},
			{name: "failed", severity: preflight.Error, odd: []int{2}, says: []string{"GPU 0: its part of the NVLink fabric failed: Unknown Error"}, change: gpu(0, func(d *preflight.Device) { fabric("completed")(d); d.FabricError = "Unknown Error" })},
			{name: "all of a node", nodes: 1, severity: preflight.Error, odd: []int{0}, says: []string{"GPU 0, 1, 2, 3, 4, 5, 6, 7: its part"}, change: func(f *preflight.Fleet) { all(f, fabric("in progress")) }},
			{name: "a program that may need none", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				gpu(5, fabric("not started"))(f)
				f.Nodes[2].Libraries = library.Facts{}
			}},
			{name: "completed", change: func(f *preflight.Fleet) { all(f, fabric("completed")) }},
			{name: "no fabric", change: func(f *preflight.Fleet) { all(f, fabric("unsupported")) }},
			{name: "no NVLink", change: gpu(5, func(d *preflight.Device) { d.Fabric = "not started" })},
			{name: "not visible", change: func(f *preflight.Fleet) {
				gpu(7, fabric("not started"))(f)
				f.Nodes[2].GPU.Visible = f.Nodes[2].GPU.Visible[:4]
			}},
			{name: "hidden", change: func(f *preflight.Fleet) { all(f, fabric("not started")); hidden(f) }},
		},
		"D06": {
			{name: "two instances of a GPU", severity: preflight.Error, odd: []int{2}, says: []string{"GPU 3: 2 MIG instances of it are for several workers"}, change: func(f *preflight.Fleet) { mig(f, 3, 2) }},
			{name: "an instance", severity: preflight.Warning, odd: []int{2}, says: []string{"GPU 3: 1 MIG instance"}, change: func(f *preflight.Fleet) { mig(f, 3, 1) }},
			{name: "wanted", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				mig(f, 3, 2)
				preflighttest.Set(&f.Nodes[2], "NCCL_MULTI_RANK_GPU_ENABLE", "1")
			}},
			{name: "one rank", nodes: 3, change: func(f *preflight.Fleet) {
				mig(f, 3, 2)
				f.Nodes = f.Nodes[2:]
				f.Nodes[0].Node.Workers = 1
			}},
			{name: "cut, but not for this job", change: func(f *preflight.Fleet) { mig(f, 3, 1); f.Nodes[2].GPU.Visible = f.Nodes[2].GPU.Visible[:3] }},
		},
		"D09": {
			{name: "prohibited", severity: preflight.Error, odd: []int{2}, says: []string{"GPU 1: its compute mode is Prohibited", "nvidia-smi -i 1 -c 0"}, change: gpu(1, func(d *preflight.Device) { d.ComputeMode = "prohibited" })},
			{name: "exclusive, and shared", severity: preflight.Error, odd: []int{2}, says: []string{"have to share it"}, change: func(f *preflight.Fleet) {
				gpu(1, func(d *preflight.Device) { d.ComputeMode = "exclusive-process" })(f)
				f.Nodes[2].Node.Workers = 16
			}},
			{name: "exclusive, and held", severity: preflight.Error, odd: []int{2}, says: []string{"pid 7 (python) holds it"}, change: func(f *preflight.Fleet) {
				gpu(1, func(d *preflight.Device) { d.ComputeMode = "exclusive-process" })(f)
				f.Nodes[2].GPU.Busy = []preflight.Holder{{GPU: f.Nodes[2].GPU.Devices[1].UUID, PID: 7, Name: "python"}}
			}},
			{name: "exclusive, with MPS", change: func(f *preflight.Fleet) {
				gpu(1, func(d *preflight.Device) { d.ComputeMode = "exclusive-process" })(f)
				f.Nodes[2].GPU.Busy = []preflight.Holder{{GPU: f.Nodes[2].GPU.Devices[1].UUID, PID: 7, Name: "nvidia-cuda-mps-server"}}
			}},
			{name: "exclusive, a worker each", change: func(f *preflight.Fleet) { all(f, func(d *preflight.Device) { d.ComputeMode = "exclusive-process" }) }},
			{name: "default", change: func(f *preflight.Fleet) { all(f, func(d *preflight.Device) { d.ComputeMode = "default" }) }},
		},
		"G01": {
			{name: "a row to replace", severity: preflight.Warning, odd: []int{2}, says: []string{"GPU 4: rows of its memory are to be replaced at the next reset"}, change: gpu(4, func(d *preflight.Device) { d.RemapPending = new(true) })},
			{name: "errors", severity: preflight.Warning, odd: []int{2}, says: []string{"GPU 4: 3 uncorrected errors of its memory", "nvidia-smi -i 4 --gpu-reset", "GPU 4: a row of its memory could not be replaced"}, change: gpu(4, func(d *preflight.Device) { d.RemapFailed, d.Uncorrected = new(true), new(uint64(3)) })},
			{name: "without faults", change: func(f *preflight.Fleet) {
				all(f, func(d *preflight.Device) {
					d.RemapFailed, d.RemapPending, d.Uncorrected = new(false), new(false), new(uint64(0))
				})
			}},
			{name: "hidden", change: func(f *preflight.Fleet) {
				gpu(4, func(d *preflight.Device) { d.RemapPending = new(true) })(f)
				hidden(f)
			}},
		},
		"G02": {
			{name: "links are down", severity: preflight.Warning, odd: []int{2}, says: []string{"GPU 6: 16 of 18 NVLinks are up"}, change: func(f *preflight.Fleet) {
				all(f, func(d *preflight.Device) { d.Links = links(18, 18) })
				gpu(6, func(d *preflight.Device) { d.Links = links(16, 18) })(f)
			}},
			{name: "links that are not connected", change: func(f *preflight.Fleet) { all(f, func(d *preflight.Device) { d.Links = links(4, 12) }) }},
			{name: "another model", change: func(f *preflight.Fleet) {
				all(f, func(d *preflight.Device) { d.Links = links(18, 18) })
				gpu(6, func(d *preflight.Device) { d.Links, d.Name = links(12, 12), "NVIDIA A100" })(f)
			}},
			{name: "not known", change: func(f *preflight.Fleet) {
				all(f, func(d *preflight.Device) { d.Links = links(18, 18) })
				gpu(6, func(d *preflight.Device) { d.Links = nil })(f)
			}},
		},
		"G03": {
			{name: "too hot", severity: preflight.Warning, odd: []int{2}, says: []string{"GPU 2: too hot"}, change: gpu(2, func(d *preflight.Device) { d.Slowed = []string{"too hot"} })},
			{name: "at full speed", change: func(f *preflight.Fleet) { all(f, func(d *preflight.Device) { d.Slowed = nil }) }},
		},
	}
}
