package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// linkRules are I05, I06, I11 and I13: whether the chosen interfaces fit together.
func linkRules() []Rule {
	return []Rule{
		{
			ID: "I05", Name: "mtu", Severity: Warning,
			Meaning: "The interfaces that carry data have the same MTU on every node; a large write that does not arrive is an error.",
			Users:   "Init works, and the first large transfer stalls.",
			Steps:   []Step{asRoot("set one MTU, which every switch between the nodes passes", "ip link set dev eth0 mtu 1500").everywhere()},
			Check:   checkMTU,
		},
		{
			ID: "I06", Name: "dup-address", Severity: Error,
			Meaning: "No address, hardware address or GUID that workers use belongs to two nodes.",
			Users:   "Connections that come and go, data at the wrong host, `Connection reset by peer`.",
			Steps: []Step{
				byHand("ask the administrator of the network to give every node an address of its own"),
				toContainer("a container needs the machine's network instead of a bridge's private one", "--network=host").or(),
			},
			Check: checkDuplicates,
		},
		{
			ID: "I11", Name: "speed", Severity: Warning,
			Meaning: "The interfaces that carry data are at most twice as fast on one node as on another.",
			Users:   "A slow job: every collective waits for the slowest link.",
			Steps: []Step{
				byHand("ask the administrator of the marked nodes to look at the cable, the switch port and autonegotiation"),
				toLook("how fast the link is", "ethtool eth0"),
			},
			Check: checkSpeed,
		},
		{
			ID: "I13", Name: "multi-subnet", Severity: Warning,
			Meaning: "A chosen interface shares its subnet with no other interface of the node, unless ARP and reverse path filtering are set for it.",
			Users:   "Answers leave by another interface than requests came in by, and are dropped.",
			Steps:   []Step{asRoot("have the kernel keep the interfaces apart", "sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2")},
			Check:   checkSameSubnet,
		},
	}
}

// bySockets reports whether the node's data goes over sockets as far as is
// known: Gloo's always does.
func (f *Fleet) bySockets(i int) bool { return f.look().gloo || f.sockets(i) }

func checkMTU(f *Fleet) []Finding {
	if !f.look().between() {
		return nil
	}
	values := f.differ(func(i int, n *Facts) string {
		if !f.bySockets(i) {
			return ""
		}
		var list []string
		for _, p := range f.carrying(i) {
			if link := n.link(p); link != nil && link.MTU > 0 && local(p) == "" { // else I01 or I07 says more
				list = append(list, fmt.Sprint(link.MTU))
			}
		}
		return strings.Join(slices.Compact(list), ", ")
	})
	f.describe(values, func(i int) string { p, _ := f.lead(i); return show(p) })
	all := one(values, Finding{Text: "The interfaces that carry data have different MTUs. A larger packet than the path takes may vanish without a word.", Steps: f.oneMTU(values)})
	all = append(all, f.stalls()...)
	if !f.look().nccl {
		return all
	}
	return append(all, one(f.differ(func(i int, _ *Facts) string {
		if f.bySockets(i) {
			return ""
		}
		var list []string
		for _, p := range f.look().ports[i] {
			if p.MTU > 0 {
				list = append(list, fmt.Sprint(p.MTU))
			}
		}
		slices.Sort(list)
		return strings.Join(slices.Compact(list), ", ")
	}), Finding{
		Text:  "The adapters have different active MTUs.",
		Steps: []Step{byHand("ask the administrator of the fabric to set one MTU on all adapters and their switch ports")},
	})...)
}

// oneMTU sets the MTU that most nodes have; where no more have it than another,
// the smallest, which every switch between them passes.
func (f *Fleet) oneMTU(values []Value) []Step {
	mtu := 0
	take := func(i int) {
		for _, p := range f.carrying(i) {
			if link := f.Nodes[i].link(p); link != nil && link.MTU > 0 && (mtu == 0 || link.MTU < mtu) {
				mtu = link.MTU
			}
		}
	}
	for k, v := range values {
		if k == 0 || !majority(values) {
			take(v.Nodes[0])
		}
	}
	return f.each(others(values, -1), asRoot, "set one MTU", func(i int, n *Facts) []string {
		var lines []string
		for _, p := range f.carrying(i) {
			if link := n.link(p); link != nil && link.MTU > 0 && link.MTU != mtu && local(p) == "" {
				lines = append(lines, fmt.Sprintf("ip link set dev %s mtu %d", quote(link.Name), mtu))
			}
		}
		return lines
	})
}

