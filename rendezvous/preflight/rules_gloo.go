package preflight

import "strings"

// glooRules are I07 and I08: what torch's Gloo takes.
func glooRules() []Rule {
	return []Rule{
		{
			ID: "I07", Name: "gloo-hostname", Severity: Error,
			Meaning: "Where GLOO_SOCKET_IFNAME is not set, the node's host name resolves to an address of the node that others can reach; a name server that does not answer is a warning.",
			Users:   "`Gloo connectFullMesh failed with ...`, `connect [127.0.1.1]:...: Connection refused`.",
			Steps: []Step{
				toGorun("let gorun name an interface of a network that all nodes share", "--iface auto").everywhere(),
				byHand("ask the administrator of the marked nodes to have the host name resolve to the node's own address instead of 127.0.1.1 in /etc/hosts").or(),
			},
			Check: checkGlooHostname,
		},
		{
			ID: "I08", Name: "gloo-exact", Severity: Error,
			Meaning: "GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME hold full names of interfaces of the node, and GLOO_SOCKET_IFNAME as many on every node.",
			Users:   "`Unable to find address for: eth`.",
			Steps: []Step{
				toGorun("let gorun give Gloo and TensorPipe the one full name that they need on each node", "--iface auto").everywhere(),
				inShell("write it in full, without the prefixes, ^ and = that NCCL has", "export GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth0").or(),
			},
			Check: checkGlooExact,
		},
	}
}

func checkGlooHostname(f *Fleet) []Finding {
	v := f.look()
	if !v.gloo || !v.between() {
		return nil
	}
	linked := f.linked(func(i int) string { p, _ := f.lead(i); return p.IP })
	values := f.faults(func(i int, n *Facts) string {
		c := v.choice[i]
		if c.Unknown || linked || n.Libraries.Torch == "" || n.env("GLOO_SOCKET_IFNAME") != "" {
			return ""
		}
		if len(c.Picked) == 0 {
			return c.Why
		}
		if what := local(c.Picked[0]); what != "" {
			return c.Picked[0].IP + " (" + what + "): " + c.Why
		}
		return ""
	})
	silent := f.faults(func(i int, n *Facts) string {
		if !v.choice[i].Unknown || !n.Network.HostSilent || n.Libraries.Torch == "" || n.env("GLOO_SOCKET_IFNAME") != "" {
			return ""
		}
		return "host name " + n.Network.Host + ": " + n.Network.HostError
	})
	return f.proposed(append(one(values, Finding{Text: "Gloo would use an address that the other nodes cannot reach."}), one(silent, Finding{
		Severity: Warning, Text: "The node's own host name is in no file, and no name server answers: Gloo waits for one, and then takes 127.0.0.1, where no other node reaches it.",
	})...))
}

func checkGlooExact(f *Fleet) []Finding {
	if f.look().places < 2 {
		return nil
	}
	var all []Finding
	for _, name := range []string{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"} {
		all = append(all, one(f.faults(func(_ int, n *Facts) string {
			value := n.env(name)
			if n.Libraries.Torch == "" || len(n.Network.Addresses) == 0 || len(value) < 2 {
				return ""
			}
			for want := range strings.SplitSeq(value, ",") {
				if !n.hasAddress(want) {
					return name + "=" + value + ": there are " + n.labels()
				}
			}
			return ""
		}), Finding{Text: name + " names no interface with an address, written in full."})...)
	}
	all = append(all, one(f.differ(func(_ int, n *Facts) string {
		if value := n.env("GLOO_SOCKET_IFNAME"); value != "" && n.Libraries.Torch != "" {
			return plural(strings.Count(value, ",")+1, "interface")
		}
		return ""
	}), Finding{
		Text: "GLOO_SOCKET_IFNAME names different numbers of interfaces; torch opens one Gloo device for each, and every node needs as many.",
	})...)
	return f.proposed(all)
}

// hasAddress reports whether an interface of exactly this name has an address.
func (n *Facts) hasAddress(label string) bool {
	for _, a := range n.Network.Addresses {
		if a.Label == label {
			return true
		}
	}
	return false
}

// labels lists the names that have addresses, for messages.
func (n *Facts) labels() string {
	var list []string
	for _, a := range n.Network.Addresses {
		if len(list) > 7 {
			list = append(list, "...")
			break
		}
		if len(list) == 0 || list[len(list)-1] != a.Label {
			list = append(list, a.Label)
		}
	}
	return strings.Join(list, ", ")
}
