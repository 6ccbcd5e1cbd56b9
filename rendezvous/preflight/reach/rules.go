package reach

import (
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// Rules judge what the probes between nodes found: I02 to I04.
// What the
// probes say to I05 and I06 is in stalls and impostors.
func Rules() []preflight.Rule {
	return append([]preflight.Rule{
		{
			ID: "I02", Name: "reach-bootstrap", Severity: preflight.Error,
			Meaning: "Nodes connect to each other, in both directions, from and to the address that NCCL's bootstrap (or Gloo) would use; another source address on arrival is a warning.",
			Users:   "`connect to ... returned Connection refused`, `timed out` or `No route to host`, `exceeded error retry count`, `Software caused connection abort` (before 2.24), `Gloo connectFullMesh failed`, or a hang in init.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("use a network that all nodes share", "--iface auto").Everywhere(),
				preflight.ByHand.Step("ask the administrator of the firewalls to let all TCP ports through between the nodes, in both directions").Alternative(),
			},
			Check: checkBootstrap,
		},
		{
			ID: "I03", Name: "reach-data", Severity: preflight.Error,
			Meaning: "When sockets carry the data, nodes connect to each other on every interface that NCCL would use, the k-th with the k-th.",
			Users:   "Init works, and the first collective hangs or ends with `connect to 172.18.0.1<...> returned Connection refused`.",
			Steps: []preflight.Step{
				preflight.EveryRank("use one interface alone that leads to the other nodes", "NCCL_SOCKET_IFNAME", "=eth0"),
				preflight.ByHand.Step("ask the administrator of the network to connect the others of the nodes with each other").Alternative(),
			},
			Check: checkData,
		},
		{
			ID: "I04", Name: "port-range", Severity: preflight.Error,
			Meaning: "If one port of an address can be connected to, so can the others: NCCL, Gloo and the store listen on any port of net.ipv4.ip_local_port_range. Each node listens on 16 ports spread over it (with --port-range: over that, and a note says what was not tried).",
			Users:   "Works sometimes; time-outs at random.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the firewalls to let all TCP ports of net.ipv4.ip_local_port_range through between the nodes, in both directions: NCCL and Gloo cannot be told to use others"),
				preflight.ToLook.Step("to find it", "nft list ruleset; iptables -S"),
			},
			Check: checkPorts,
		},
	}, qualityRules()...)
}

// sick tells whether any probe failed.
func sick(f *preflight.Fleet) bool {
	for p := range f.ValidProbes {
		if p.Result.Failed() {
			return true
		}
	}
	return false
}

func checkBootstrap(f *preflight.Fleet) []preflight.Finding {
	if !sick(f) {
		return translated(f)
	}
	selective, doubtful, excused := selective(f), doubtful(f), excused(f)
	var all []preflight.Finding
	for _, u := range []struct {
		use preflight.Use
		who string
	}{
		{preflight.UseBootstrap, "NCCL's bootstrap would hang, or fail with the same error"},
		{preflight.UseGloo, "Gloo connects every process to every other, and would fail"},
	} {
		evidence := weigh(f, func(p *preflight.Probe) verdict {
			switch {
			case p.Use != u.use:
				return ignored
			case p.Result.Passed():
				return good
			case !p.Result.Failed(), selective[wayOf(p)], doubtful(p), excused(p):
				return ignored // I04, I06, I15 and I16
			}
			return bad
		})
		all = append(all, accuse(f, evidence, connecting(), u.who)...)
	}
	return append(all, translated(f)...)
}

func checkData(f *preflight.Fleet) []preflight.Finding {
	if !sick(f) {
		return nil
	}
	selective, doubtful, excused := selective(f), doubtful(f), excused(f)
	told := map[way]bool{} // as I02
	for p := range f.ValidProbes {
		if p.Use == preflight.UseBootstrap && p.Result.Failed() {
			told[wayOf(p)] = true
		}
	}
	evidence := weigh(f, func(p *preflight.Probe) verdict {
		switch {
		case p.Use != preflight.UseData:
			return ignored
		case p.Result.Passed():
			return good
		case !p.Result.Failed(), told[wayOf(p)], selective[wayOf(p)], doubtful(p), excused(p):
			return ignored
		}
		return bad
	})
	found := accuse(f, evidence, connecting(), "NCCL takes every one of these interfaces for data: init would work, and the first collective would hang or fail")
	for i := range found {
		found[i].Steps = leaveOut(f, evidence, found[i].Steps)
	}
	return found
}

// StalledPaths are what the probes say to I05: paths that small packets pass and large
// ones do not.
func StalledPaths(f *preflight.Fleet) []preflight.Finding {
	if !slices.ContainsFunc(f.Probes, func(p preflight.Probe) bool { return p.Result == preflight.Stalled }) {
		return nil
	}
	doubtful, ways := doubtful(f), qualities(f)
	evidence := weigh(f, func(p *preflight.Probe) verdict {
		q := ways[wayOf(p)]
		switch {
		case p.Result == preflight.Stalled && (doubtful(p) || q != nil && (q.isLossy() || q.isSlow())): // I06, I15, I16
			return ignored
		case p.Result == preflight.Stalled:
			return bad
		case p.Large && (p.Result == preflight.OK || p.Result == preflight.OtherSource):
			return good
		}
		return ignored
	})
	found := accuse(f, evidence, writing(), "Connections are made, and of 64 KiB not all arrive: packets as large as the interface's MTU vanish on the way. The first large transfer would stall")
	for i := range found {
		found[i].Severity = preflight.Error
		found[i].Steps = shrink(f, evidence)
	}
	return found
}
