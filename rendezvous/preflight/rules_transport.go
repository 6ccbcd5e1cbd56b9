package preflight

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// transportRules are N01, N02 and N05: which network NCCL takes for data.
func transportRules() []Rule {
	return []Rule{
		{
			ID: "N01", Name: "net-kind", Severity: Error,
			Meaning: "NCCL moves data over the same kind of network on every node, and a network that NCCL_NET forces is there.",
			Users:   "`Error: network IB not found.`, `Failed to initialize any NET plugin`, `socketFinalizeAccept: wrong type 4 != 3`, or a silent hang.",
			Steps: []Step{
				everyRank("force the network that all nodes have, which is slower than InfiniBand", "NCCL_NET", "Socket"),
				byHand("ask the administrator of the marked nodes to make the network work there that the others use").or(),
			},
			Check: checkKind,
		},
		{
			ID: "N02", Name: "plugin-same", Severity: Error,
			Meaning: "NCCL's net and tuner plugins are the same files on every node, or on none.",
			Users:   "A silent hang, or an address family that does not exist.",
			Steps: []Step{
				toGorun("keep NCCL from the plugins on all nodes", "-x NCCL_NET_PLUGIN=none -x NCCL_TUNER_PLUGIN=none"),
				byHand("install the same plugin on all nodes").or(),
			},
			Check: checkPlugins,
		},
		{
			ID: "N05", Name: "ib-perm", Severity: Error,
			Meaning: "Where active adapters are, libibverbs, its provider library and the files of /dev/infiniband are usable; when no node can use them, or every node as many, it is a warning.",
			Users:   "`NET/IB : Unable to open device mlx5_0`, or NCCL that falls back to sockets without a word.",
			Steps: []Step{
				toContainer("give the container the adapters, and an image with rdma-core and the provider library", "--device=/dev/infiniband --cap-add=IPC_LOCK"),
				byHand("ask the administrator of the marked nodes to install rdma-core with the provider library, and to let the job's user open /dev/infiniband").or(),
			},
			Check: checkVerbs,
		},
	}
}

// sockets reports whether NCCL on this node moves data over sockets.
func (f *Fleet) sockets(i int) bool { return f.look().carrier[i].kind == "Socket" }

// verbs reports whether NCCL on this node moves data to other nodes through
// adapters: by itself or by a plugin.
func (f *Fleet) verbs(i int) bool {
	kind := f.look().carrier[i].kind
	return f.look().places > 1 && kind != "" && kind != "Socket" && len(f.Nodes[i].RDMA.Devices) > 0
}

func checkKind(f *Fleet) []Finding {
	v := f.look()
	all := advised(one(f.faults(func(i int, n *Facts) string {
		if c := v.carrier[i]; c.err != "" {
			return c.why + ": " + c.err
		}
		return ""
	}), Finding{Text: "NCCL_NET forces a network that is not there; NCCL would end the job."}), f.unforce)
	if v.places < 2 {
		return all
	}
	plugins := f.plugins("net")
	values := f.differ(func(i int, _ *Facts) string {
		kind := v.carrier[i].kind
		if len(plugins) > 1 && kind != "IB" && kind != "Socket" {
			return "" // N02
		}
		return kind
	})
	for i := range values {
		why := detail(values[i].Nodes, func(i int) string { return v.carrier[i].why })
		values[i].Value = clean(values[i].Value+" ("+why+")", 600)
	}
	return append(all, one(values, Finding{Text: "NCCL would move data over different kinds of network; they do not understand each other."})...)
}

// unforce takes NCCL_NET away where all nodes then have the same network, and
// else forces the one that all have.
func (f *Fleet) unforce() []Step {
	kinds := map[string]bool{}
	for _, n := range f.known() {
		kind, _, _ := rdma.Transport(n.RDMA, func(name string) string {
			if name == "NCCL_NET" {
				return ""
			}
			return n.env(name)
		}, n.ncclCode())
		kinds[kind] = true
	}
	var steps []Step
	if len(kinds) == 1 {
		steps = f.takeAway("leave the choice to NCCL", func(s ncclenv.Value) bool { return s.Name == "NCCL_NET" })
	}
	steps = or(steps, everyRank("force the network that all nodes have", "NCCL_NET", "Socket"))
	return or(steps, byHand("ask the administrator of the marked nodes to install what is missing there"))
}

func checkPlugins(f *Fleet) []Finding {
	if f.look().places < 2 {
		return nil
	}
	var all []Finding
	for _, kind := range []string{"net", "tuner"} {
		values := f.plugins(kind)
		if len(values) < 2 {
			continue
		}
		f.describe(values, func(i int) string {
			if p := f.Nodes[i].plugin(kind); p != nil {
				return p.Path
			}
			return f.Nodes[i].noPlugin(kind)
		})
		variable := "NCCL_" + strings.ToUpper(kind) + "_PLUGIN"
		all = append(all, Finding{Text: "The nodes load different " + kind + " plugins of NCCL.", Values: values, Steps: []Step{
			everyRank("keep NCCL from them on all nodes", variable, "none"),
			byHand("install the same plugin on all nodes").or(),
		}})
	}
	return all
}

