package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// choiceRules returns I01, I09, I10 and I12: which interfaces NCCL or Gloo
// takes.
func choiceRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "I01", Name: "iface-selected", Severity: preflight.Error,
			Meaning: "On every node NCCL finds an interface; between machines neither loopback nor link-local (unless all are IPv4 link-local), and of the same address family everywhere; other subnets or other numbers of interfaces are a warning.",
			Symptom: "`Bootstrap : no socket interface found`, `connect to 127.0.0.1<...>`, `fe80::...%ib0`, `Connection refused`, or a hang in init.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("let gorun name an interface of a network that all nodes share", "--iface auto").Everywhere(),
				preflight.InShell.Step("name it by hand; = makes NCCL compare the whole name", "export NCCL_SOCKET_IFNAME==eth0").Everywhere().Alternative(),
			},
			Check: checkChoice,
		},
		{
			ID: "I09", Name: "family", Severity: preflight.Error,
			Meaning: "NCCL_SOCKET_FAMILY names a family of which the chosen interfaces have an address.",
			Symptom: "`no socket interface found`.",
			Steps:   []preflight.Step{preflight.ToGorun.Step("force the family that all nodes have", "-x NCCL_SOCKET_FAMILY=AF_INET")},
			Check:   checkFamily,
		},
		{
			ID: "I10", Name: "virtual-nic", Severity: preflight.Warning,
			Meaning: "No chosen interface is a bridge of containers, a tunnel or another interface that ends on its machine.",
			Symptom: "A peer that advertises 172.17.0.1 or 172.21.0.1; connections that are refused or time out after init.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("let gorun name an interface of a network that all nodes share", "--iface auto").Everywhere(),
				preflight.ToGorun.Step("exclude interfaces that end on the machine", "-x 'NCCL_SOCKET_IFNAME=^docker,lo,br-,virbr,veth,cni,flannel,cali,tun,wg'").Alternative(),
			},
			Check: checkVirtual,
		},
		{
			ID: "I12", Name: "running", Severity: preflight.Warning,
			Meaning: "The interfaces that the user named, and the slaves of a bond, have a carrier.",
			Symptom: "Since 2.28.3 NCCL leaves the interface out without a message; before, it takes it and cannot connect.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the marked nodes to check the cable and the switch port of the interface, or leave it out with --iface"),
				preflight.ToShow.Step("which interfaces have a carrier", "ip -br link"),
			},
			Check: checkRunning,
		},
	}
}

func checkChoice(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.NCCL || v.Ranks < 2 {
		return nil
	}
	// Ranks of one machine also connect over an interface.
	all := f.WithProposal(preflight.IfAny(f.Faults(func(i int, n *preflight.Facts) string {
		c := v.Choice[i]
		if c.Unknown || len(c.Picked) > 0 || familyExcludesAll(n) {
			return ""
		}
		return "nothing: " + withConfFile(n, c.Why)
	}), preflight.Finding{Text: "NCCL would find no interface to use."}))
	if !v.Between() {
		return all
	}
	linked := f.AllLinkLocal(func(i int) string { p, _ := f.BootstrapAddress(i); return p.IP })
	all = append(all, f.WithProposal(preflight.IfAny(f.Faults(func(i int, n *preflight.Facts) string {
		if p, ok := f.BootstrapAddress(i); ok && p.LocalOnly() != "" && !linked {
			return fmt.Sprintf("%s (%s): %s", p.String(), p.LocalOnly(), withConfFile(n, v.Choice[i].Why))
		}
		return ""
	}), preflight.Finding{Text: "NCCL would use an address that the other nodes cannot reach."}))...)
	if len(all) > 0 {
		return all
	}
	values := f.Differing(func(i int, _ *preflight.Facts) string {
		p, ok := f.BootstrapAddress(i)
		ip, err := netip.ParseAddr(p.IP)
		switch {
		case !ok || err != nil:
			return ""
		case ip.Is4():
			return "IPv4"
		default:
			return "IPv6"
		}
	})
	if values != nil {
		f.Describe(values, func(i int) string { return describeBootstrap(f, i) })
		return f.WithProposal(preflight.IfAny(values, preflight.Finding{Text: "NCCL would use IPv4 on some nodes and IPv6 on others."}))
	}
	return append(checkSubnets(f), checkInterfaceCounts(f)...)
}

// checkSubnets warns if the nodes' first addresses are in several networks,
// unless probes have shown that the networks reach each other.
func checkSubnets(f *preflight.Fleet) []preflight.Finding {
	if tried, bad := wasProbed(f, preflight.UseBootstrap); tried && !bad {
		return nil
	}
	values := f.Differing(func(i int, _ *preflight.Facts) string {
		if p, ok := f.BootstrapAddress(i); ok {
			return p.Subnet()
		}
		return ""
	})
	f.Describe(values, func(i int) string { return describeBootstrap(f, i) })
	return f.WithProposal(preflight.IfAny(values, preflight.Finding{
		Severity: preflight.Warning,
		Text:     "NCCL would use addresses of different networks; unless there is a route in both directions and no firewall on it, the ranks cannot connect.",
	}))
}

