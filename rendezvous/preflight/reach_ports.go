package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// way is from whom to whom, whatever the port and the use.
type way struct {
	from, to       int
	source, target string
}

func wayOf(p *Probe) way { return way{p.From, p.To, hostOf(p.Source), hostOf(p.Target)} }

// selective are the paths on which one port could be connected to and another
// one could not. An address that two nodes hold is one node's now and the other's
// a moment later: that is I06.
func (f *Fleet) selective() map[way]bool {
	type pair struct{ from, to int }
	sick := map[pair]bool{}
	for p := range f.tries {
		if failed(p.Result) {
			sick[pair{p.From, p.To}] = true
		}
	}
	out := map[way]bool{}
	if len(sick) == 0 {
		return out
	}
	passes := map[way]bool{}
	for p := range f.tries {
		if passed(p.Result) && sick[pair{p.From, p.To}] {
			passes[wayOf(p)] = true
		}
	}
	doubtful := f.doubtful()
	for p := range f.tries {
		if failed(p.Result) && passes[wayOf(p)] && !doubtful(p) {
			out[wayOf(p)] = true
		}
	}
	return out
}

// checkPorts is I04. The ports that agents listen on are a sample of those that
// NCCL would listen on: one for each use of an address.
func checkPorts(f *Fleet) []Finding {
	return slices.Concat(f.closedPorts(), f.filteredPorts(), f.untried())
}

// closedPorts finds ports that are closed beside open ones of the same address.
func (f *Fleet) closedPorts() []Finding {
	selective := f.selective()
	if len(selective) == 0 {
		return nil
	}
	what := map[int]string{}
	for p := range f.tries {
		if selective[wayOf(p)] && failed(p.Result) && what[p.To] == "" {
			what[p.To] = fmt.Sprintf("%s %s, other ports of it not", p.Target, p.Result)
		}
	}
	return one(f.faults(func(i int, _ *Facts) string { return what[i] }), Finding{
		Text: "Some ports of an address can be connected to, and others of the same address not: a firewall chooses by port. " + f.ephemeral(),
		Fix:  f.openPorts(),
	})
}

// filteredPorts finds a range of ports outside which nobody could be connected
// to: many nodes seem broken, and it is their port.
func (f *Fleet) filteredPorts() []Finding {
	const enough = 5 // by chance: 12 in 252, and less with more nodes
	if !f.sick() {
		return nil
	}
	open := map[int]bool{}
	for p := range f.tries {
		switch port := portOf(p.Target); {
		case passed(p.Result):
			open[port] = true
		case failed(p.Result) && !open[port]:
			open[port] = false
		}
	}
	var yes, no []int
	for port, ok := range open {
		if ok {
			yes = append(yes, port)
		} else {
			no = append(no, port)
		}
	}
	if len(yes) < enough || len(no) < enough {
		return nil
	}
	lo, hi := slices.Min(yes), slices.Max(yes)
	if slices.ContainsFunc(no, func(p int) bool { return p > lo && p < hi }) {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Text: fmt.Sprintf("All %d ports between %d and %d can be connected to, and none of the %d outside: that looks like a firewall that lets a range of ports through. %s",
			len(yes), lo, hi, len(no), f.ephemeral()),
		Fix: f.openPorts(),
	}}
}

// untried is a note: gorun was told to open ports of another range than NCCL's.
func (f *Fleet) untried() []Finding {
	if f.Probes == nil {
		return nil
	}
	return one(f.faults(func(_ int, n *Facts) string {
		first, last := n.Network.PortFirst, n.Network.PortLast
		tried := func(l Listener) bool { return l.Port >= first && l.Port <= last }
		if first == 0 || len(n.Listeners) == 0 || slices.ContainsFunc(n.Listeners, tried) {
			return ""
		}
		return fmt.Sprintf("tried port %d, NCCL listens on %d-%d", n.Listeners[0].Port, first, last)
	}), Finding{
		Severity: Note,
		Text:     "gorun's ports are confined to another range than the one that NCCL takes its ports from: whether that one is open between the nodes was not tried.",
	})
}

// ephemeral says where NCCL listens.
func (f *Fleet) ephemeral() string {
	if first, last := f.portRange(); first > 0 {
		return fmt.Sprintf("NCCL listens on any port of %d-%d.", first, last)
	}
	return "NCCL listens on any port of net.ipv4.ip_local_port_range."
}

func (f *Fleet) openPorts() string {
	if first, last := f.portRange(); first > 0 {
		return fmt.Sprintf("let TCP ports %d-%d through between the nodes, in both directions", first, last)
	}
	return ""
}

// portRange is the widest of the nodes' ranges of ports that programs are given.
func (f *Fleet) portRange() (first, last int) {
	for _, n := range f.known() {
		if n.Network.PortFirst > 0 {
			first, last = min(cmp.Or(first, n.Network.PortFirst), n.Network.PortFirst), max(last, n.Network.PortLast)
		}
	}
	return first, last
}

// portOf is the port of address:port, 0 if there is none.
func portOf(target string) int {
	port, _ := strconv.Atoi(target[strings.LastIndexByte(target, ':')+1:])
	return port
}
