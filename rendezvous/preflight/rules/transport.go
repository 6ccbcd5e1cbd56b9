package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// transportRules returns N01, N02 and N05: which network NCCL uses for data.
func transportRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "N01", Name: "net-kind", Severity: preflight.Error,
			Meaning: "NCCL moves data over the same kind of network on every node, and the network that NCCL_NET forces exists.",
			Symptom: "`Error: network IB not found.`, `Failed to initialize any NET plugin`, `socketFinalizeAccept: wrong type 4 != 3`, or a silent hang.",
			Steps: []preflight.Step{
				preflight.EveryRank("force sockets, which all nodes have and which are slower than InfiniBand", "NCCL_NET", "Socket"),
				preflight.ByHand.Step("ask the administrator of the marked nodes to repair the network that the other nodes use").Alternative(),
			},
			Check: checkKind,
		},
		{
			ID: "N02", Name: "plugin-same", Severity: preflight.Error,
			Meaning: "NCCL's net and tuner plugins are the same files on every node, or on none.",
			Symptom: "A silent hang, or an address family that does not exist.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("let NCCL load no plugin on any node", "-x NCCL_NET_PLUGIN=none -x NCCL_TUNER_PLUGIN=none"),
				preflight.ByHand.Step("install the same plugin on all nodes").Alternative(),
			},
			Check: checkPlugins,
		},
		{
			ID: "N05", Name: "ib-perm", Severity: preflight.Error,
			Meaning: "Where active adapters are, libibverbs, its provider library and the files of /dev/infiniband are usable; when no node can use them, or all nodes can use equally many, it is a warning.",
			Symptom: "`NET/IB : Unable to open device mlx5_0`, or NCCL falls back to sockets without a message.",
			Steps: []preflight.Step{
				preflight.ToContainer.Step("give the container the adapters, and an image with rdma-core and the provider library", "--device=/dev/infiniband --cap-add=IPC_LOCK"),
				preflight.ByHand.Step("ask the administrator of the marked nodes to install rdma-core with the provider library, and to let the job's user open /dev/infiniband").Alternative(),
			},
			Check: checkVerbs,
		},
	}
}

// usesAdapters reports whether NCCL on this node moves data to other nodes
// through adapters, either by itself or by a plugin.
func usesAdapters(f *preflight.Fleet, i int) bool {
	kind := f.View().Transport[i].Kind
	return f.View().Places > 1 && kind != "" && kind != "Socket" && len(f.Nodes[i].RDMA.Devices) > 0
}

func checkKind(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	all := preflight.WithSteps(preflight.IfAny(f.Faults(func(i int, n *preflight.Facts) string {
		if c := v.Transport[i]; c.Err != "" {
			return c.Why + ": " + c.Err
		}
		return ""
	}), preflight.Finding{Text: "NCCL_NET forces a network that does not exist on the node; NCCL would end the job."}), func() []preflight.Step { return unsetNet(f) })
	if v.Places < 2 {
		return all
	}
	plugins := groupByPlugin(f, "net")
	values := f.Differing(func(i int, _ *preflight.Facts) string {
		kind := v.Transport[i].Kind
		if len(plugins) > 1 && kind != "IB" && kind != "Socket" {
			return "" // N02 finds this
		}
		return kind
	})
	for i := range values {
		why := preflight.Detail(values[i].Nodes, func(i int) string { return v.Transport[i].Why })
		values[i].Value = preflight.Clean(values[i].Value+" ("+why+")", 600)
	}
	return append(all, preflight.IfAny(values, preflight.Finding{Text: "NCCL would move data over different kinds of network, which cannot connect to each other."})...)
}

// unsetNet returns the steps that remove NCCL_NET if all nodes then have the
// same network. Otherwise the steps force the network that all nodes have.
func unsetNet(f *preflight.Fleet) []preflight.Step {
	kinds := map[string]bool{}
	for _, n := range f.Known() {
		kind, _, _ := rdma.Transport(n.RDMA, n.EnvWith("NCCL_NET", ""), n.NCCLCode())
		kinds[kind] = true
	}
	var steps []preflight.Step
	if len(kinds) == 1 {
		steps = unsetVariables(f, "leave the choice to NCCL", func(s ncclenv.Value) bool { return s.Name == "NCCL_NET" })
	}
	steps = preflight.Either(steps, preflight.EveryRank("force the network that all nodes have", "NCCL_NET", "Socket"))
	return preflight.Either(steps, preflight.ByHand.Step("ask the administrator of the marked nodes to install what the network needs"))
}

func checkPlugins(f *preflight.Fleet) []preflight.Finding {
	if f.View().Places < 2 {
		return nil
	}
	var all []preflight.Finding
	for _, kind := range []string{"net", "tuner"} {
		values := groupByPlugin(f, kind)
		if len(values) < 2 {
			continue
		}
		f.Describe(values, func(i int) string {
			if p := firstPlugin(&f.Nodes[i], kind); p != nil {
				return p.Path
			}
			return pluginError(&f.Nodes[i], kind)
		})
		variable := "NCCL_" + strings.ToUpper(kind) + "_PLUGIN"
		all = append(all, preflight.Finding{Text: "The nodes load different " + kind + " plugins of NCCL.", Values: values, Steps: []preflight.Step{
			preflight.EveryRank("let NCCL load no such plugin on any node", variable, "none"),
			preflight.ByHand.Step("install the same plugin on all nodes").Alternative(),
		}})
	}
	return all
}

