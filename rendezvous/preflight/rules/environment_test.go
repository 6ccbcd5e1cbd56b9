package rules

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/library"
	"github.com/gorun/gorun/rendezvous/preflight/preflighttest"
)

func environmentCases() map[string][]ruleCase {
	all := func(name, value string) func(*preflight.Fleet) {
		return func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { preflighttest.Set(n, name, value) }) }
	}
	behind := func(l preflight.WrapperLoss, nodes ...int) func(*preflight.Fleet) {
		return func(f *preflight.Fleet) {
			l.Wrapper = "docker run"
			for i := range f.Nodes {
				preflighttest.Set(&f.Nodes[i], "NCCL_SOCKET_IFNAME", "=eth0")
				f.Nodes[i].WrapperLoss = &preflight.WrapperLoss{Wrapper: "docker run"}
			}
			for _, i := range nodes {
				f.Nodes[i].WrapperLoss = &l
			}
		}
	}
	alone := func(change func(*preflight.Fleet)) func(*preflight.Fleet) {
		return func(f *preflight.Fleet) { change(f); f.Nodes[0].Node.Workers = 1 }
	}
	return map[string][]ruleCase{
		"E01": {
			{
				name: "another protocol from a conf file", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
					preflighttest.SetFrom(&f.Nodes[1], "NCCL_PROTO", "LL", "/etc/nccl.conf")
					addDifference(f, "NCCL_PROTO")
				},
				says: []string{"NCCL_PROTO=LL: from /etc/nccl.conf", "NCCL_PROTO unset", "on node2, as root: sed -i '/^NCCL_PROTO=/d' /etc/nccl.conf"},
			},
			{
				name: "one of two nodes has a conf file", nodes: 2, severity: preflight.Error, odd: nil, change: func(f *preflight.Fleet) {
					preflighttest.SetFrom(&f.Nodes[1], "NCCL_ALGO", "Ring", "/etc/nccl.conf")
					addDifference(f, "NCCL_ALGO")
				},
				says: []string{"on node2, as root: sed -i '/^NCCL_ALGO=/d' /etc/nccl.conf"},
			},
			{
				name: "conf files that differ", severity: preflight.Error, odd: []int{1, 2}, change: func(f *preflight.Fleet) {
					everyNode(f, func(n *preflight.Facts) { preflighttest.SetFrom(n, "NCCL_ALGO", "Ring", "/etc/nccl.conf") })
					f.Nodes[1].Settings, f.Nodes[2].Settings = nil, nil
					preflighttest.SetFrom(&f.Nodes[1], "NCCL_ALGO", "Tree", "/etc/nccl.conf")
					preflighttest.Set(&f.Nodes[2], "NCCL_IB_HCA", "mlx5")
					f.Nodes = append(f.Nodes, preflighttest.H100s(5).Nodes[4])
					preflighttest.SetFrom(&f.Nodes[4], "NCCL_ALGO", "Ring", "/etc/nccl.conf")
					addDifference(f, "NCCL_ALGO")
				},
				says: []string{"gorun -x NCCL_ALGO=Ring ..."},
			},
			{name: "two values that -x gives", nodes: 2, severity: preflight.Error, odd: nil, change: func(f *preflight.Fleet) {
				preflighttest.Set(&f.Nodes[0], "NCCL_ALGO", "Ring")
				preflighttest.Set(&f.Nodes[1], "NCCL_ALGO", "Tree")
				addDifference(f, "NCCL_ALGO")
			}},
			{name: "several variables of one node", severity: preflight.Error, odd: []int{3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					preflighttest.Set(n, "NCCL_ALGO", "Ring,Tree")
					preflighttest.Set(n, "NCCL_BUFFSIZE", "8388608")
				})
				f.Nodes[3].Settings = f.Nodes[3].Settings[:0]
				addDifference(f, "NCCL_ALGO")
				addDifference(f, "NCCL_BUFFSIZE")
			}, says: []string{"NCCL_ALGO unset, NCCL_BUFFSIZE unset", "Several variables"}},
			{name: "torch's watchdog", severity: preflight.Warning, odd: []int{0}, change: func(f *preflight.Fleet) {
				preflighttest.Set(&f.Nodes[0], "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "60")
				addDifference(f, "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC")
			}},
			{name: "a variable that this NCCL does not read", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { nccl(n, "2.20.5", 22005) })
				preflighttest.SetFrom(&f.Nodes[0], "NCCL_NET_MERGE_LEVEL", "LOC", "/etc/nccl.conf")
				addDifference(f, "NCCL_NET_MERGE_LEVEL")
			}},
			{name: "a conf file without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				preflighttest.SetFrom(&f.Nodes[0], "NCCL_ALGO", "Ring", "/etc/nccl.conf")
				addDifference(f, "NCCL_ALGO")
			}},
			{name: "the first value counts", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0, 2, 3}, change: func(f *preflight.Fleet) {
				f.Differences = []preflight.Difference{{Name: "NCCL_ALGO", Text: "a hang", Values: []preflight.Value{{Value: "NCCL_ALGO=Ring", Nodes: []int{1}}, {Value: "NCCL_ALGO unset", Nodes: []int{0, 2, 3}}}}}
			}, says: []string{"NCCL_ALGO differs, and every rank gets what node2 has. Otherwise: a hang.", "on node2: gorun -x NCCL_ALGO ...", "--env-conflict=error"}},
			{name: "several values of the first node count", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO"} {
					f.Differences = append(f.Differences, preflight.Difference{Name: name, Values: []preflight.Value{{Value: name + "=x", Nodes: []int{0, 2, 3}}, {Value: name + " unset", Nodes: []int{1}}}})
				}
			}, says: []string{"Several variables differ", "NCCL_ALGO=x, NCCL_PROTO=x", "gorun -x NCCL_ALGO -x NCCL_PROTO ..."}},
			{name: "the first value is not to count", severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Differences = []preflight.Difference{{Name: "NCCL_ALGO", Text: "a hang", Error: true, Values: []preflight.Value{{Value: "NCCL_ALGO=Ring", Nodes: []int{0, 2, 3}}, {Value: "NCCL_ALGO=Tree", Nodes: []int{1}}}}}
			}, says: []string{"NCCL_ALGO must be the same on every rank: a hang", "on node1: gorun -x NCCL_ALGO ..."}, omits: []string{"every rank gets"}},
			{name: "different values of -x", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				f.Differences = []preflight.Difference{{Name: "SEED", Requested: true, Values: []preflight.Value{{Value: "SEED=1", Nodes: []int{0}}, {Value: "SEED=2", Nodes: []int{1}}}}}
			}, says: []string{"SEED is requested with different values, and every rank gets that of node1"}},
			{name: "nodes that sent no facts", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Format = 0 })
				f.Differences = []preflight.Difference{{Name: "GLOO_DEVICE_TRANSPORT", Text: "no connection", Remains: true, Values: []preflight.Value{{Value: "GLOO_DEVICE_TRANSPORT=TCP", Nodes: []int{0, 2}}, {Value: "GLOO_DEVICE_TRANSPORT=TCP_TLS", Nodes: []int{1}}}}}
			}},
			{name: "no difference", change: all("NCCL_ALGO", "Ring,Tree")},
		},
		"E02": {
			{name: "left from debugging", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: all("NCCL_P2P_DISABLE", "1"), says: []string{"NCCL_P2P_DISABLE=1 is forced"}},
			{name: "corrupts data, from a file", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { preflighttest.SetFrom(n, "NCCL_PROTO", "LL128", "/etc/nccl.conf") })
			}, says: []string{"LL128 corrupts data", "on all nodes, as root: sed -i '/^NCCL_PROTO=/d' /etc/nccl.conf"}},
			{name: "a file and an environment", severity: preflight.Warning, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				preflighttest.SetFrom(&f.Nodes[0], "NCCL_PROTO", "LL128", "/etc/nccl.conf")
				preflighttest.Set(&f.Nodes[1], "NCCL_P2P_DISABLE", "1")
			}, says: []string{"gorun --unset NCCL_P2P_DISABLE ... on node1, as root: sed -i '/^NCCL_PROTO=/d' /etc/nccl.conf"}},
			{name: "a provider's file", severity: preflight.Note, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					preflighttest.SetFrom(n, "NCCL_TOPO_FILE", "/opt/topo.xml", "/etc/nccl.conf")
				})
			}},
			{name: "two at once", severity: preflight.Warning, odd: []int{0, 1}, change: func(f *preflight.Fleet) {
				preflighttest.Set(&f.Nodes[0], "NCCL_COMM_ID", "10.0.0.1:5000")
				preflighttest.Set(&f.Nodes[1], "NCCL_SHM_DISABLE", "1")
			}, says: []string{"NCCL_COMM_ID=", "NCCL_SHM_DISABLE=1"}},
			{name: "INFO in a large job", nodes: 128, severity: preflight.Warning, odd: firstNodes(128), change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Settings = nil; preflighttest.Set(n, "NCCL_DEBUG", "INFO") })
			}},
			{name: "INFO in a small job", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.Settings = nil; preflighttest.Set(n, "NCCL_DEBUG", "INFO") })
			}},
			{name: "off", change: all("NCCL_P2P_DISABLE", "0")},
			{name: "without GPUs", base: preflighttest.CPUs, change: all("NCCL_P2P_DISABLE", "1")},
		},
		"E03": {
			{name: "a container without the variable", severity: preflight.Error, odd: []int{2}, change: func(f *preflight.Fleet) {
				all("NCCL_SOCKET_IFNAME", "=eth0")(f)
				f.Nodes[2].Settings = nil
				f.Nodes[2].Host.Container = "docker"
			}, says: []string{"without NCCL_SOCKET_IFNAME (in a container: docker)"}},
			{name: "several variables", nodes: 2, severity: preflight.Error, odd: []int{1}, change: func(f *preflight.Fleet) {
				all("NCCL_SOCKET_IFNAME", "=eth0")(f)
				all("NCCL_ALGO", "Ring,Tree")(f)
				f.Nodes[1].Settings = nil
			}, says: []string{"without NCCL_ALGO, NCCL_SOCKET_IFNAME"}},
			{name: "half of the nodes need variables", nodes: 2, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				preflighttest.Set(&f.Nodes[0], "NCCL_SOCKET_IFNAME", "=eth0")
				preflighttest.Set(&f.Nodes[0], "NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3")
				f.Nodes[1].Host.Container = "docker"
			}},
			{name: "one variable", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				all("NCCL_SOCKET_IFNAME", "=eth0")(f)
				f.Nodes[1].Settings = nil
			}},
			{name: "Gloo's", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				all("GLOO_SOCKET_IFNAME", "eth0")(f)
				f.Nodes[1].Settings = nil
			}},
			{name: "NCCL's without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) {
				all("NCCL_SOCKET_IFNAME", "=eth0")(f)
				f.Nodes[1].Settings = nil
			}},
			{name: "only one node has it", change: func(f *preflight.Fleet) { preflighttest.Set(&f.Nodes[1], "NCCL_SOCKET_IFNAME", "=eth0") }},
			{
				name: "seen to be lost", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1, 2},
				change: behind(preflight.WrapperLoss{Missing: []string{"RANK", "NCCL_ALGO"}, Changed: []string{"OMP_NUM_THREADS"}, Fix: []string{"pass them on:", "  docker run -e RANK -e NCCL_ALGO ..."}}, 1, 2),
				says:   []string{"behind docker run: without RANK, NCCL_ALGO; changed: OMP_NUM_THREADS", "docker run -e RANK -e NCCL_ALGO ..."},
			},
			{name: "a rank that was changed", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{0}, change: behind(preflight.WrapperLoss{Changed: []string{"RANK"}}, 0)},
			{name: "a rank that the user gives", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{0}, change: behind(preflight.WrapperLoss{Forced: []string{"RANK"}}, 0), says: []string{"set by the command line: RANK"}},
			{
				name: "an image that can print nothing", base: preflighttest.CPUs, severity: preflight.Error, odd: []int{1},
				change: behind(preflight.WrapperLoss{Missing: []string{"RANK"}, NoProbeReason: "it ended with code 127 (exec: \"env\": not found)"}, 1), says: []string{"without RANK", `code 127 (exec: "env": not found)`},
			},
			{name: "a rank of one worker", base: preflighttest.CPUs, nodes: 1, severity: preflight.Warning, odd: []int{0}, change: alone(behind(preflight.WrapperLoss{Missing: preflight.EssentialVariables()}, 0))},
			{name: "a library's variable", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{3}, change: behind(preflight.WrapperLoss{Missing: []string{"NCCL_ALGO"}}, 3)},
			{name: "the variable that says where the store is", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{3}, change: behind(preflight.WrapperLoss{Missing: []string{"TORCHELASTIC_USE_AGENT_STORE"}}, 3)},
			{name: "what few programs read", base: preflighttest.CPUs, severity: preflight.Note, odd: []int{3}, change: behind(preflight.WrapperLoss{Missing: []string{"ROLE_NAME", "GORUN_ROUND"}}, 3)},
			{name: "what only another node gives", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: behind(preflight.WrapperLoss{Unsent: []string{"MINE"}}, 1), says: []string{"probably without MINE"}},
			{name: "seen to arrive", change: behind(preflight.WrapperLoss{})},
			{
				name: "assumed of the options", severity: preflight.Error, odd: []int{1},
				change: behind(preflight.WrapperLoss{Missing: []string{"RANK"}, Assumed: true, NoProbeReason: "a password is required"}, 1), says: []string{"without RANK", "a password is required"},
			},
			{name: "assumed without GPUs", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: behind(preflight.WrapperLoss{Missing: []string{"RANK"}, Assumed: true}, 1)},
		},
		"E04": {
			{name: "misspelt", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: all("NCCL_SOCKET_IFNAMES", "eth0"), says: []string{"NCCL_SOCKET_IFNAMES: nothing reads it; did you mean NCCL_SOCKET_IFNAME?"}},
			{name: "Gloo's misspelt", base: preflighttest.CPUs, severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) { preflighttest.Set(&f.Nodes[1], "GLOO_SOCKET_IFNAMES", "eth0") }},
			{name: "NCCL's without GPUs", base: preflighttest.CPUs, change: all("NCCL_SOCKET_IFNAMES", "eth0")},
			{name: "a release newer than the list", change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					nccl(n, "2.99.0", 29900)
					preflighttest.Set(n, "NCCL_SOCKET_IFNAMES", "eth0")
				})
			}},
			{name: "well written", change: all("NCCL_SOCKET_IFNAME", "=eth0")},
		},
		"E06": {
			{name: "a topology on three nodes", severity: preflight.Warning, odd: []int{3}, change: func(f *preflight.Fleet) { nameFile(f, "NCCL_TOPO_FILE", "/etc/topo.xml", 3) }, says: []string{"NCCL_TOPO_FILE=/etc/topo.xml: no such file"}},
			{name: "a graph", severity: preflight.Error, odd: []int{3}, change: func(f *preflight.Fleet) { nameFile(f, "NCCL_GRAPH_FILE", "/etc/graph.xml", 3) }},
			{name: "a file of a variable that workers do not get", change: func(f *preflight.Fleet) {
				f.Nodes[3].Files = []ncclenv.Named{{Name: "NCCL_TOPO_FILE", Path: "/etc/topo.xml", Error: "no such file or directory"}}
			}},
			{name: "everywhere", change: func(f *preflight.Fleet) { nameFile(f, "NCCL_TOPO_FILE", "/etc/topo.xml", -1) }},
			{name: "without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { nameFile(f, "NCCL_GRAPH_FILE", "/etc/graph.xml", 3) }},
		},
		"E05": {
			{name: "a file on one node", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) { f.Nodes[1].ConfFiles = conf("aa") }, says: []string{"/etc/nccl.conf (aa): sets NCCL_IB_TC", "no nccl.conf"}},
			{name: "another file", severity: preflight.Warning, odd: []int{1}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) { n.ConfFiles = conf("aa") })
				f.Nodes[1].ConfFiles = conf("bb")
			}},
			{name: "a fault everywhere", severity: preflight.Warning, odd: []int{0, 1, 2, 3}, change: func(f *preflight.Fleet) {
				everyNode(f, func(n *preflight.Facts) {
					n.ConfFiles = conf("aa")
					n.ConfFiles[0].Faults = []string{"line 3: the value ends with a blank"}
				})
			}, says: []string{"/etc/nccl.conf: line 3: the value ends with a blank"}},
			{name: "cannot be read", severity: preflight.Warning, odd: []int{2}, change: func(f *preflight.Fleet) {
				f.Nodes[2].ConfFiles = []ncclenv.ConfFile{{Path: "/etc/nccl.conf", Error: "permission denied"}}
			}},
			{name: "the same", change: func(f *preflight.Fleet) { everyNode(f, func(n *preflight.Facts) { n.ConfFiles = conf("aa") }) }},
			{name: "without GPUs", base: preflighttest.CPUs, change: func(f *preflight.Fleet) { f.Nodes[1].ConfFiles = conf("aa") }},
		},
	}
}