// checkInterfaceCounts warns if nodes have different numbers of interfaces that
// carry data.
func checkInterfaceCounts(f *preflight.Fleet) []preflight.Finding {
	values := f.Differing(func(i int, _ *preflight.Facts) string {
		picks := f.DataAddresses(i)
		if len(picks) == 0 || !f.UsesSockets(i) {
			return ""
		}
		return preflight.Plural(len(picks), "interface")
	})
	f.Describe(values, func(i int) string {
		var list []string
		for _, p := range f.DataAddresses(i) {
			list = append(list, p.String())
		}
		return strings.Join(list, ", ") + describeConfFile(&f.Nodes[i])
	})
	return f.WithProposal(preflight.IfAny(values, preflight.Finding{
		Severity: preflight.Warning,
		Text:     "NCCL would send data over different numbers of interfaces; each is a network device to NCCL, and the devices of the other nodes must reach it.",
	}))
}

// describeBootstrap returns the address of a node's bootstrap.
func describeBootstrap(f *preflight.Fleet, i int) string {
	p, _ := f.BootstrapAddress(i)
	return p.String() + describeConfFile(&f.Nodes[i])
}

// withConfFile adds where the user's variable is set to the reason of a choice,
// unless it is set in the environment.
func withConfFile(n *preflight.Facts, why string) string {
	const name = "NCCL_SOCKET_IFNAME"
	from := confFile(n, name)
	setting := name + "=" + n.Env(name)
	if from == "" || !strings.Contains(why, setting) {
		return why
	}
	return strings.Replace(why, setting, setting+" ("+from+")", 1)
}

// describeConfFile says where the user's variable is set, "" for the
// environment.
func describeConfFile(n *preflight.Facts) string {
	const name = "NCCL_SOCKET_IFNAME"
	if confFile(n, name) == "" {
		return ""
	}
	return "; " + withConfFile(n, name+"="+n.Env(name))
}

// wasProbed reports whether addresses of this use were probed, and whether a
// probe failed.
func wasProbed(f *preflight.Fleet, use preflight.Use) (tried, bad bool) {
	for _, p := range f.Probes {
		if p.Use == use {
			tried = true
			bad = bad || p.Result.Failed()
		}
	}
	return tried, bad
}

// familyExcludesAll reports whether NCCL finds no interface because of
// NCCL_SOCKET_FAMILY.
func familyExcludesAll(n *preflight.Facts) bool {
	if n.Env("NCCL_SOCKET_FAMILY") == "" {
		return false
	}
	if c := netif.NCCL(n.Network, n.Env, n.NCCLCode()); c.Unknown || len(c.Picked) > 0 {
		return false
	}
	return len(netif.NCCL(n.Network, n.EnvWith("NCCL_SOCKET_FAMILY", ""), n.NCCLCode()).Picked) > 0
}

func checkFamily(f *preflight.Fleet) []preflight.Finding {
	if v := f.View(); !v.NCCL || !v.Between() {
		return nil
	}
	values := f.Faults(func(_ int, n *preflight.Facts) string {
		if !familyExcludesAll(n) {
			return ""
		}
		return netif.NCCL(n.Network, n.Env, n.NCCLCode()).Why
	})
	return preflight.IfAny(values, preflight.Finding{Text: "NCCL_SOCKET_FAMILY forces a family of which the interfaces have no address.", Steps: commonFamily(f)})
}

// commonFamily returns the step that forces the address family that every node
// has.
func commonFamily(f *preflight.Fleet) []preflight.Step {
	for _, family := range []string{"AF_INET", "AF_INET6"} {
		all := true
		for _, n := range f.Known() {
			all = all && len(netif.NCCL(n.Network, n.EnvWith("NCCL_SOCKET_FAMILY", family), n.NCCLCode()).Picked) > 0
		}
		if all {
			return []preflight.Step{preflight.EveryRank("force the family that all nodes have", "NCCL_SOCKET_FAMILY", family)}
		}
	}
	return []preflight.Step{preflight.ByHand.Step("ask the administrator of the network to give the interfaces of all nodes addresses of one family")}
}

func checkVirtual(f *preflight.Fleet) []preflight.Finding {
	if !f.View().Between() {
		return nil
	}
	values := f.Faults(func(i int, n *preflight.Facts) string {
		for _, p := range f.DataAddresses(i) {
			link := n.Network.Interface(p.Index)
			if link == nil || p.LocalOnly() != "" {
				continue
			}
			if what := n.Network.Virtual(*link); what != "" && what != "loopback" {
				return fmt.Sprintf("%s (%s)", p.Iface, what)
			}
		}
		return ""
	})
	return preflight.IfAny(values, preflight.Finding{Text: "The workers would use an interface that ends on its machine, or a tunnel.", Steps: directInterfaces(f, values)})
}

