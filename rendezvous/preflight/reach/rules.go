package reach

import (
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// Rules returns I02 to I04, I15 and I16, which need probes. StalledPaths and
// DuplicateAddresses return what probes contribute to I05 and I06.
func Rules() []preflight.Rule {
	return append([]preflight.Rule{
		{
			ID: "I02", Name: "reach-bootstrap", Severity: preflight.Error,
			Meaning: "Nodes connect to each other, in both directions, from and to the address that NCCL's bootstrap (or Gloo) would use; a source address that arrives changed is a warning.",
			Symptom: "`connect to ... returned Connection refused`, `timed out` or `No route to host`, `exceeded error retry count`, `Software caused connection abort` (before 2.24), `Gloo connectFullMesh failed`, or a hang in init.",
			Steps: []preflight.Step{
				preflight.ToGorun.Step("use a network that all nodes share", "--iface auto").Everywhere(),
				preflight.ByHand.Step("ask the administrator of the firewalls to let all TCP ports through between the nodes, in both directions").Alternative(),
			},
			Check: checkBootstrap,
		},
		{
			ID: "I03", Name: "reach-data", Severity: preflight.Error,
			Meaning: "When sockets carry the data, nodes connect to each other on every interface that NCCL would use, the k-th with the k-th.",
			Symptom: "Init works, and the first collective hangs or ends with `connect to 172.18.0.1<...> returned Connection refused`.",
			Steps: []preflight.Step{
				preflight.EveryRank("use one interface only, which leads to the other nodes", "NCCL_SOCKET_IFNAME", "=eth0"),
				preflight.ByHand.Step("ask the administrator of the network to connect the other interfaces of the nodes with each other").Alternative(),
			},
			Check: checkData,
		},
		{
			ID: "I04", Name: "port-range", Severity: preflight.Error,
			Meaning: "If one port of an address accepts connections, so do the others: NCCL, Gloo and the store listen on any port of net.ipv4.ip_local_port_range. Each node listens on 16 ports of that range (with --port-range: of that one, and a note says which ports were not tried).",
			Symptom: "Works sometimes; time-outs at random.",
			Steps: []preflight.Step{
				preflight.ByHand.Step("ask the administrator of the firewalls to let all TCP ports of net.ipv4.ip_local_port_range through between the nodes, in both directions: NCCL and Gloo have no setting for other ports"),
				preflight.ToShow.Step("which firewall it is", "nft list ruleset; iptables -S"),
			},
			Check: checkPorts,
		},
	}, qualityRules()...)
}

func checkBootstrap(f *preflight.Fleet) []preflight.Finding {
	var all []preflight.Finding
	if m := matrixOf(f, hasFailed); m != nil {
		all = append(all, m.connecting(preflight.UseBootstrap).finding(connecting(), "NCCL's bootstrap would hang, or fail with the same error")...)
		all = append(all, m.connecting(preflight.UseGloo).finding(connecting(), "Gloo connects every process to every other, and would fail")...)
	}
	return append(all, translated(f)...)
}

func hasFailed(p *preflight.Probe) bool { return p.Result.Failed() }

// connecting finds paths on which connections for one use cannot be made. Other
// rules cover paths that are selective, ambiguous, slow or lossy.
func (m *matrix) connecting(use preflight.Use) *evidence {
	return m.classify(func(p *path) (*preflight.Probe, bool) {
		if !p.selective() && !p.ambiguous {
			i := slices.IndexFunc(p.broken, func(x *preflight.Probe) bool { return x.Use == use })
			bootstrap := func(x *preflight.Probe) bool { return x.Use == preflight.UseBootstrap && x.Result.Failed() }
			if i >= 0 && (use != preflight.UseData || p.first(bootstrap) == nil) { // else I02 covers it
				return p.broken[i], true
			}
		}
		return p.first(func(x *preflight.Probe) bool { return x.Use == use && x.Result.Passed() }), false
	})
}

func checkData(f *preflight.Fleet) []preflight.Finding {
	m := matrixOf(f, hasFailed)
	if m == nil {
		return nil
	}
	e := m.connecting(preflight.UseData)
	found := e.finding(connecting(), "NCCL takes every one of these interfaces for data: init would work, and the first collective would hang or fail")
	for i := range found {
		if steps := e.bootstrapOnly(); steps != nil {
			found[i].Steps = steps
		}
	}
	return found
}

// StalledPaths finds paths that only small packets pass. It is what the probes
// contribute to I05.
func StalledPaths(f *preflight.Fleet) []preflight.Finding {
	stalled := func(p *preflight.Probe) bool { return p.Result == preflight.Stalled }
	m := matrixOf(f, stalled)
	if m == nil {
		return nil
	}
	e := m.classify(func(p *path) (*preflight.Probe, bool) {
		if !p.ambiguous && !p.lossy() && !p.slow() { // else I06, I15 or I16 covers it
			if x := p.first(stalled); x != nil {
				return x, true
			}
		}
		return p.first(func(x *preflight.Probe) bool {
			return x.Large && (x.Result == preflight.OK || x.Result == preflight.OtherSource)
		}), false
	})
	found := e.finding(writing(), "Connections are made, but 64 KiB do not arrive: packets as large as the interface's MTU get lost. The first large transfer would stall")
	for i := range found {
		found[i].Severity, found[i].Steps = preflight.Error, e.smallerMTU()
	}
	return found
}
