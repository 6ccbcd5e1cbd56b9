package preflight

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// choiceRules are I01, I09, I10 and I12: which interfaces NCCL or Gloo takes.
func choiceRules() []Rule {
	return []Rule{
		{
			ID: "I01", Name: "iface-selected", Severity: Error,
			Meaning: "On every node NCCL finds an interface; between machines neither loopback nor link-local (unless all are IPv4 link-local), and of the same address family everywhere; other subnets or other numbers of interfaces are a warning.",
			Users:   "`Bootstrap : no socket interface found`, `connect to 127.0.0.1<...>`, `fe80::...%ib0`, `Connection refused`, or a hang in init.",
			Steps: []Step{
				toGorun("let gorun name an interface of a network that all nodes share", "--iface auto").everywhere(),
				inShell("name it by hand; = compares the whole name", "export NCCL_SOCKET_IFNAME==eth0").everywhere().or(),
			},
			Check: checkChoice,
		},
		{
			ID: "I09", Name: "family", Severity: Error,
			Meaning: "NCCL_SOCKET_FAMILY names a family of which the chosen interfaces have an address.",
			Users:   "`no socket interface found`.",
			Steps:   []Step{toGorun("force the family that all nodes have", "-x NCCL_SOCKET_FAMILY=AF_INET")},
			Check:   checkFamily,
		},
		{
			ID: "I10", Name: "virtual-nic", Severity: Warning,
			Meaning: "No chosen interface is a bridge of containers, a tunnel or the like, which ends on its machine.",
			Users:   "A peer that advertises 172.17.0.1 or 172.21.0.1; connections that are refused or time out after init.",
			Steps: []Step{
				toGorun("let gorun name an interface of a network that all nodes share", "--iface auto").everywhere(),
				toGorun("exclude what ends on the machine", "-x '"+"NCCL_SOCKET_IFNAME=^docker,lo,br-,virbr,veth,cni,flannel,cali,tun,wg'").or(),
			},
			Check: checkVirtual,
		},
		{
			ID: "I12", Name: "running", Severity: Warning,
			Meaning: "The interfaces that were asked for, and the slaves of a bond, have a carrier.",
			Users:   "From 2.28.3 on NCCL leaves the interface out without a word; before, it takes it and cannot connect.",
			Steps: []Step{
				byHand("ask the administrator of the marked nodes to look at the cable and the switch port of the interface, or leave it out with --iface"),
				toLook("which interfaces have a carrier", "ip -br link"),
			},
			Check: checkRunning,
		},
	}
}

