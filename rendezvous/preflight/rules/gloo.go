package rules

import (
	"slices"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
)

// glooRules returns I07 and I08: which interface torch's Gloo takes.
func glooRules() []preflight.Rule {
	return []preflight.Rule{
		{
			ID: "I07", Name: "gloo-hostname", Severity: preflight.Error,
			Meaning: "Where GLOO_SOCKET_IFNAME is not set, the node's host name resolves to an address of the node that other nodes can reach; a name server that does not answer is a warning.",
			Symptom: "`Gloo connectFullMesh failed with ...`, `connect [127.0.1.1]:...: Connection refused`.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("let gorun name an interface of a network that all nodes share", "--iface auto").Everywhere(),
				preflight.ByHand.Step("ask the administrator of the marked nodes to give the host name the node's address in /etc/hosts instead of 127.0.1.1").Alternative(),
			},
			Check: checkGlooHostname,
		},
		{
			ID: "I08", Name: "gloo-exact", Severity: preflight.Error,
			Meaning: "GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME hold full names of interfaces of the node, and GLOO_SOCKET_IFNAME as many on every node.",
			Symptom: "`Unable to find address for: eth`.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("let gorun give Gloo and TensorPipe the full name on each node", "--iface auto").Everywhere(),
				preflight.InShell.Step("write the full name; ^, = and prefixes are NCCL's only", "export GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth0").Alternative(),
			},
			Check: checkGlooExact,
		},
	}
}

func checkGlooHostname(f *preflight.Fleet) []preflight.Finding {
	v := f.View()
	if !v.Gloo || !v.Between() {
		return nil
	}
	linked := f.AllLinkLocal(func(i int) string { p, _ := f.BootstrapAddress(i); return p.IP })
	values := f.Faults(func(i int, n *preflight.Facts) string {
		c := v.Choice[i]
		if c.Unknown || linked || n.Libraries.Torch == "" || n.Env("GLOO_SOCKET_IFNAME") != "" {
			return ""
		}
		if len(c.Picked) == 0 {
			return c.Why
		}
		if what := c.Picked[0].LocalOnly(); what != "" {
			return c.Picked[0].IP + " (" + what + "): " + c.Why
		}
		return ""
	})
	noAnswer := f.Faults(func(i int, n *preflight.Facts) string {
		if !v.Choice[i].Unknown || !n.Network.HostSilent || n.Libraries.Torch == "" || n.Env("GLOO_SOCKET_IFNAME") != "" {
			return ""
		}
		return "host name " + n.Network.Host + ": " + n.Network.HostError
	})
	return f.WithProposal(append(preflight.IfAny(values, preflight.Finding{Text: "Gloo would use an address that the other nodes cannot reach."}), preflight.IfAny(noAnswer, preflight.Finding{
		Severity: preflight.Warning, Text: "The node's host name is in no file, and no name server answers: Gloo waits for an answer and then takes 127.0.0.1, which no other node reaches.",
	})...))
}

func checkGlooExact(f *preflight.Fleet) []preflight.Finding {
	if f.View().Places < 2 {
		return nil
	}
	var all []preflight.Finding
	for _, name := range []string{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"} {
		all = append(all, preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
			value := n.Env(name)
			if n.Libraries.Torch == "" || len(n.Network.Addresses) == 0 || len(value) < 2 {
				return ""
			}
			for want := range strings.SplitSeq(value, ",") {
				if !hasAddress(n, want) {
					return name + "=" + value + ": there are " + n.Network.ListLabels()
				}
			}
			return ""
		}), preflight.Finding{Text: name + " does not hold full names of interfaces with an address."})...)
	}
	all = append(all, preflight.IfAny(f.Differing(func(_ int, n *preflight.Facts) string {
		if value := n.Env("GLOO_SOCKET_IFNAME"); value != "" && n.Libraries.Torch != "" {
			return preflight.Plural(strings.Count(value, ",")+1, "interface")
		}
		return ""
	}), preflight.Finding{
		Text: "GLOO_SOCKET_IFNAME names different numbers of interfaces; torch opens one Gloo device for each, and every node needs as many.",
	})...)
	return f.WithProposal(all)
}

// hasAddress reports whether an interface of exactly this name has an address.
func hasAddress(n *preflight.Facts, label string) bool {
	return slices.ContainsFunc(n.Network.Addresses, func(a netif.Address) bool { return a.Label == label })
}
