package rules

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// adapterRules returns N03 and N04: whether the nodes' RDMA adapters fit
// together.
func adapterRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "N03", Name: "hca-count", Severity: preflight.Error,
			Meaning: "NCCL uses the same number of active adapter ports on every node, of the same link layer; other rates are a warning.",
			Symptom: "A silent hang; `Detected mixed local Net device counts`.",
			Steps: []preflight.Step{
				preflight.EveryRank("use only ports that every node has", "NCCL_IB_HCA", "=mlx5_0,mlx5_1"),
				preflight.ByHand.Step("ask the administrator of the marked nodes to repair the ports that are down").Alternative(),
				preflight.ToShow.Step("which ports are up", "ibstat"),
			},
			Check: checkAdapters,
		},
		{
			ID: "N04", Name: "roce-gid", Severity: preflight.Error,
			Meaning: "On RoCE the entry of the address table (GID) that NCCL uses exists, and is of the same version and family on every node; a link-local one is a warning.",
			Symptom: "`Call to ibv_modify_qp failed with 22 Invalid argument`, `status=IBV_WC_RETRY_EXC_ERR(12)`.",
			Steps: []preflight.Step{
				preflight.EveryRank("leave the choice to NCCL (2.21 or newer)", "NCCL_IB_GID_INDEX", "-1"),
				preflight.ByHand.Step("ask the administrator of the marked nodes to give the adapter's interface an IPv4 address, from which the GID comes").Alternative(),
				preflight.ToShow.Step("which GIDs there are", "show_gids"),
			},
			Check: checkGIDs,
		},
	}
}

// whereIB returns a function that applies key to the nodes on which NCCL itself
// uses adapters.
func whereIB(f *preflight.Fleet, key func(n *preflight.Facts, ports []rdma.HCA) string) func(int, *preflight.Facts) string {
	v := f.View()
	return func(i int, n *preflight.Facts) string {
		if v.Places < 2 || v.Transport[i].Kind != "IB" {
			return ""
		}
		return key(n, v.Ports[i])
	}
}

func checkAdapters(f *preflight.Fleet) []preflight.Finding {
	values := f.Differing(whereIB(f, func(_ *preflight.Facts, ports []rdma.HCA) string { return preflight.Plural(len(ports), "active port") }))
	f.Describe(values, func(i int) string { return listInactive(&f.Nodes[i]) })
	all := preflight.IfAny(values, preflight.Finding{Text: "NCCL would use different numbers of adapters; ranks wait for connections that other ranks do not make."})

	all = append(all, preflight.IfAny(f.Differing(whereIB(f, func(_ *preflight.Facts, ports []rdma.HCA) string {
		var list []string
		for _, h := range ports {
			list = append(list, h.Link)
		}
		slices.Sort(list)
		return strings.Join(slices.Compact(list), " and ")
	})), preflight.Finding{Text: "The adapters have different link layers: InfiniBand and RoCE cannot connect to each other."})...)
	all = preflight.WithSteps(all, func() []preflight.Step { return commonPorts(f) })

	return append(all, preflight.IfAny(f.Differing(whereIB(f, func(_ *preflight.Facts, ports []rdma.HCA) string {
		var list []string
		for _, h := range ports {
			list = append(list, h.Rate)
		}
		slices.Sort(list)
		return strings.Trim(strings.Join(slices.Compact(list), " and "), " ")
	})), preflight.Finding{Severity: preflight.Warning, Text: "The adapters run at different rates; every collective waits for the slowest.", Steps: []preflight.Step{
		preflight.ByHand.Step("ask the administrator of the fabric to check the cables and ports that are slower than the others"),
		preflight.ToShow.Step("which ports they are", "ibstat"),
	}})...)
}

// commonPorts returns the steps after which every node uses the same number of
// ports of one link layer. It chooses ports of the same names where all nodes
// have them.
func commonPorts(f *preflight.Fleet) []preflight.Step {
	v := f.View()
	byLink := map[string][][]string{} // names of the ports, a list for each node
	nodes := 0
	for i := range f.Known() {
		if v.Transport[i].Kind != "IB" {
			continue
		}
		nodes++
		names := map[string][]string{}
		for _, h := range v.Ports[i] {
			names[h.Link] = append(names[h.Link], h.String())
		}
		for link, list := range names {
			byLink[link] = append(byLink[link], list)
		}
	}
	repair := []preflight.Step{
		preflight.ByHand.Step("ask the administrator of the nodes to repair the ports that are down, or to give all nodes the same number of ports of one link layer"),
		preflight.ToShow.Step("which ports are up", "ibstat").Everywhere(),
	}
	var best []string // port names that all nodes have
	count, link := 0, ""
	for _, l := range slices.Sorted(maps.Keys(byLink)) {
		lists := byLink[l]
		if len(lists) < nodes { // a node has no such port
			continue
		}
		common, least := lists[0], len(lists[0])
		for _, list := range lists[1:] {
			common = slices.DeleteFunc(slices.Clone(common), func(name string) bool { return !slices.Contains(list, name) })
			least = min(least, len(list))
		}
		if least > count || least == count && len(common) > len(best) {
			best, count, link = common, least, l
		}
	}
	switch {
	case count == 0:
		return repair
	case len(best) == count:
		return preflight.Either([]preflight.Step{preflight.EveryRank("use the ports that every node has", "NCCL_IB_HCA", "="+strings.Join(best, ","))}, repair...)
	}
	return preflight.Either(f.StepsFor(f.AllNodes(), preflight.InShell, "use as many ports on every node", func(i int, _ *preflight.Facts) []string {
		var names []string
		for _, h := range v.Ports[i] {
			if h.Link == link && len(names) < count && v.Transport[i].Kind == "IB" {
				names = append(names, h.String())
			}
		}
		if names == nil {
			return nil
		}
		return []string{"export " + term.Command("NCCL_IB_HCA=="+strings.Join(names, ","))}
	}), repair...)
}

