package preflight

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// transportRules are N01, N02 and N05: which network NCCL takes for data.
func transportRules() []Rule {
	return []Rule{
		{
			ID: "N01", Name: "net-kind", Severity: Error,
			Meaning: "NCCL moves data over the same kind of network on every node, and a network that NCCL_NET forces is there.",
			Users:   "`Error: network IB not found.`, `Failed to initialize any NET plugin`, `socketFinalizeAccept: wrong type 4 != 3`, or a silent hang.",
			Fix:     "make the network work on every node, or force the one that all have:\n  export NCCL_NET=Socket",
			Check:   checkKind,
		},
		{
			ID: "N02", Name: "plugin-same", Severity: Error,
			Meaning: "NCCL's net and tuner plugins are the same files on every node, or on none.",
			Users:   "A silent hang, or an address family that does not exist.",
			Fix:     "install the same plugin on every node, or keep NCCL from it everywhere:\n  export NCCL_NET_PLUGIN=none NCCL_TUNER_PLUGIN=none",
			Check:   checkPlugins,
		},
		{
			ID: "N05", Name: "ib-perm", Severity: Error,
			Meaning: "Where active adapters are, libibverbs, its provider library and the files of /dev/infiniband are usable; when no node can use them, or every node as many, it is a warning.",
			Users:   "`NET/IB : Unable to open device mlx5_0`, or NCCL that falls back to sockets without a word.",
			Fix:     "install rdma-core with the provider library in the image, and give the container the adapters:\n  docker run --device=/dev/infiniband --cap-add=IPC_LOCK ...",
			Check:   checkVerbs,
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
	all := one(f.faults(func(i int, n *Facts) string {
		if c := v.carrier[i]; c.err != "" {
			return c.why + ": " + c.err
		}
		return ""
	}), Finding{
		Text: "NCCL_NET forces a network that is not there; NCCL would end the job.",
		Fix:  "install what is missing, or leave the choice to NCCL:\n  unset NCCL_NET",
	})
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
		all = append(all, Finding{Text: "The nodes load different " + kind + " plugins of NCCL.", Values: values})
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
	for i := range n.RDMA.Plugin {
		if p := &n.RDMA.Plugin[i]; p.Name == kind && p.Error == "" {
			return p
		}
	}
	return nil
}

// noPlugin is why one that was asked for cannot be loaded.
func (n *Facts) noPlugin(kind string) string {
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
	return append(all, one(odd(f.collect(func(i int, n *Facts, add func(string)) {
		if v.carrier[i].kind != "IB" {
			return
		}
		for _, h := range v.ports[i] {
			if why := n.barred(h.Device); why != "" {
				add(why)
			}
		}
	})), f.closedAdapters())...)
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
