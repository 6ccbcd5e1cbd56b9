package preflight

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/rdma"
)

// adapterRules are N03 and N04: whether the nodes' RDMA adapters fit together.
func adapterRules() []Rule {
	return []Rule{
		{
			ID: "N03", Name: "hca-count", Severity: Error,
			Meaning: "NCCL uses as many active ports of adapters on every node, of the same link layer; other rates are a warning.",
			Users:   "A silent hang; `Detected mixed local Net device counts`.",
			Steps: []Step{
				everyRank("use only what every node has", "NCCL_IB_HCA", "=mlx5_0,mlx5_1"),
				byHand("ask the administrator of the marked nodes to repair the ports that are down").or(),
				toLook("which are up", "ibstat"),
			},
			Check: checkAdapters,
		},
		{
			ID: "N04", Name: "roce-gid", Severity: Error,
			Meaning: "On RoCE the entry of the address table (GID) that NCCL uses exists, and is of the same version and family on every node; a link-local one is a warning.",
			Users:   "`Call to ibv_modify_qp failed with 22 Invalid argument`, `status=IBV_WC_RETRY_EXC_ERR(12)`.",
			Steps: []Step{
				everyRank("leave the choice to NCCL (2.21 or newer)", "NCCL_IB_GID_INDEX", "-1"),
				byHand("ask the administrator of the marked nodes to give the adapter's interface an IPv4 address, from which the GID comes").or(),
				toLook("which GIDs there are", "show_gids"),
			},
			Check: checkGIDs,
		},
	}
}

// byIB goes through the nodes on which NCCL itself uses adapters.
func (f *Fleet) byIB(key func(n *Facts, ports []rdma.HCA) string) func(int, *Facts) string {
	v := f.look()
	return func(i int, n *Facts) string {
		if v.places < 2 || v.carrier[i].kind != "IB" {
			return ""
		}
		return key(n, v.ports[i])
	}
}

func checkAdapters(f *Fleet) []Finding {
	values := f.differ(f.byIB(func(_ *Facts, ports []rdma.HCA) string { return plural(len(ports), "active port") }))
	f.describe(values, func(i int) string { return f.Nodes[i].inactive() })
	all := one(values, Finding{Text: "NCCL would use different numbers of adapters; ranks wait for connections that the others do not make."})

	all = append(all, one(f.differ(f.byIB(func(_ *Facts, ports []rdma.HCA) string {
		var list []string
		for _, h := range ports {
			list = append(list, h.Link)
		}
		slices.Sort(list)
		return strings.Join(slices.Compact(list), " and ")
	})), Finding{Text: "The adapters have different link layers: InfiniBand and RoCE do not talk to each other."})...)
	all = advised(all, f.commonPorts)

	return append(all, one(f.differ(f.byIB(func(_ *Facts, ports []rdma.HCA) string {
		var list []string
		for _, h := range ports {
			list = append(list, h.Rate)
		}
		slices.Sort(list)
		return strings.Trim(strings.Join(slices.Compact(list), " and "), " ")
	})), Finding{Severity: Warning, Text: "The adapters run at different rates; every collective waits for the slowest.", Steps: []Step{
		byHand("ask the administrator of the fabric to look at the cables and ports that are slower than the others"),
		toLook("which they are", "ibstat"),
	}})...)
}