func checkChoice(f *Fleet) []Finding {
	v := f.look()
	if !v.nccl || v.ranks < 2 {
		return nil
	}
	// Ranks of one machine meet over an interface, too.
	all := f.proposed(one(f.faults(func(i int, n *Facts) string {
		c := v.choice[i]
		if c.Unknown || len(c.Picked) > 0 || familyTakesAll(n) {
			return ""
		}
		return "nothing: " + n.because(c.Why)
	}), Finding{Text: "NCCL would find no interface to use."}))
	if !v.between() {
		return all
	}
	linked := f.linked(func(i int) string { p, _ := f.lead(i); return p.IP })
	all = append(all, f.proposed(one(f.faults(func(i int, n *Facts) string {
		if p, ok := f.lead(i); ok && local(p) != "" && !linked {
			return fmt.Sprintf("%s (%s): %s", show(p), local(p), n.because(v.choice[i].Why))
		}
		return ""
	}), Finding{Text: "NCCL would use an address that the other nodes cannot reach."}))...)
	if len(all) > 0 {
		return all
	}
	values := f.differ(func(i int, _ *Facts) string {
		p, ok := f.lead(i)
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
		f.describe(values, f.showLead)
		return f.proposed(one(values, Finding{Text: "NCCL would use IPv4 on some nodes and IPv6 on others."}))
	}
	return append(f.subnets(), f.widths()...)
}

// subnets warns of first addresses in several networks, unless probes have
// shown that there is a way between them.
func (f *Fleet) subnets() []Finding {
	if tried, bad := f.probed(UseBootstrap); tried && !bad {
		return nil
	}
	values := f.differ(func(i int, _ *Facts) string {
		if p, ok := f.lead(i); ok {
			return subnet(p)
		}
		return ""
	})
	f.describe(values, f.showLead)
	return f.proposed(one(values, Finding{
		Severity: Warning,
		Text:     "NCCL would use addresses of different networks; unless there is a route in both directions and no firewall on it, the ranks cannot connect.",
	}))
}

// widths warns when nodes have different numbers of interfaces that carry data.
func (f *Fleet) widths() []Finding {
	values := f.differ(func(i int, _ *Facts) string {
		picks := f.carrying(i)
		if len(picks) == 0 || !f.sockets(i) {
			return ""
		}
		return plural(len(picks), "interface")
	})
	f.describe(values, func(i int) string {
		var list []string
		for _, p := range f.carrying(i) {
			list = append(list, show(p))
		}
		return strings.Join(list, ", ") + f.Nodes[i].wish()
	})
	return f.proposed(one(values, Finding{
		Severity: Warning,
		Text:     "NCCL would send data over different numbers of interfaces; each is a network device to it, and must be reachable from the others' devices.",
	}))
}

// showLead is the address of a node's bootstrap.
func (f *Fleet) showLead(i int) string {
	p, _ := f.lead(i)
	return show(p) + f.Nodes[i].wish()
}

// because says, in the reason for a choice, where the user's wish is from, when
// no environment shows it.
func (n *Facts) because(why string) string {
	const name = "NCCL_SOCKET_IFNAME"
	from := n.origin(name)
	wish := name + "=" + n.env(name)
	if from == "" || !strings.Contains(why, wish) {
		return why
	}
	return strings.Replace(why, wish, wish+" ("+from+")", 1)
}

// wish is because where nothing else tells of the wish.
func (n *Facts) wish() string {
	const name = "NCCL_SOCKET_IFNAME"
	if n.origin(name) == "" {
		return ""
	}
	return "; " + n.because(name+"="+n.env(name))
}

// probed says whether addresses of this use were tried, and whether one failed.
func (f *Fleet) probed(use Use) (tried, bad bool) {
	for _, p := range f.Probes {
		if p.Use == use {
			tried = true
			bad = bad || failed(p.Result)
		}
	}
	return tried, bad
}

// familyTakesAll reports whether NCCL would find an interface if it were not
// for NCCL_SOCKET_FAMILY.
func familyTakesAll(n *Facts) bool {
	if n.env("NCCL_SOCKET_FAMILY") == "" {
		return false
	}
	if c := netif.NCCL(n.Network, n.env, n.ncclCode()); c.Unknown || len(c.Picked) > 0 {
		return false
	}
	free := func(name string) string {
		if name == "NCCL_SOCKET_FAMILY" {
			return ""
		}
		return n.env(name)
	}
	return len(netif.NCCL(n.Network, free, n.ncclCode()).Picked) > 0
}

func checkFamily(f *Fleet) []Finding {
	if v := f.look(); !v.nccl || !v.between() {
		return nil
	}
	values := f.faults(func(_ int, n *Facts) string {
		if !familyTakesAll(n) {
			return ""
		}
		return netif.NCCL(n.Network, n.env, n.ncclCode()).Why
	})
	return one(values, Finding{Text: "NCCL_SOCKET_FAMILY forces a family of which the interfaces have no address.", Steps: f.haveFamily()})
}

// haveFamily forces the family of which every node has an address.
func (f *Fleet) haveFamily() []Step {
	for _, family := range []string{"AF_INET", "AF_INET6"} {
		all := true
		for _, n := range f.known() {
			env := func(name string) string {
				if name == "NCCL_SOCKET_FAMILY" {
					return family
				}
				return n.env(name)
			}
			all = all && len(netif.NCCL(n.Network, env, n.ncclCode()).Picked) > 0
		}
		if all {
			return []Step{everyRank("force the family that all nodes have", "NCCL_SOCKET_FAMILY", family)}
		}
	}
	return []Step{byHand("ask the administrator of the network to give the interfaces of all nodes addresses of one family")}
}

func checkVirtual(f *Fleet) []Finding {
	if !f.look().between() {
		return nil
	}
	values := f.faults(func(i int, n *Facts) string {
		for _, p := range f.carrying(i) {
			link := n.link(p)
			if link == nil || local(p) != "" {
				continue
			}
			if what := n.Network.Virtual(*link); what != "" && what != "loopback" {
				return fmt.Sprintf("%s (%s)", p.Iface, what)
			}
		}
		return ""
	})
	return one(values, Finding{Text: "The workers would use an interface that ends on its own machine, or a tunnel.", Steps: f.real(values)})
}

// real proposes interfaces that are neither bridges nor tunnels, where all nodes
// have such.
func (f *Fleet) real(values []Value) []Step {
	if len(values) == 0 {
		return nil
	}
	p, ranks := f.suggest()
	for k, pick := range p.Nodes {
		n := &f.Nodes[ranks[k]]
		if link := n.link(pick.Pick); pick.Iface != "" && link != nil && n.Network.Virtual(*link) != "" {
			return []Step{byHand("ask the administrator of the network to connect the nodes directly: the only network that all share is over this interface")}
		}
	}
	return f.proposal()
}

func checkRunning(f *Fleet) []Finding {
	v := f.look()
	if !v.between() {
		return nil
	}
	named := f.faults(func(i int, n *Facts) string {
		for _, name := range v.choice[i].Down {
			if link := n.named(name); link != nil && n.Network.Virtual(*link) == "" {
				return name + " has no carrier"
			}
		}
		return ""
	})
	slaves := f.faults(func(i int, n *Facts) string {
		for _, p := range v.choice[i].Picked {
			if slave := n.deadSlave(p); slave != "" {
				return p.Iface + ": its slave " + slave + " has no carrier"
			}
		}
		return ""
	})
	look := toLook("which interfaces have a carrier", "ip -br link")
	repair := func(values []Value) Step {
		return byHand("ask the administrator of " + f.called(marked(values)) + " to look at the cable, the transceiver and the switch port")
	}
	all := advised(one(named, Finding{Text: "An interface that was asked for has no carrier."}), func() []Step {
		return or([]Step{repair(named), look}, f.proposal()...)
	})
	return append(all, one(slaves, Finding{Text: "A part of a bond has no carrier; the bond is slower, or in danger, without it.", Steps: []Step{repair(slaves), look}})...)
}