// plugins groups the nodes by the plugin that they load.
func (f *Fleet) plugins(kind string) []Value {
	v := f.look()
	return f.group(func(i int, n *Facts) string {
		if !v.nccl || !n.GPU.Driver || !n.knows("rdma") {
			return ""
		}
		p := n.plugin(kind)
		switch {
		case p == nil:
			return "no " + kind + " plugin"
		case p.Hash != "":
			return path.Base(p.Path) + ", SHA-256 " + short(p.Hash)
		default:
			return path.Base(p.Path) + ", " + strings.Join(p.Versions, " ")
		}
	})
}

// plugin is the first of a kind that NCCL can load.
func (n *Facts) plugin(kind string) *rdma.Plugin {
	if rdma.Without(n.env, kind) {
		return nil
	}
	for i := range n.RDMA.Plugin {
		if p := &n.RDMA.Plugin[i]; p.Name == kind && p.Error == "" {
			return p
		}
	}
	return nil
}

// noPlugin is why one that was asked for cannot be loaded.
func (n *Facts) noPlugin(kind string) string {
	if rdma.Without(n.env, kind) {
		return ""
	}
	for _, p := range n.RDMA.Plugin {
		if p.Name == kind && p.Error != "" {
			return p.Error
		}
	}
	return ""
}

func checkVerbs(f *Fleet) []Finding {
	v := f.look()
	if v.places < 2 {
		return nil
	}
	someIB := false
	for _, c := range v.carrier {
		someIB = someIB || c.kind == "IB"
	}
	sockets := everyRank("have all nodes use sockets, and know that they are slow", "NCCL_NET", "Socket").or()
	x := Finding{Text: "NCCL would use sockets on these nodes though they have active adapters: 10 to 100 times slower, and not what other nodes use."}
	if !someIB {
		x.Severity = Warning
		x.Text = "The nodes have active adapters, and NCCL would use sockets: 10 to 100 times slower."
	}
	all := one(f.faults(func(i int, n *Facts) string {
		c := v.carrier[i]
		if c.kind != "Socket" || n.env("NCCL_NET") != "" || n.on("NCCL_IB_DISABLE") || len(v.ports[i]) == 0 {
			return ""
		}
		return c.why
	}), x)
	for i := range all {
		all[i].Steps = append(f.openAdapters(marked(all[i].Values)), sockets)
	}
	closed := odd(f.collect(func(i int, n *Facts, add func(string)) {
		if v.carrier[i].kind != "IB" {
			return
		}
		for _, h := range v.ports[i] {
			if why := n.barred(h.Device); why != "" {
				add(why)
			}
		}
	}))
	x = f.closedAdapters()
	x.Steps = f.openAdapters(marked(closed))
	return append(all, one(closed, x)...)
}

// openAdapters has nodes open the files of their adapters.
func (f *Fleet) openAdapters(nodes []int) []Step {
	steps := f.each(nodes, toContainer, "give the container the adapters", func(_ int, n *Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{"--device=/dev/infiniband --cap-add=IPC_LOCK"}
	})
	steps = append(steps, f.each(nodes, asRoot, "let the job's user open them", func(_ int, n *Facts) []string {
		var files []string
		for _, d := range n.RDMA.Devices {
			for _, node := range n.RDMA.Nodes {
				if n.Host.Container == "" && d.Verbs != "" && node.Path == "/dev/infiniband/"+d.Verbs && strings.Contains(node.Error, "permission denied") {
					files = append(files, quote(node.Path))
				}
			}
		}
		if files == nil {
			return nil
		}
		return []string{"chmod a+rw " + strings.Join(files, " ")}
	})...)
	return or(steps, byHand("ask the administrator of "+f.called(nodes)+" to install rdma-core with the adapters' provider library, and to let the job's user open /dev/infiniband"))
}

// closedAdapters: a node with fewer adapters than others is an error; where each
// container was given as many of its machine's, it is as somebody wants it.
func (f *Fleet) closedAdapters() Finding {
	uneven := f.differ(f.byIB(func(n *Facts, ports []rdma.HCA) string {
		open := slices.DeleteFunc(slices.Clone(ports), func(h rdma.HCA) bool { return n.barred(h.Device) != "" })
		return plural(len(open), "adapter")
	}))
	if uneven == nil {
		return Finding{Severity: Warning, Text: "NCCL cannot open some of the active adapters, as many on every node."}
	}
	return Finding{Text: "NCCL cannot open some of the active adapters: it would use fewer than the other nodes."}
}

// barred says why the file of an adapter cannot be opened.
func (n *Facts) barred(device string) string {
	for _, d := range n.RDMA.Devices {
		if d.Name != device || d.Verbs == "" {
			continue
		}
		for _, node := range n.RDMA.Nodes {
			if node.Path == "/dev/infiniband/"+d.Verbs && node.Error != "" {
				return fmt.Sprintf("%s of %s: %s", node.Path, device, node.Error)
			}
		}
	}
	return ""
}