// groupByPlugin groups the nodes by the plugin that they load.
func groupByPlugin(f *preflight.Fleet, kind string) []preflight.Value {
	v := f.View()
	return f.Group(func(i int, n *preflight.Facts) string {
		if !v.NCCL || !n.GPU.Driver || !n.Knows("rdma") {
			return ""
		}
		p := firstPlugin(n, kind)
		switch {
		case p == nil:
			return "no " + kind + " plugin"
		case p.Hash != "":
			return path.Base(p.Path) + ", SHA-256 " + shortHash(p.Hash)
		default:
			return path.Base(p.Path) + ", " + strings.Join(p.Versions, " ")
		}
	})
}

// firstPlugin returns the first plugin of a kind that NCCL can load.
func firstPlugin(n *preflight.Facts, kind string) *rdma.Plugin {
	if rdma.DisablesPlugins(n.Env, kind) {
		return nil
	}
	for i := range n.RDMA.Plugin {
		if p := &n.RDMA.Plugin[i]; p.Name == kind && p.Error == "" {
			return p
		}
	}
	return nil
}

// pluginError says why a plugin that the user asks for cannot be loaded.
func pluginError(n *preflight.Facts, kind string) string {
	if rdma.DisablesPlugins(n.Env, kind) {
		return ""
	}
	for _, p := range n.RDMA.Plugin {
		if p.Name == kind && p.Error != "" {
			return p.Error
		}
	}
	return ""
}

func checkVerbs(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if v.Places < 2 {
		return nil
	}
	someIB := false
	for _, c := range v.Transport {
		someIB = someIB || c.Kind == "IB"
	}
	sockets := preflight.EveryRank("make all nodes use sockets, which are slow", "NCCL_NET", "Socket").Alternative()
	x := preflight.Finding{Text: "NCCL would use sockets on these nodes though they have active adapters: 10 to 100 times slower, and not what other nodes use."}
	if !someIB {
		x.Severity = preflight.Warning
		x.Text = "The nodes have active adapters, and NCCL would use sockets: 10 to 100 times slower."
	}
	all := preflight.IfAny(f.Faults(func(i int, n *preflight.Facts) string {
		c := v.Transport[i]
		if c.Kind != "Socket" || n.Env("NCCL_NET") != "" || n.IsOn("NCCL_IB_DISABLE") || len(v.Ports[i]) == 0 {
			return ""
		}
		return c.Why
	}), x)
	for i := range all {
		all[i].Steps = append(openAdapters(f, preflight.Marked(all[i].Values)), sockets)
	}
	unopened := preflight.AllOdd(f.Collect(func(i int, n *preflight.Facts, add func(string)) {
		if v.Transport[i].Kind != "IB" {
			return
		}
		for _, h := range v.Ports[i] {
			if why := describeClosed(n, h.Device); why != "" {
				add(why)
			}
		}
	}))
	x = closedAdapters(f)
	x.Steps = openAdapters(f, preflight.Marked(unopened))
	return append(all, preflight.IfAny(unopened, x)...)
}

// openAdapters returns the steps that let nodes open the files of their
// adapters.
func openAdapters(f *preflight.Fleet, nodes []int) []preflight.Step {
	steps := f.StepsFor(nodes, preflight.ToContainer, "give the container the adapters", func(_ int, n *preflight.Facts) []string {
		if n.Host.Container == "" {
			return nil
		}
		return []string{"--device=/dev/infiniband --cap-add=IPC_LOCK"}
	})
	steps = append(steps, f.StepsFor(nodes, preflight.AsRoot, "let the job's user open them", func(_ int, n *preflight.Facts) []string {
		var files []string
		for _, d := range n.RDMA.Devices {
			for _, node := range n.RDMA.Nodes {
				if n.Host.Container == "" && d.Verbs != "" && node.Path == "/dev/infiniband/"+d.Verbs && strings.Contains(node.Error, "permission denied") {
					files = append(files, term.Command(node.Path))
				}
			}
		}
		if files == nil {
			return nil
		}
		return []string{"chmod a+rw " + strings.Join(files, " ")}
	})...)
	return preflight.Either(steps, preflight.ByHand.Step("ask the administrator of "+f.NamesOf(nodes)+" to install rdma-core with the adapters' provider library, and to let the job's user open /dev/infiniband"))
}

// closedAdapters returns the finding about adapters that cannot be opened. It
// is an error if a node has fewer adapters than others, and a warning if every
// node has as many.
func closedAdapters(f *preflight.Fleet) preflight.Finding {
	uneven := f.Differing(whereIB(f, func(n *preflight.Facts, ports []rdma.HCA) string {
		open := slices.DeleteFunc(slices.Clone(ports), func(h rdma.HCA) bool { return describeClosed(n, h.Device) != "" })
		return preflight.Plural(len(open), "adapter")
	}))
	if uneven == nil {
		return preflight.Finding{Severity: preflight.Warning, Text: "NCCL cannot open some of the active adapters, equally many on every node."}
	}
	return preflight.Finding{Text: "NCCL cannot open some of the active adapters: it would use fewer than the other nodes."}
}

// describeClosed says why the file of an adapter cannot be opened.
func describeClosed(n *preflight.Facts, device string) string {
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