func conf(hash string) []ncclenv.ConfFile {
	return []ncclenv.ConfFile{{Path: "/etc/nccl.conf", Hash: hash, Names: []string{"NCCL_IB_TC"}}}
}

// TestUnknownDelivery checks that jobs without GPUs, too, get a finding if no
// program could look behind the wrapper.
func TestUnknownDelivery(t *testing.T) {
	f := preflighttest.CPUs(2)
	everyNode(f, func(n *preflight.Facts) { n.Libraries = library.Facts{} })
	f.Nodes[1].Unknown = []preflight.Unknown{{Source: preflight.WrapperSource, Why: "docker: its command line is not understood here"}, {Source: "gpu", Why: "no answer"}}
	found := findingsOf("F01", preflight.Compare(f, All(), preflight.Options{}))
	if len(found) != 1 || len(found[0].Values) != 1 || found[0].Values[0].Value != "delivery: docker: its command line is not understood here" {
		t.Errorf("%+v", found)
	}
}

// addDifference makes the nodes' workers differ in a variable, as their
// settings do.
func addDifference(f *preflight.Fleet, name string) {
	v, _ := ncclenv.Lookup(name)
	d := preflight.Difference{Name: name, Text: v.Text, Remains: true, Error: !v.Soft()}
	for i, n := range f.Known() {
		text := name + " unset"
		if value, set := n.Setting(name); set {
			text = name + "=" + value
		}
		k := slices.IndexFunc(d.Values, func(x preflight.Value) bool { return x.Value == text })
		if k < 0 {
			k = len(d.Values)
			d.Values = append(d.Values, preflight.Value{Value: text})
		}
		d.Values[k].Nodes = append(d.Values[k].Nodes, i)
	}
	f.Differences = append(f.Differences, d)
}

// nameFile gives all workers a variable that names a file, which one node
// lacks.
func nameFile(f *preflight.Fleet, name, path string, lacks int) {
	for i := range f.Nodes {
		preflighttest.Set(&f.Nodes[i], name, path)
		file := ncclenv.Named{Name: name, Path: path}
		if i == lacks {
			file.Error = "no such file or directory"
		}
		f.Nodes[i].Files = []ncclenv.Named{file}
	}
}
