package rules

import (
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func gpuCases() map[string][]ruleCase {
	return map[string][]ruleCase{
		"D02": {
			{name: "4 of 8 are visible", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].GPU.Visible = f.Nodes[1].GPU.Visible[:4] }, says: []string{"8 workers, 4 GPUs visible of 8"}},
			{name: "a single node", nodes: 1, change: func(f *preflight.Fleet) { f.Nodes[0].Node.Workers = 9 }},
			{name: "every node has too few", change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { n.Node.Workers = 16 }) }},
			{name: "shared on purpose", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].GPU.Visible, f.Nodes[1].GPU.Shared = f.Nodes[1].GPU.Visible[:4], true
			}},
			{name: "several ranks a GPU are wanted", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.GPU.Visible = n.GPU.Visible[:4]
					preflighttest.Set(n, "NCCL_MULTI_RANK_GPU_ENABLE", "1")
				})
			}},
			{name: "a program that may need none", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Libraries = library.Facts{} })
				f.Nodes[1].GPU.Visible = f.Nodes[1].GPU.Visible[:4]
			}},
			{name: "hidden on purpose", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.GPU.Visible = nil; preflighttest.Set(n, "CUDA_VISIBLE_DEVICES", "") })
			}},
			{name: "not known", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.GPU.Visible, n.GPU.Devices = nil, nil })
			}},
			{name: "enough", change: func(f *preflight.Fleet) { f.Nodes[1].Node.Workers = 4 }},
		},
		"D04": {
			{name: "NVML does not work", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].GPU.Error = "Driver/library version mismatch" }, says: []string{"Driver/library version mismatch"}},
			{name: "a faulty GPU", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].GPU.Devices[5].Error = "GPU is lost" }, says: []string{"GPU 5 (0000:15:00.0): GPU is lost"}},
			{name: "no driver", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[0].GPU.Error = "no library" }},
		},
		"D05": {
			{name: "another model on one node", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) {
				for g := range f.Nodes[3].GPU.Devices {
					f.Nodes[3].GPU.Devices[g].Name = "NVIDIA A100-SXM4-40GB"
				}
			}, says: []string{"A100-SXM4-40GB"}},
			{name: "not known", change: func(f *preflight.Fleet) { f.Nodes[3].GPU.Devices = nil }},
		},
		"D08": {
			{name: "two models on a node", nodes: 1, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].GPU.Devices[7].Name = "NVIDIA T400"
			}, says: []string{"T400", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}},
			{name: "in the order of the bus", nodes: 1, change: func(f *preflight.Fleet) {
				f.Nodes[0].GPU.Devices[7].Name = "NVIDIA T400"
				preflighttest.Set(&f.Nodes[0], "CUDA_DEVICE_ORDER", "PCI_BUS_ID")
			}},
		},
		"D10": {
			{name: "no uvm in a container", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.DevNodes[9].Error, f.Nodes[0].Host.Container = "missing", "docker"
			}, says: []string{"/dev/nvidia-uvm: missing", "docker run --gpus all"}},
			{name: "uvm that is not used since the machine was started", nodes: 1, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Host.DevNodes[9].Error = "missing" }},
			{name: "WSL", nodes: 1, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.DevNodes = []host.Node{{Path: "/dev/dxg"}}
			}},
			{name: "WSL, forbidden", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.DevNodes = []host.Node{{Path: "/dev/dxg", Error: "permission denied"}}
			}},
			{name: "no GPU may be opened", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { deny(&f.Nodes[1], 8) }, says: []string{"/dev/nvidia0: operation not permitted"}},
			{name: "enough may be opened", change: func(f *preflight.Fleet) { f.Nodes[1].Node.Workers = 4; deny(&f.Nodes[1], 4) }},
			{name: "no driver on one node", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].GPU, f.Nodes[2].Host.DevNodes = preflight.GPU{}, nil }, says: []string{"no /dev/nvidiactl", "docker run --gpus all"}},
			{name: "no driver on a node of another role", change: func(f *preflight.Fleet) {
				f.Nodes[2].GPU, f.Nodes[2].Host.DevNodes, f.Nodes[2].Node.Role = preflight.GPU{}, nil, "ps"
			}},
			{name: "containers without GPUs", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: withoutGPUs("docker"), says: []string{"no /dev/nvidiactl", "docker run --gpus all"}},
			{name: "one container without its GPUs", nodes: 1, severity: preflight.Warning, odd: []int{0}, change: withoutGPUs("docker")},
			{name: "containers for CPUs", change: func(f *preflight.Fleet) {
				withoutGPUs("docker")(f)
				for i := range f.Nodes {
					preflighttest.Set(&f.Nodes[i], "CUDA_VISIBLE_DEVICES", "")
				}
			}},
			{name: "no container", change: withoutGPUs("")},
			{name: "no driver", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.DevNodes = []host.Node{{Path: "/dev/nvidiactl", Error: "missing"}}
			}},
		},
		"T03": {
			{name: "a stub wins", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Libraries.CUDA[0] = library.CUDA{Path: "/usr/local/cuda/lib64/stubs/libcuda.so.1", Stub: true}
			}, says: []string{"stubs/libcuda.so.1"}},
			{name: "a folder of stubs", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].Libraries.LDPath = []string{"/usr/lib", "/usr/local/cuda/lib64/stubs/"}
			}},
			{name: "no stubs", change: func(f *preflight.Fleet) {
				f.Nodes[1].Libraries.LDPath = []string{"/usr/local/cuda/lib64", "/opt/stubsmith"}
			}},
			{name: "no driver", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				f.Nodes[1].Libraries.CUDA = []library.CUDA{{Path: "/x/stubs/libcuda.so.1", Stub: true}}
			}},
		},
	}
}

// withoutGPUs makes nodes containers that were given no GPU.
func withoutGPUs(kind string) func(*preflight.Fleet) {
	return func(f *preflight.Fleet) {
		for i := range f.Nodes {
			n := &f.Nodes[i]
			n.GPU, n.Host.DevNodes, n.Host.ProcGPU, n.Host.Container = preflight.GPU{}, nil, true, kind
		}
	}
}

// deny forbids the first GPUs of a node.
func deny(n *preflight.Facts, gpus int) {
	for i := range gpus {
		n.Host.DevNodes[i].Error = "operation not permitted"
	}
}
