package rules

import (
	"fmt"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// roce makes the adapters RoCE adapters, with the usual four GIDs.
func roce(f *preflight.Fleet) {
	everyNode(f, func(n *preflight.Facts) {
		for d := range n.RDMA.Devices {
			p := &n.RDMA.Devices[d].Ports[0]
			p.Link, p.Rate = "Ethernet", "400 Gb/sec (4X NDR)"
			v4 := fmt.Sprintf("::ffff:10.1.%d.%d", d, 1)
			p.GIDs = []rdma.GID{
				{Index: 0, GID: "fe80::1", Type: "IB/RoCE v1"},
				{Index: 1, GID: "fe80::1", Type: "RoCE v2"},
				{Index: 2, GID: v4, Type: "IB/RoCE v1"},
				{Index: 3, GID: v4, Type: "RoCE v2"},
			}
		}
	})
}

func noVerbs(n *preflight.Facts) { n.RDMA.Verbs = rdma.Library{Error: "libibverbs.so.1 is not found"} }

func plug(kind, path, hash string) rdma.Plugin {
	return rdma.Plugin{Name: kind, Path: path, Hash: hash}
}

func transportCases() map[string][]ruleCase {
	return map[string][]ruleCase{
		"N01": {
			{name: "IB is forced, no libibverbs", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_NET", "IB") })
				noVerbs(&f.Nodes[1])
			}, says: []string{"NCCL_NET=IB: Failed to initialize any NET plugin: libibverbs.so.1 is not found", "gorun -x NCCL_NET=Socket ..."}},
			{name: "on one node alone", nodes: 1, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { preflighttest.Set(&f.Nodes[0], "NCCL_NET", "IB"); noVerbs(&f.Nodes[0]) }},
			{name: "one node without libibverbs", severity: preflight.Error, odd: []int{3}, change: func(f *preflight.Fleet) { noVerbs(&f.Nodes[3]) }, says: []string{"Socket (NCCL_NET is not set, and IB does not work: libibverbs.so.1 is not found)", "IB (4 active ports; NCCL_NET is not set)"}},
			{name: "IB is off on one node", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { preflighttest.Set(&f.Nodes[2], "NCCL_IB_DISABLE", "1") }},
			{name: "no adapters at all", change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { n.RDMA = rdma.Facts{} }) }},
			{name: "not known", change: func(f *preflight.Fleet) {
				f.Nodes[3].RDMA = rdma.Facts{}
				f.Nodes[3].Unknown = []preflight.Unknown{{Source: "rdma", Why: "nothing came within 3s"}}
			}},
			{name: "on this machine", change: func(f *preflight.Fleet) { preflighttest.OnOneMachine(f); noVerbs(&f.Nodes[3]) }},
		},
		"N02": {
			{name: "a plugin on one node", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
				f.Nodes[2].RDMA.Plugin = []rdma.Plugin{plug("net", "/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so", "0123456789abcdef")}
			}, says: []string{"libnccl-net.so, SHA-256 0123456789ab: /opt/hpcx", "no net plugin"}},
			{name: "another file", severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.RDMA.Plugin = []rdma.Plugin{plug("net", "/opt/lib/libnccl-net.so", "aaaa")}
				})
				f.Nodes[0].RDMA.Plugin[0].Hash = "bbbb"
			}},
			{name: "a tuner on one node", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Nodes[1].RDMA.Plugin = []rdma.Plugin{plug("tuner", "/opt/lib/libnccl-tuner.so", "aaaa")}
			}, says: []string{"different tuner plugins"}},
			{name: "asked for and not there", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.RDMA.Plugin = []rdma.Plugin{{Name: "net", Asked: "aws", Path: "/opt/lib/libnccl-net-aws.so", Hash: "aaaa"}}
				})
				f.Nodes[1].RDMA.Plugin[0] = rdma.Plugin{Name: "net", Asked: "aws", Error: "libnccl-net-aws.so is not found"}
			}, says: []string{"no net plugin: libnccl-net-aws.so is not found"}},
			{name: "the same in other folders", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.RDMA.Plugin = []rdma.Plugin{plug("net", "/opt/"+n.Node.ID+"/libnccl-net.so", "aaaa")}
				})
			}},
		},
		"N03": {
			{name: "a port is down", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].RDMA.Devices[3].Ports[0].State = "DOWN" }, says: []string{"3 active ports: mlx5_3:1 is DOWN", "4 active ports", "gorun -x NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1 ..."}},
			{name: "NCCL_IB_HCA on one node", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { preflighttest.Set(&f.Nodes[1], "NCCL_IB_HCA", "=mlx5_0") }, says: []string{"1 active port"}},
			{name: "another link layer", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
				other := preflighttest.H100s(4)
				roce(other)
				f.Nodes[2].RDMA = other.Nodes[2].RDMA
			}},
			{name: "another rate", severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].RDMA.Devices[0].Ports[0].Rate = "100 Gb/sec (4X EDR)" }, says: []string{"100 Gb/sec (4X EDR) and 400"}},
			{name: "RoCE everywhere", change: roce},
			{name: "over sockets", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_IB_DISABLE", "1") })
				f.Nodes[1].RDMA.Devices[3].Ports[0].State = "DOWN"
			}},
		},
		"N04": {
			{name: "an index that is empty", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
				roce(f)
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_IB_GID_INDEX", "3") })
				for d := range f.Nodes[2].RDMA.Devices {
					f.Nodes[2].RDMA.Devices[d].Ports[0].GIDs = f.Nodes[2].RDMA.Devices[d].Ports[0].GIDs[:2]
				}
			}, says: []string{"mlx5_0:1 has no such GID: NCCL_IB_GID_INDEX=3"}},
			{name: "other kinds", severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { roce(f); preflighttest.Set(&f.Nodes[0], "NCCL_IB_GID_INDEX", "2") }, says: []string{"IB/RoCE v1 IPv4: mlx5_0:1 GID 2", "RoCE v2 IPv4"}},
			{name: "link-local, as old releases choose", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				roce(f)
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.20.5", 22005) })
			}, says: []string{"IB/RoCE v1 link-local"}},
			{name: "found by NCCL", change: roce},
			{name: "InfiniBand with an index", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_IB_GID_INDEX", "3") })
			}},
		},
		"N05": {
			{name: "no permission on one node", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { bar(&f.Nodes[1], 4) }, says: []string{"/dev/infiniband/uverbs0 of mlx5_0 cannot be opened: permission denied", "on node2, as root: chmod a+rw /dev/infiniband/uverbs0"}},
			{name: "one adapter of four", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { bar(&f.Nodes[2], 1) }, says: []string{"/dev/infiniband/uverbs0 of mlx5_0: permission denied"}},
			{name: "one adapter of four on every node", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { bar(n, 1) }) }},
			{name: "no provider anywhere", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { n.RDMA.Provider = nil }) }, says: []string{"no provider library for mlx5_0"}},
			{name: "sockets are wanted", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "NCCL_NET", "Socket"); bar(n, 4) })
			}},
			{name: "on one node alone", nodes: 1, change: func(f *preflight.Fleet) { bar(&f.Nodes[0], 4) }},
			{name: "no active port", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					noVerbs(n)
					for d := range n.RDMA.Devices {
						n.RDMA.Devices[d].Ports[0].State = "DOWN"
					}
				})
			}},
		},
	}
}

// bar makes the first adapters' files unreadable.
func bar(n *preflight.Facts, adapters int) {
	for i := range adapters {
		n.RDMA.Nodes[i].Error = "permission denied"
	}
}
