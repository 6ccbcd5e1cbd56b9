package preflight

import "slices"

// reachRules judge what the probes between nodes found: I02 to I04.
// What the
// probes say to I05 and I06 is in stalls and impostors.
func reachRules() []Rule {
	return []Rule{
		{
			ID: "I02", Name: "reach-bootstrap", Severity: Error,
			Meaning: "Nodes connect to each other, in both directions, from and to the address that NCCL's bootstrap (or Gloo) would use; another source address on arrival is a warning.",
			Users:   "`connect to ... returned Connection refused`, `timed out` or `No route to host`, `exceeded error retry count`, `Software caused connection abort` (before 2.24), `Gloo connectFullMesh failed`, or a hang in init.",
			Steps: []Step{
				toGorun("use a network that all nodes share", "--iface auto").everywhere(),
				byHand("ask the administrator of the firewalls to let all TCP ports through between the nodes, in both directions").or(),
			},
			Check: checkBootstrap,
		},
		{
			ID: "I03", Name: "reach-data", Severity: Error,
			Meaning: "When sockets carry the data, nodes connect to each other on every interface that NCCL would use, the k-th with the k-th.",
			Users:   "Init works, and the first collective hangs or ends with `connect to 172.18.0.1<...> returned Connection refused`.",
			Steps: []Step{
				everyRank("use one interface alone that leads to the other nodes", "NCCL_SOCKET_IFNAME", "=eth0"),
				byHand("ask the administrator of the network to connect the others of the nodes with each other").or(),
			},
			Check: checkData,
		},
		{
			ID: "I04", Name: "port-range", Severity: Error,
			Meaning: "If one port of an address can be connected to, so can the others: NCCL, Gloo and the store listen on any port of net.ipv4.ip_local_port_range. Each node listens on 16 ports spread over it (with --port-range: over that, and a note says what was not tried).",
			Users:   "Works sometimes; time-outs at random.",
			Steps: []Step{
				byHand("ask the administrator of the firewalls to let all TCP ports of net.ipv4.ip_local_port_range through between the nodes, in both directions: NCCL and Gloo cannot be told to use others"),
				toLook("to find it", "nft list ruleset; iptables -S"),
			},
			Check: checkPorts,
		},
	}
}

// failed tells whether a probe's connection could not be used at all. What
// stalls, answers as somebody else or is translated is judged elsewhere.
func failed(r Result) bool {
	switch r {
	case Refused, NoRoute, TimedOut, Reset, Denied, NoAddress, Failed:
		return true
	}
	return false
}

// passed tells whether a connection was made with whom it was meant for.
func passed(r Result) bool {
	return r == OK || r == OtherSource || r == Stalled || r == Lossy || r == Slow
}

// sick tells whether any probe failed.
func (f *Fleet) sick() bool {
	for p := range f.tries {
		if failed(p.Result) {
			return true
		}
	}
	return false
}

func checkBootstrap(f *Fleet) []Finding {
	if !f.sick() {
		return f.translated()
	}
	selective, doubtful, excused := f.selective(), f.doubtful(), f.excused()
	var all []Finding
	for _, u := range []struct {
		use Use
		who string
	}{
		{UseBootstrap, "NCCL's bootstrap would hang, or fail with the same error"},
		{UseGloo, "Gloo connects every process to every other, and would fail"},
	} {
		evidence := f.weigh(func(p *Probe) verdict {
			switch {
			case p.Use != u.use:
				return ignored
			case passed(p.Result):
				return good
			case !failed(p.Result), selective[wayOf(p)], doubtful(p), excused(p):
				return ignored // I04, I06, I15 and I16
			}
			return bad
		})
		all = append(all, f.accuse(evidence, connecting(), u.who)...)
	}
	return append(all, f.translated()...)
}

func checkData(f *Fleet) []Finding {
	if !f.sick() {
		return nil
	}
	selective, doubtful, excused := f.selective(), f.doubtful(), f.excused()
	told := map[way]bool{} // as I02
	for p := range f.tries {
		if p.Use == UseBootstrap && failed(p.Result) {
			told[wayOf(p)] = true
		}
	}
	evidence := f.weigh(func(p *Probe) verdict {
		switch {
		case p.Use != UseData:
			return ignored
		case passed(p.Result):
			return good
		case !failed(p.Result), told[wayOf(p)], selective[wayOf(p)], doubtful(p), excused(p):
			return ignored
		}
		return bad
	})
	found := f.accuse(evidence, connecting(), "NCCL takes every one of these interfaces for data: init would work, and the first collective would hang or fail")
	for i := range found {
		found[i].Steps = f.leaveOut(evidence, found[i].Steps)
	}
	return found
}

// stalls are what the probes say to I05: paths that small packets pass and large
// ones do not.
func (f *Fleet) stalls() []Finding {
	if !slices.ContainsFunc(f.Probes, func(p Probe) bool { return p.Result == Stalled }) {
		return nil
	}
	doubtful, ways := f.doubtful(), f.qualities()
	evidence := f.weigh(func(p *Probe) verdict {
		q := ways[wayOf(p)]
		switch {
		case p.Result == Stalled && (doubtful(p) || q != nil && (q.isLossy() || q.isSlow())): // I06, I15, I16
			return ignored
		case p.Result == Stalled:
			return bad
		case p.Large && (p.Result == OK || p.Result == OtherSource):
			return good
		}
		return ignored
	})
	found := f.accuse(evidence, writing(), "Connections are made, and of 64 KiB not all arrive: packets as large as the interface's MTU vanish on the way. The first large transfer would stall")
	for i := range found {
		found[i].Severity = Error
		found[i].Steps = f.shrink(evidence)
	}
	return found
}