func checkDuplicates(f *Fleet) []Finding {
	v := f.look()
	if !v.between() {
		return nil
	}
	all := one(f.twice(v.place, func(i int, _ *Facts) []string {
		var keys []string
		for _, p := range f.carrying(i) {
			if local(p) == "" {
				keys = append(keys, p.IP)
			}
		}
		return keys
	}), Finding{Text: "Several nodes would use the same address."})
	all = append(all, one(f.twice(v.place, func(i int, n *Facts) []string {
		var keys []string
		for _, p := range f.carrying(i) {
			if link := n.link(p); link != nil && link.MAC != "" && link.Kind == "" && link.Device {
				keys = append(keys, link.MAC+" in "+subnet(p))
			}
		}
		return keys
	}), Finding{
		Text:  "Several nodes have the same hardware address in one network.",
		Steps: []Step{byHand("ask the administrator of the marked machines to give each a hardware address of its own; a cloned virtual machine keeps its original's")},
	})...)
	all = append(all, f.impostors()...)
	return append(all, one(f.twice(v.machine, func(_ int, n *Facts) []string {
		var keys []string
		for _, d := range n.RDMA.Devices {
			if strings.Trim(d.GUID, "0:") != "" {
				keys = append(keys, d.Name+" "+d.GUID)
			}
		}
		return keys
	}), Finding{
		Text:  "Adapters of several machines have the same GUID.",
		Steps: []Step{byHand("ask the administrator of the marked machines to give every adapter the GUID that its vendor gave it")},
	})...)
}

// twice finds what nodes that are apart have in common: where numbers what the
// nodes that may share it have the same number of.
func (f *Fleet) twice(where []int, keys func(i int, n *Facts) []string) []Value {
	type owner struct {
		node int
		many []int // all of them, once there are two
	}
	owners := map[string]*owner{}
	var order []string
	for i, n := range f.known() {
		for _, k := range keys(i, n) {
			o, ok := owners[k]
			switch {
			case !ok:
				owners[k] = &owner{node: i}
			case where[o.node] == where[i] && o.many == nil:
			case o.many == nil:
				o.many = []int{o.node, i}
				order = append(order, k)
			case o.many[len(o.many)-1] != i:
				o.many = append(o.many, i)
			}
		}
	}
	var values []Value
	for _, k := range order {
		values = append(values, Value{Value: k, Nodes: owners[k].many, Odd: true})
	}
	return f.finish(values)
}

func checkSpeed(f *Fleet) []Finding {
	if !f.look().between() {
		return nil
	}
	speeds := make([]int, len(f.Nodes))
	fastest := 0
	for i, n := range f.known() {
		if !f.bySockets(i) {
			continue
		}
		for _, p := range f.carrying(i) {
			if link := n.link(p); link != nil {
				speeds[i] += max(0, link.Speed)
			}
		}
		fastest = max(fastest, speeds[i])
	}
	slow := func(i int) bool { return speeds[i] > 0 && speeds[i] < fastest/2 }
	values := f.differ(func(i int, _ *Facts) string {
		switch {
		case speeds[i] <= 0:
			return ""
		case slow(i):
			return gigabits(speeds[i])
		default:
			return "at least " + gigabits((fastest+1)/2)
		}
	})
	for i := range values {
		values[i].Odd = slow(values[i].Nodes[0])
	}
	f.describe(values, func(i int) string { p, _ := f.lead(i); return show(p) })
	return advised(one(values, Finding{Text: "Some nodes are connected by much slower links than others; every collective waits for them."}), func() []Step {
		return append([]Step{byHand("ask the administrator of " + f.called(marked(values)) + " to look at the cable, the switch port and autonegotiation")},
			f.each(marked(values), toLook, "how fast the link is", func(i int, n *Facts) []string {
				var lines []string
				for _, p := range f.carrying(i) {
					if link := n.link(p); link != nil {
						lines = append(lines, "ethtool "+quote(link.Name))
					}
				}
				return lines
			})...)
	})
}

func gigabits(mbit int) string {
	if mbit < 1000 {
		return fmt.Sprintf("%d Mbit/s", mbit)
	}
	return fmt.Sprintf("%g Gbit/s", float64(mbit)/1000)
}

func checkSameSubnet(f *Fleet) []Finding {
	if !f.look().between() {
		return nil
	}
	values := f.faults(func(i int, n *Facts) string {
		w := n.Network
		if w.ARPIgnore < 0 || w.RPFilter < 0 || w.ARPIgnore > 0 && w.RPFilter != 1 {
			return ""
		}
		for _, p := range f.carrying(i) {
			if other := n.neighbour(p); other != "" {
				return fmt.Sprintf("%s and %s in %s, rp_filter %d, arp_ignore %d", p.Iface, other, subnet(p), w.RPFilter, w.ARPIgnore)
			}
		}
		return ""
	})
	return one(values, Finding{Text: "Two interfaces of a node are in one subnet, and the kernel is not set for it: answers may leave by the other one."})
}

// neighbour names another interface of the node in the subnet of an address.
func (n *Facts) neighbour(p netif.Pick) string {
	net := subnet(p)
	if net == "" || local(p) != "" {
		return ""
	}
	for _, a := range n.Network.Addresses {
		other := netif.Pick{Iface: a.Label, Index: a.Index, IP: a.IP, Bits: a.Bits}
		if a.Index == p.Index || a.Bits != p.Bits || subnet(other) != net {
			continue
		}
		if link := n.link(other); link != nil && link.Running && !link.Loopback {
			return a.Label
		}
	}
	return ""
}
