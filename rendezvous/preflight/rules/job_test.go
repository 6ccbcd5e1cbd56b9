package rules

import (
	"fmt"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func jobCases() map[string][]ruleCase {
	return map[string][]ruleCase{
		"R01": {
			{name: "one node rank twice", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1, 3}, change: func(f *preflight.Fleet) {
				for i, rank := range []int{0, 1, 2, 1} {
					f.Nodes[i].Node.NodeRank = rank
				}
			}, says: []string{"--node-rank 1"}},
			{name: "no workers", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Node.Workers = 0 }},
			{name: "nothing to run", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Node.Workers = 0; n.Program = preflight.Program{} })
			}},
			{name: "each its own", base: preflighttest.CPUs, change: rankInOrder},
			{name: "each its own, more than a finding shows", base: preflighttest.CPUs, nodes: 300, change: rankInOrder},
			{name: "twice among many", base: preflighttest.CPUs, nodes: 300, severity: preflight.Error, odd: []int{7, 299}, change: func(f *preflight.Fleet) {
				rankInOrder(f)
				f.Nodes[299].Node.NodeRank = 7
			}, says: []string{"--node-rank 7"}, omits: []string{"other values"}},
		},
		"R02": {
			{name: "loopback", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Master = "127.0.0.1:29500" }, says: []string{"their own machine"}},
			{name: "localhost", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Master = "localhost:29500" }},
			{name: "link-local", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Master = "[fe80::1%eth0]:29500" }},
			{name: "link-local, as all nodes", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				for i := range f.Nodes {
					f.Nodes[i].Node.Addr = fmt.Sprintf("169.254.3.%d", i+1)
				}
				address(&f.Nodes[0], "eth0", "169.254.3.1", 16)
				f.Master = "169.254.3.1:29500"
			}},
			{name: "link-local, as no other node", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Master = "169.254.3.1:29500" }},
			{name: "a foreign address", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Master = "192.168.1.1:29500" }, says: []string{"the node has eth0 (10.0.0.1/16), docker0 (172.17.0.1/16)"}},
			{name: "a name", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Master = "node1:29500" }},
			{name: "no job", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Master = "" }},
			{name: "interfaces not known", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Master = "192.168.1.1:29500"; f.Nodes[0].Network = netif.Facts{} }},
		},
		"R03": {
			{name: "another script", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{3}, change: func(f *preflight.Fleet) { f.Nodes[3].Program.Hash = strings.Repeat("cd", 32) }, says: []string{"SHA-256 cdcdcdcdcdcd: /job/train.py"}},
			{name: "another torch", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].Libraries.Torch = "2.8.0" }, says: []string{"2.8.0"}},
			{name: "other arguments", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].Program.Args = []string{"--lr", "3e-5"} }, says: []string{"--lr 3e-5"}},
			{name: "another Python", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) { f.Nodes[2].Libraries.Python = "3.10" }},
			{name: "a module", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				addModules(f)
				f.Nodes[2].Program.Modules[1].Hash = "b2"
			}, says: []string{"differs: net.py"}, omits: []string{"data.py"}},
			{name: "modules that are missing or too many", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1, 2}, change: func(f *preflight.Fleet) {
				addModules(f)
				f.Nodes[1].Program.Modules = f.Nodes[1].Program.Modules[1:]
				f.Nodes[2].Program.Modules = append(f.Nodes[2].Program.Modules, preflight.Module{Path: "old.py", Hash: "c"})
			}, says: []string{"is missing: data.py", "is only here: old.py"}},
			{name: "a module on one of two nodes", base: preflighttest.CPUs, nodes: 2, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				addModules(f)
				f.Nodes[0].Program.Modules[0].Hash = "a2"
			}, says: []string{"differs: data.py"}},
			{name: "no modules on one node", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) { addModules(f); f.Nodes[3].Program.Modules = nil }},
			{name: "modules beyond the bounds", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				addModules(f)
				everyNode(f, func(n *preflight.Facts) { n.Program.More = true })
				f.Nodes[1].Program.Modules = f.Nodes[1].Program.Modules[:1]
			}},
			{name: "modules of another role", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				addModules(f)
				f.Nodes[3].Program.Modules, f.Nodes[3].Node.Role = nil, "evaluator"
			}},
			{name: "modules that are not known", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				addModules(f)
				f.Nodes[3].Program.Modules, f.Nodes[3].Unknown = nil, []preflight.Unknown{{Source: "modules", Why: "nothing came within 1s"}}
			}},
			{name: "a system program", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.Program = preflight.Program{Title: "hostname", Path: "/usr/bin/hostname", Hash: n.Node.ID}
				})
			}},
			{name: "another script for another role", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				f.Nodes[3].Program.Hash, f.Nodes[3].Program.Args, f.Nodes[3].Node.Role = strings.Repeat("cd", 32), nil, "evaluator"
			}},
			{name: "hash not known", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[2].Program.Hash = "" }},
		},
		"R04": {
			{name: "another protocol", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Node.Protocol, f.Nodes[0].Node.Version = 2, "2.0.0" }, says: []string{"protocol 2: 2.0.0"}},
			{name: "another version", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) { f.Nodes[0].Node.Version = "1.0.1" }},
			{name: "the same", base: preflighttest.CPUs, change: func(*preflight.Fleet) {}},
		},
		"R05": {
			{name: "a process of the same run", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1}, change: addLeftoverJob, says: []string{`pid 4242 (python) of run "run42"`}},
			{name: "a process of the same run beside a job of one node", nodes: 1, base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) {
				f.Nodes[0].Host.Leftover.Jobs = []host.Job{{PID: 4242, Name: "python", RunID: "run42"}}
			}},
			{name: "several runs", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].Node.RunID = "run41" }},
			{name: "agents of one machine", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { preflighttest.OnOneMachine(f); addLeftoverJob(f) }},
		},
		"R06": {
			{name: "a proxy for all", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) { preflighttest.Set(&f.Nodes[2], "http_proxy", "http://proxy.example:3128") }, says: []string{"http for 10.0.0.1 goes to proxy.example:3128"}},
			{name: "without http", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, "HTTPS_PROXY", "proxy.example:3128") })
			}},
			{name: "another network in NO_PROXY", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				preflighttest.Set(&f.Nodes[1], "http_proxy", "http://proxy.example:3128")
				preflighttest.Set(&f.Nodes[1], "NO_PROXY", "192.168.0.0/16,.example")
			}},
			{name: "the nodes in NO_PROXY", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					preflighttest.Set(n, "all_proxy", "http://proxy.example:3128")
					preflighttest.Set(n, "no_proxy", "localhost,10.0.0.0/8")
				})
			}},
			{name: "without torch", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.Libraries.Torch = ""
					preflighttest.Set(n, "http_proxy", "http://proxy.example:3128")
				})
			}},
			{name: "one node", nodes: 1, change: func(f *preflight.Fleet) { preflighttest.Set(&f.Nodes[0], "http_proxy", "http://proxy.example:3128") }},
		},
		"R07": {
			{name: "fewer workers on one node", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) { f.Nodes[3].Node.Workers = 4 }, says: []string{"node4 (ranks 24-27) 4 workers"}},
			{name: "without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[3].Node.Workers = 2 }},
		},
		"I14": {
			{name: "a name that one node lacks", base: preflighttest.CPUs, severity: preflight.Error, change: func(f *preflight.Fleet) {
				f.Nodes[2].Unknown = []preflight.Unknown{{Source: preflight.IfaceSource, Why: "this node has no interface bond0"}}
			}, says: []string{"node3 (ranks 8-11) this node has no interface bond0"}},
			{name: "auto without an answer", base: preflighttest.CPUs, severity: preflight.Error, change: func(f *preflight.Fleet) { f.IfaceError = "3 of 4 nodes have an address in 10.0.0.0/16" }, says: []string{"--iface auto finds no choice", "3 of 4 nodes"}},
			{name: "without --iface", base: preflighttest.CPUs, change: func(*preflight.Fleet) {}},
		},
		"F01": {
			{name: "something unknown", severity: preflight.Note, odd: nil, change: func(f *preflight.Fleet) {
				f.Nodes[3].Unknown = []preflight.Unknown{{Source: "gpu", Why: "nothing came within 12s"}}
			}, says: []string{"node4 (ranks 24-31) gpu: nothing came within 12s"}},
			{name: "what --iface lacks is I14's", change: func(f *preflight.Fleet) {
				f.Nodes[3].Unknown = []preflight.Unknown{{Source: preflight.IfaceSource, Why: "no bond0"}}
			}},
			{name: "no facts", severity: preflight.Note, change: func(f *preflight.Fleet) { f.Nodes[3] = preflight.Facts{} }, says: []string{"node 3 the node sent no facts"}},
			{name: "what no check needs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[3].Unknown = []preflight.Unknown{{Source: "gpu", Why: "no time"}} }},
			{name: "without torch", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Libraries.Torch = "" })
				f.Nodes[3].Unknown = []preflight.Unknown{{Source: "host", Why: "no /proc"}}
			}},
		},
	}
}

func addLeftoverJob(f *preflight.Fleet) {
	f.Nodes[1].Host.Leftover.Jobs = []host.Job{{PID: 4242, RunID: "run42", Name: "python"}}
}

func rankInOrder(f *preflight.Fleet) {
	for i := range f.Nodes {
		f.Nodes[i].Node.NodeRank = i
	}
}

// addModules gives all nodes the same modules.
func addModules(f *preflight.Fleet) {
	everyNode(f, func(n *preflight.Facts) {
		n.Program.Modules = []preflight.Module{{Path: "data.py", Hash: "a"}, {Path: "net.py", Hash: "b"}}
	})
}
