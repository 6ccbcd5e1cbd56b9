package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/reach"
)

// linkRules returns I05, I06, I11 and I13: whether the chosen interfaces fit
// together.
func linkRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "I05", Name: "mtu", Severity: preflight.Warning,
			Meaning: "The interfaces that carry data have the same MTU on every node; a large write that does not arrive is an error.",
			Symptom: "Init works, and the first large transfer stalls.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("set one MTU that every switch between the nodes passes", "ip link set dev eth0 mtu 1500").Everywhere()},
			Check:   checkMTU,
		},
		{
			ID: "I06", Name: "dup-address", Severity: preflight.Error,
			Meaning: "No address, hardware address or GUID that workers use belongs to two nodes.",
			Symptom: "Connections that fail at times, data at the wrong host, `Connection reset by peer`.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the network to give every node an address of its own"),
				preflight.ToContainer.Step("give the container the machine's network instead of a private one", "--network=host").Alternative(),
			},
			Check: checkDuplicates,
		},
		{
			ID: "I11", Name: "speed", Severity: preflight.Warning,
			Meaning: "The interfaces that carry data are at most twice as fast on one node as on another.",
			Symptom: "A slow job: every collective waits for the slowest link.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the marked nodes to check the cable, the switch port and autonegotiation"),
				preflight.ToShow.Step("how fast the link is", "ethtool eth0"),
			},
			Check: checkSpeed,
		},
		{
			ID: "I13", Name: "multi-subnet", Severity: preflight.Warning,
			Meaning: "A chosen interface shares its subnet with no other interface of the node, unless ARP and reverse path filtering are set for it.",
			Symptom: "Answers leave by another interface than the requests arrived at, and are dropped.",
			Steps:   []preflight.Step{preflight.AsRoot.Step("make the kernel keep the interfaces apart", "sysctl -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2")},
			Check:   checkSameSubnet,
		},
	}
}

// usesSockets reports whether the node's data goes over sockets, as far as is
// known. Gloo uses sockets only.
func usesSockets(f *preflight.Fleet, i int) bool { return f.View().Gloo || f.UsesSockets(i) }

func checkMTU(f *preflight.Fleet) []preflight.Finding {
	if !f.View().Between() {
		return nil
	}
	values := f.Differing(func(i int, n *preflight.Facts) string {
		if !usesSockets(f, i) {
			return ""
		}
		var list []string
		for _, p := range f.DataAddresses(i) {
			if link := n.Network.Interface(p.Index); link != nil && link.MTU > 0 && p.LocalOnly() == "" { // else I01 or I07 says more
				list = append(list, fmt.Sprint(link.MTU))
			}
		}
		return strings.Join(slices.Compact(list), ", ")
	})
	f.Describe(values, func(i int) string { p, _ := f.BootstrapAddress(i); return p.String() })
	all := preflight.IfAny(values, preflight.Finding{Text: "The interfaces that carry data have different MTUs. Packets that are larger than the path allows may get lost without an error.", Steps: oneMTU(f, values)})
	all = append(all, reach.StalledPaths(f)...)
	if !f.View().NCCL {
		return all
	}
	return append(all, preflight.IfAny(f.Differing(func(i int, _ *preflight.Facts) string {
		if usesSockets(f, i) {
			return ""
		}
		var list []string
		for _, p := range f.View().Ports[i] {
			if p.MTU > 0 {
				list = append(list, fmt.Sprint(p.MTU))
			}
		}
		slices.Sort(list)
		return strings.Join(slices.Compact(list), ", ")
	}), preflight.Finding{
		Text:  "The adapters have different active MTUs.",
		Steps: []preflight.Step{preflight.ByHand.Step("ask the administrator of the fabric to set one MTU on all adapters and their switch ports")},
	})...)
}

// oneMTU returns the steps that set the MTU that most nodes have. Without a
// majority they set the smallest MTU, which every switch between the nodes
// passes.
func oneMTU(f *preflight.Fleet, values []preflight.Value) []preflight.Step {
	mtu := 0
	lower := func(i int) {
		for _, p := range f.DataAddresses(i) {
			if link := f.Nodes[i].Network.Interface(p.Index); link != nil && link.MTU > 0 && (mtu == 0 || link.MTU < mtu) {
				mtu = link.MTU
			}
		}
	}
	for k, v := range values {
		if k == 0 || !preflight.HasMajority(values) {
			lower(v.Nodes[0])
		}
	}
	return f.StepsFor(preflight.NodesOutside(values, -1), preflight.AsRoot, "set one MTU", func(i int, n *preflight.Facts) []string {
		var lines []string
		for _, p := range f.DataAddresses(i) {
			if link := n.Network.Interface(p.Index); link != nil && link.MTU > 0 && link.MTU != mtu && p.LocalOnly() == "" {
				lines = append(lines, fmt.Sprintf("ip link set dev %s mtu %d", term.Command(link.Name), mtu))
			}
		}
		return lines
	})
}

