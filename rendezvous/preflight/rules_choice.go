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
			Fix:     "name the interface of a network that all nodes share; = compares the whole name:\n  export NCCL_SOCKET_IFNAME==eth0",
			Check:   checkChoice,
		},
		{
			ID: "I09", Name: "family", Severity: Error,
			Meaning: "NCCL_SOCKET_FAMILY names a family of which the chosen interfaces have an address.",
			Users:   "`no socket interface found`.",
			Fix:     "leave NCCL_SOCKET_FAMILY unset, or set it to the family that the nodes have:\n  unset NCCL_SOCKET_FAMILY",
			Check:   checkFamily,
		},
		{
			ID: "I10", Name: "virtual-nic", Severity: Warning,
			Meaning: "No chosen interface is a bridge of containers, a tunnel or the like, which ends on its machine.",
			Users:   "A peer that advertises 172.17.0.1 or 172.21.0.1; connections that are refused or time out after init.",
			Fix:     "exclude what ends on the machine, or name the right interface:\n  export NCCL_SOCKET_IFNAME=^docker,lo,br-,virbr,veth,cni,flannel,cali,tun,wg",
			Check:   checkVirtual,
		},
		{
			ID: "I12", Name: "running", Severity: Warning,
			Meaning: "The interfaces that were asked for, and the slaves of a bond, have a carrier.",
			Users:   "From 2.28.3 on NCCL leaves the interface out without a word; before, it takes it and cannot connect.",
			Fix:     "look at the cable or the switch port, or name an interface that works:\n  ip -br link",
			Check:   checkRunning,
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
	return one(values, Finding{Text: "NCCL_SOCKET_FAMILY forces a family of which the interfaces have no address."})
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
	return f.proposed(one(values, Finding{Text: "The workers would use an interface that ends on its own machine, or a tunnel."}))
}

func checkRunning(f *Fleet) []Finding {
	v := f.look()
	if !v.between() {
		return nil
	}
	values := f.faults(func(i int, n *Facts) string {
		for _, name := range v.choice[i].Down {
			if link := n.named(name); link != nil && n.Network.Virtual(*link) == "" {
				return name + " has no carrier"
			}
		}
		for _, p := range v.choice[i].Picked {
			if slave := n.deadSlave(p); slave != "" {
				return p.Iface + ": its slave " + slave + " has no carrier"
			}
		}
		return ""
	})
	return one(values, Finding{Text: "An interface that the workers would use has no carrier."})
}
