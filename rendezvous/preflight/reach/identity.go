package reach

import (
	"fmt"
	"slices"

	"github.com/gorun/gorun/internal/term"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// DuplicateAddresses returns what the probes contribute to I06: addresses at
// which another agent answers, or that several nodes hold.
func DuplicateAddresses(f *preflight.Fleet) []preflight.Finding {
	if !slices.ContainsFunc(f.Probes, func(p preflight.Probe) bool { return !p.Result.Passed() || p.Result == preflight.Stalled }) {
		return nil
	}
	holders := nodesByAddress(f)
	names := f.Names()
	byID := map[string]int{}
	for i, n := range f.Known() {
		byID[n.Node.ID] = i
	}
	faults := map[string][]int{} // what is wrong at an address: the nodes that published it
	var order []string
	note := func(node int, text string) {
		if faults[text] == nil {
			order = append(order, text)
		}
		if !slices.Contains(faults[text], node) {
			faults[text] = append(faults[text], node)
		}
	}
	var sample *preflight.Probe
	for p := range f.ValidProbes {
		host := hostOf(p.Target)
		switch {
		case p.Result == preflight.OtherAgent && p.Answer != "":
			node, known := byID[p.Answer]
			text := host + ": another node of this job answered"
			if known {
				text = host + ": " + names[node] + " answered"
			}
			note(p.To, text)
		case p.Result == preflight.OtherAgent:
			note(p.To, host+": a program answered that is not of this job")
		case p.Result.Failed() || p.Result == preflight.Stalled:
			for _, a := range []string{host, hostOf(p.Source)} {
				if len(holders[a]) < 2 {
					continue
				}
				if sample == nil {
					sample = p
				}
				for _, n := range holders[a] {
					note(n, fmt.Sprintf("%s: %d nodes have it", a, len(holders[a])))
				}
			}
			continue
		default:
			continue
		}
		if sample == nil {
			sample = p
		}
	}
	if sample == nil {
		return nil
	}
	var values []preflight.Value
	for _, text := range order {
		slices.Sort(faults[text])
		values = append(values, preflight.Value{Value: text, Nodes: faults[text], Odd: true})
	}
	return preflight.IfAny(f.Complete(values), preflight.Finding{
		Severity: preflight.Error,
		Text:     "Connections to these nodes reach another machine: two machines have the address, or it is translated (NAT, a proxy). Ranks would connect to the wrong machine.",
		Steps: []preflight.Step{
			preflight.ByHand.Step("ask the administrator of the network which machine has the address, and to give every node an address of its own"),
			preflight.ToShow.Step("which machine answers", fmt.Sprintf("ip neigh show %[1]s; ip route get %[1]s from %[2]s", term.Command(hostOf(sample.Target)), term.Command(hostOf(sample.Source)))).On([]int{sample.From}),
		},
	})
}

// translated warns of connections that work but arrive from another address
// than the sender's.
func translated(f *preflight.Fleet) []preflight.Finding {
	values := map[int]string{}
	for p := range f.ValidProbes {
		if p.Result == preflight.OtherSource && values[p.From] == "" {
			values[p.From] = fmt.Sprintf("%s arrives as %s", p.Source, p.Seen)
		}
	}
	return preflight.IfAny(f.Faults(func(i int, _ *preflight.Facts) string { return values[i] }), preflight.Finding{
		Severity: preflight.Warning,
		Text:     "Connections from these nodes arrive with another source address: it is translated (NAT, masquerading). That works as long as no node has to connect back to that address.",
		Steps: []preflight.Step{
			preflight.ByHand.Step("ask the administrator of the network to remove the translation between the nodes"),
			preflight.ToShow.Step("where the translation is", "iptables -t nat -S; nft list ruleset"),
			preflight.ToContainer.Step("give the container the machine's network (in Kubernetes hostNetwork: true)", "--network=host").Alternative(),
		},
	})
}