// commonPorts has every node use as many ports of one link layer: those of the
// same names where all nodes have them.
func (f *Fleet) commonPorts() []Step {
	v := f.look()
	byLink := map[string][][]string{} // names of the ports, of each node
	nodes := 0
	for i := range f.known() {
		if v.carrier[i].kind != "IB" {
			continue
		}
		nodes++
		own := map[string][]string{}
		for _, h := range v.ports[i] {
			own[h.Link] = append(own[h.Link], h.String())
		}
		for link, names := range own {
			byLink[link] = append(byLink[link], names)
		}
	}
	repair := []Step{
		byHand("ask the administrator of the nodes to repair the ports that are down, or to give all nodes as many of one link layer"),
		toLook("which are up", "ibstat").everywhere(),
	}
	var best []string // that all nodes have
	count, link := 0, ""
	for _, l := range slices.Sorted(maps.Keys(byLink)) {
		lists := byLink[l]
		if len(lists) < nodes { // a node has none of it
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
		return or([]Step{everyRank("use the ports that every node has", "NCCL_IB_HCA", "="+strings.Join(best, ","))}, repair...)
	}
	return or(f.each(indices(len(f.Nodes)), inShell, "use as many ports on every node", func(i int, _ *Facts) []string {
		var names []string
		for _, h := range v.ports[i] {
			if h.Link == link && len(names) < count && v.carrier[i].kind == "IB" {
				names = append(names, h.String())
			}
		}
		if names == nil {
			return nil
		}
		return []string{"export " + quote("NCCL_IB_HCA=="+strings.Join(names, ","))}
	}), repair...)
}

// inactive lists the ports that NCCL leaves out because they are not active.
func (n *Facts) inactive() string {
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

func checkGIDs(f *Fleet) []Finding {
	all := one(f.faults(f.byIB(func(n *Facts, ports []rdma.HCA) string {
		for _, h := range ports {
			if h.Link != "Ethernet" {
				continue
			}
			if _, why, ok := h.GID(n.env, n.ncclCode()); !ok {
				return h.String() + " has no such GID: " + why
			}
		}
		return ""
	})), Finding{Text: "The GID that NCCL would use does not exist; connections fail."})
	values := f.differ(f.byIB(func(n *Facts, ports []rdma.HCA) string { return strings.Join(n.gidKinds(ports), " and ") }))
	f.describe(values, func(i int) string {
		n := &f.Nodes[i]
		for _, h := range f.look().ports[i] {
			if g, why, ok := h.GID(n.env, n.ncclCode()); ok && h.Link == "Ethernet" {
				return fmt.Sprintf("%s GID %d %s (%s)", h, g.Index, g.GID, why)
			}
		}
		return ""
	})
	all = append(all, one(values, Finding{Text: "NCCL would use GIDs of different kinds; connections time out."})...)
	if len(all) > 0 {
		return advised(all, f.chooseGID)
	}
	return advised(one(f.faults(f.byIB(func(n *Facts, ports []rdma.HCA) string {
		for _, kind := range n.gidKinds(ports) {
			if strings.HasSuffix(kind, "link-local") {
				return kind
			}
		}
		return ""
	})), Finding{Severity: Warning, Text: "NCCL would use link-local GIDs, which reach no other subnet, and often no other node."}), f.chooseGID)
}

// chooseGID leaves the choice to NCCL where it then finds GIDs of one kind on all
// nodes.
func (f *Fleet) chooseGID() []Step {
	const name = "NCCL_IB_GID_INDEX"
	v := f.look()
	kinds := map[string]bool{}
	forced := false
	for i, n := range f.known() {
		if v.carrier[i].kind != "IB" {
			continue
		}
		_, set := n.setting(name)
		forced = forced || set
		env := func(s string) string {
			if s == name {
				return "-1"
			}
			return n.env(s)
		}
		for _, h := range v.ports[i] {
			if h.Link == "Ethernet" {
				g, _, ok := h.GID(env, n.ncclCode())
				kinds[gidKind(g)] = kinds[gidKind(g)] || !ok
			}
		}
	}
	repair := []Step{
		byHand("ask the administrator of the marked nodes to give the adapters' interfaces IPv4 addresses, from which the GIDs of RoCE v2 come"),
		toLook("which GIDs there are", "show_gids").everywhere(),
	}
	if forced && len(kinds) == 1 && !slices.Contains(slices.Collect(maps.Values(kinds)), true) {
		return or([]Step{everyRank("leave the choice to NCCL", name, "-1")}, repair...)
	}
	return repair
}

// gidKinds are version and family of the GIDs that NCCL would use, sorted.
func (n *Facts) gidKinds(ports []rdma.HCA) []string {
	var kinds []string
	for _, h := range ports {
		if h.Link != "Ethernet" {
			continue
		}
		g, _, ok := h.GID(n.env, n.ncclCode())
		if !ok {
			continue
		}
		kinds = append(kinds, gidKind(g))
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// gidKind is the version and family of a GID.
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