// listInactive lists the ports that NCCL leaves out because they are not
// active.
func listInactive(n *preflight.Facts) string {
	var list []string
	for _, d := range n.RDMA.Devices {
		for _, p := range d.Ports {
			if p.State != "ACTIVE" && len(list) < 8 {
				list = append(list, fmt.Sprintf("%s:%d is %s", d.Name, p.Number, p.State))
			}
		}
	}
	return strings.Join(list, ", ")
}

func checkGIDs(f *preflight.Fleet) []preflight.Finding {
	all := preflight.IfAny(f.Faults(whereIB(f, func(n *preflight.Facts, ports []rdma.HCA) string {
		for _, h := range ports {
			if h.Link != "Ethernet" {
				continue
			}
			if _, why, ok := h.GID(n.Env, n.NCCLCode()); !ok {
				return h.String() + " has no such GID: " + why
			}
		}
		return ""
	})), preflight.Finding{Text: "The GID that NCCL would use does not exist; connections fail."})
	values := f.Differing(whereIB(f, func(n *preflight.Facts, ports []rdma.HCA) string { return strings.Join(gidKinds(n, ports), " and ") }))
	f.Describe(values, func(i int) string {
		n := &f.Nodes[i]
		for _, h := range f.View().Ports[i] {
			if g, why, ok := h.GID(n.Env, n.NCCLCode()); ok && h.Link == "Ethernet" {
				return fmt.Sprintf("%s GID %d %s (%s)", h, g.Index, g.GID, why)
			}
		}
		return ""
	})
	all = append(all, preflight.IfAny(values, preflight.Finding{Text: "NCCL would use GIDs of different kinds; connections time out."})...)
	if len(all) > 0 {
		return preflight.WithSteps(all, func() []preflight.Step { return chooseGID(f) })
	}
	return preflight.WithSteps(preflight.IfAny(f.Faults(whereIB(f, func(n *preflight.Facts, ports []rdma.HCA) string {
		for _, kind := range gidKinds(n, ports) {
			if strings.HasSuffix(kind, "link-local") {
				return kind
			}
		}
		return ""
	})), preflight.Finding{Severity: preflight.Warning, Text: "NCCL would use link-local GIDs, which reach no other subnet, and often no other node."}), func() []preflight.Step { return chooseGID(f) })
}

// chooseGID returns the step that leaves the choice to NCCL, if NCCL then finds
// GIDs of one kind on all nodes.
func chooseGID(f *preflight.Fleet) []preflight.Step {
	const name = "NCCL_IB_GID_INDEX"
	v := f.View()
	kinds := map[string]bool{}
	forced := false
	for i, n := range f.Known() {
		if v.Transport[i].Kind != "IB" {
			continue
		}
		_, set := n.Setting(name)
		forced = forced || set
		for _, h := range v.Ports[i] {
			if h.Link == "Ethernet" {
				g, _, ok := h.GID(n.EnvWith(name, "-1"), n.NCCLCode())
				kinds[gidKind(g)] = kinds[gidKind(g)] || !ok
			}
		}
	}
	repair := []preflight.Step{
		preflight.ByHand.Step("ask the administrator of the marked nodes to give the adapters' interfaces IPv4 addresses, from which the GIDs of RoCE v2 come"),
		preflight.ToShow.Step("which GIDs there are", "show_gids").Everywhere(),
	}
	if forced && len(kinds) == 1 && !slices.Contains(slices.Collect(maps.Values(kinds)), true) {
		return preflight.Either([]preflight.Step{preflight.EveryRank("leave the choice to NCCL", name, "-1")}, repair...)
	}
	return repair
}

// gidKinds returns version and family of the GIDs that NCCL would use, sorted.
func gidKinds(n *preflight.Facts, ports []rdma.HCA) []string {
	var kinds []string
	for _, h := range ports {
		if h.Link != "Ethernet" {
			continue
		}
		g, _, ok := h.GID(n.Env, n.NCCLCode())
		if !ok {
			continue
		}
		kinds = append(kinds, gidKind(g))
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// gidKind returns the version and family of a GID.
func gidKind(g rdma.GID) string {
	family := "IPv6"
	if ip, err := netip.ParseAddr(g.GID); err == nil {
		switch ip = ip.Unmap(); {
		case ip.IsLinkLocalUnicast():
			family = "link-local"
		case ip.Is4():
			family = "IPv4"
		}
	}
	return g.Type + " " + family
}
