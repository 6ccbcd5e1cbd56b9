package preflight

import (
	"fmt"
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
			Fix:     "repair the ports that are down, or use the same number everywhere:\n  ibstat\n  export NCCL_IB_HCA==mlx5_0,mlx5_1",
			Check:   checkAdapters,
		},
		{
			ID: "N04", Name: "roce-gid", Severity: Error,
			Meaning: "On RoCE the entry of the address table (GID) that NCCL uses exists, and is of the same version and family on every node; a link-local one is a warning.",
			Users:   "`Call to ibv_modify_qp failed with 22 Invalid argument`, `status=IBV_WC_RETRY_EXC_ERR(12)`.",
			Fix:     "leave the choice to NCCL (2.21 or newer), or set the index of RoCE v2 with the node's IPv4 address on each node:\n  unset NCCL_IB_GID_INDEX\n  show_gids",
			Check:   checkGIDs,
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

	return append(all, one(f.differ(f.byIB(func(_ *Facts, ports []rdma.HCA) string {
		var list []string
		for _, h := range ports {
			list = append(list, h.Rate)
		}
		slices.Sort(list)
		return strings.Trim(strings.Join(slices.Compact(list), " and "), " ")
	})), Finding{Severity: Warning, Text: "The adapters run at different rates; every collective waits for the slowest."})...)
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
		return all
	}
	return one(f.faults(f.byIB(func(n *Facts, ports []rdma.HCA) string {
		for _, kind := range n.gidKinds(ports) {
			if strings.HasSuffix(kind, "link-local") {
				return kind
			}
		}
		return ""
	})), Finding{Severity: Warning, Text: "NCCL would use link-local GIDs, which reach no other subnet, and often no other node."})
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
		family := "IPv6"
		if ip, err := netip.ParseAddr(g.GID); err == nil {
			switch ip = ip.Unmap(); {
			case ip.IsLinkLocalUnicast():
				family = "link-local"
			case ip.Is4():
				family = "IPv4"
			}
		}
		kinds = append(kinds, g.Type+" "+family)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