// directInterfaces proposes interfaces that are neither bridges nor tunnels, if
// all nodes have such interfaces.
func directInterfaces(f *preflight.Fleet, values []preflight.Value) []preflight.Step {
	if len(values) == 0 {
		return nil
	}
	p, ranks := f.SuggestNetwork()
	for k, pick := range p.Nodes {
		n := &f.Nodes[ranks[k]]
		if link := n.Network.Interface(pick.Pick.Index); pick.Iface != "" && link != nil && n.Network.Virtual(*link) != "" {
			return []preflight.Step{preflight.ByHand.Step("ask the administrator of the network to connect the nodes directly: the only network that all share is over this interface")}
		}
	}
	return f.Proposal()
}

func checkRunning(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.Between() {
		return nil
	}
	named := f.Faults(func(i int, n *preflight.Facts) string {
		for _, name := range v.Choice[i].Down {
			if link := n.Network.Named(name); link != nil && n.Network.Virtual(*link) == "" {
				return name + " has no carrier"
			}
		}
		return ""
	})
	slaves := f.Faults(func(i int, n *preflight.Facts) string {
		for _, p := range v.Choice[i].Picked {
			if slave := slaveWithoutCarrier(n, p); slave != "" {
				return p.Iface + ": its slave " + slave + " has no carrier"
			}
		}
		return ""
	})
	show := preflight.ToShow.Step("which interfaces have a carrier", "ip -br link")
	repair := func(values []preflight.Value) preflight.Step {
		return preflight.ByHand.Step("ask the administrator of " + f.NamesOf(preflight.Marked(values)) + " to check the cable, the transceiver and the switch port")
	}
	all := preflight.WithSteps(preflight.IfAny(named, preflight.Finding{Text: "An interface that the user named has no carrier."}), func() []preflight.Step {
		return preflight.Either([]preflight.Step{repair(named), show}, f.Proposal()...)
	})
	return append(all, preflight.IfAny(slaves, preflight.Finding{Text: "A slave of a bond has no carrier; the bond is slower, or has no reserve.", Steps: []preflight.Step{repair(slaves), show}})...)
}

// ifaceRules returns I14: whether --iface fits every node.
func ifaceRules() []preflight.Rule {
	return []preflight.Rule{{
		ID: "I14", Name: "iface-asked", Severity: preflight.Error,
		Meaning: "What --iface names exists on every node: the interface, an address in the network, or with auto a network that all nodes share.",
		Symptom: "Nothing else: only gorun reads --iface.",
		Steps: []preflight.Step{
			preflight.ToGorun.Step("let gorun find a network that every node has", "--iface auto").Everywhere(),
			preflight.ByHand.Step("start gorun without --iface").Alternative(),
			preflight.ToShow.Step("what each node has", "ip -br addr").Everywhere(),
		},
		Check: checkIface,
	}}
}

func checkIface(f *preflight.Fleet) []preflight.Finding {
	values := f.Collect(func(_ int, n *preflight.Facts, add func(string)) {
		for _, u := range n.Unknown {
			if u.Source == preflight.IfaceSource {
				add(u.Why)
			}
		}
	})
	switch {
	case f.IfaceError != "":
		return []preflight.Finding{{Text: "--iface auto finds no choice that all nodes share: " + f.IfaceError + ".", Values: values, Steps: otherNetwork(f)}}
	case len(values) > 0:
		return []preflight.Finding{{Text: "--iface does not fit every node.", Values: values, Steps: otherNetwork(f)}}
	}
	return nil
}

// ignoresIface reports whether --iface set the variables of other nodes but not
// of this node.
func ignoresIface(n *preflight.Facts) bool {
	return slices.ContainsFunc(n.Unknown, func(u preflight.Unknown) bool { return u.Source == preflight.IfaceSource })
}

// otherNetwork returns the step that names a network that every node has, if
// there is one.
func otherNetwork(f *preflight.Fleet) []preflight.Step {
	steps := f.Proposal()
	if len(steps) == 0 {
		return nil
	}
	return preflight.Either(steps[:1:1], preflight.ByHand.Step("start gorun without --iface"), preflight.ToShow.Step("what each node has", "ip -br addr").Everywhere())
}

// slaveWithoutCarrier names a slave of a bond that has no carrier.
func slaveWithoutCarrier(n *preflight.Facts, p netif.Pick) string {
	link := n.Network.Interface(p.Index)
	if link == nil || link.Kind != "bond" && link.Kind != "team" {
		return ""
	}
	for _, name := range link.Slaves {
		if slave := n.Network.Named(name); slave != nil && !slave.Running {
			return name
		}
	}
	return ""
}