func checkDuplicates(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.Between() {
		return nil
	}
	all := preflight.IfAny(duplicates(f, v.Place, func(i int, _ *preflight.Facts) []string {
		var keys []string
		for _, p := range f.DataAddresses(i) {
			if p.LocalOnly() == "" {
				keys = append(keys, p.IP)
			}
		}
		return keys
	}), preflight.Finding{Text: "Several nodes would use the same address."})
	all = append(all, preflight.IfAny(duplicates(f, v.Place, func(i int, n *preflight.Facts) []string {
		var keys []string
		for _, p := range f.DataAddresses(i) {
			if link := n.Network.Interface(p.Index); link != nil && link.MAC != "" && link.Kind == "" && link.Device {
				keys = append(keys, link.MAC+" in "+p.Subnet())
			}
		}
		return keys
	}), preflight.Finding{
		Text:  "Several nodes have the same hardware address in one network.",
		Steps: []preflight.Step{preflight.ByHand.Step("ask the administrator of the marked machines to give each a hardware address of its own; a cloned virtual machine keeps the original's address")},
	})...)
	all = append(all, reach.DuplicateAddresses(f)...)
	return append(all, preflight.IfAny(duplicates(f, v.Machine, func(_ int, n *preflight.Facts) []string {
		var keys []string
		for _, d := range n.RDMA.Devices {
			if strings.Trim(d.GUID, "0:") != "" {
				keys = append(keys, d.Name+" "+d.GUID)
			}
		}
		return keys
	}), preflight.Finding{
		Text:  "Adapters of several machines have the same GUID.",
		Steps: []preflight.Step{preflight.ByHand.Step("ask the administrator of the marked machines to give every adapter the GUID that its vendor gave it")},
	})...)
}

// duplicates finds keys that several nodes have. Nodes with the same number in
// place may share a key.
func duplicates(f *preflight.Fleet, place []int, keys func(i int, n *preflight.Facts) []string) []preflight.Value {
	type owner struct {
		node int
		all  []int // all nodes, once there are two
	}
	owners := map[string]*owner{}
	var order []string
	for i, n := range f.Known() {
		for _, k := range keys(i, n) {
			o, ok := owners[k]
			switch {
			case !ok:
				owners[k] = &owner{node: i}
			case place[o.node] == place[i] && o.all == nil:
			case o.all == nil:
				o.all = []int{o.node, i}
				order = append(order, k)
			case o.all[len(o.all)-1] != i:
				o.all = append(o.all, i)
			}
		}
	}
	var values []preflight.Value
	for _, k := range order {
		values = append(values, preflight.Value{Value: k, Nodes: owners[k].all, Odd: true})
	}
	return f.Complete(values)
}

func checkSpeed(f *preflight.Fleet) []preflight.Finding {
	if !f.View().Between() {
		return nil
	}
	speeds := make([]int, len(f.Nodes))
	fastest := 0
	for i, n := range f.Known() {
		if !usesSockets(f, i) {
			continue
		}
		for _, p := range f.DataAddresses(i) {
			if link := n.Network.Interface(p.Index); link != nil {
				speeds[i] += max(0, link.Speed)
			}
		}
		fastest = max(fastest, speeds[i])
	}
	slow := func(i int) bool { return speeds[i] > 0 && speeds[i] < fastest/2 }
	values := f.Differing(func(i int, _ *preflight.Facts) string {
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
	f.Describe(values, func(i int) string { p, _ := f.BootstrapAddress(i); return p.String() })
	return preflight.WithSteps(preflight.IfAny(values, preflight.Finding{Text: "Some nodes are connected by much slower links than others; every collective waits for them."}), func() []preflight.Step {
		return append([]preflight.Step{preflight.ByHand.Step("ask the administrator of " + f.NamesOf(preflight.Marked(values)) + " to check the cable, the switch port and autonegotiation")},
			f.StepsFor(preflight.Marked(values), preflight.ToShow, "how fast the link is", func(i int, n *preflight.Facts) []string {
				var lines []string
				for _, p := range f.DataAddresses(i) {
					if link := n.Network.Interface(p.Index); link != nil {
						lines = append(lines, "ethtool "+term.Command(link.Name))
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

func checkSameSubnet(f *preflight.Fleet) []preflight.Finding {
	if !f.View().Between() {
		return nil
	}
	values := f.Faults(func(i int, n *preflight.Facts) string {
		w := n.Network
		if w.ARPIgnore < 0 || w.RPFilter < 0 || w.ARPIgnore > 0 && w.RPFilter != 1 {
			return ""
		}
		for _, p := range f.DataAddresses(i) {
			if other := interfaceInSubnet(n, p); other != "" {
				return fmt.Sprintf("%s and %s in %s, rp_filter %d, arp_ignore %d", p.Iface, other, p.Subnet(), w.RPFilter, w.ARPIgnore)
			}
		}
		return ""
	})
	return preflight.IfAny(values, preflight.Finding{Text: "Two interfaces of a node are in one subnet, and the kernel is not set for that: answers may leave by the other interface."})
}

// interfaceInSubnet names another interface of the node in the subnet of an
// address.
func interfaceInSubnet(n *preflight.Facts, p netif.Pick) string {
	net := p.Subnet()
	if net == "" || p.LocalOnly() != "" {
		return ""
	}
	for _, a := range n.Network.Addresses {
		other := netif.Pick{Iface: a.Label, Index: a.Index, IP: a.IP, Bits: a.Bits}
		if a.Index == p.Index || a.Bits != p.Bits || other.Subnet() != net {
			continue
		}
		if link := n.Network.Interface(other.Index); link != nil && link.Running && !link.Loopback {
			return a.Label
		}
	}
	return ""
}
