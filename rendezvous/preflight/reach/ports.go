package reach

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// checkPorts applies I04. The ports of the agents are a sample of the ports
// that NCCL would listen on.
func checkPorts(f *preflight.Fleet) []preflight.Finding {
	return slices.Concat(closedPorts(f), portsNotTried(f))
}

// closedPorts finds ports that are closed beside open ports of the same
// address.
func closedPorts(f *preflight.Fleet) []preflight.Finding {
	m := matrixOf(f, hasFailed)
	if m == nil {
		return nil
	}
	e := m.classify(func(p *path) (*preflight.Probe, bool) {
		sampled := func(x *preflight.Probe) bool { return x.Use == preflight.UsePorts }
		switch {
		case p.selective():
			return p.broken[0], true
		case p.passed && p.first(sampled) != nil: // other paths were probed at only one or two ports, which says little
			return p.first(func(x *preflight.Probe) bool { return x.Result.Passed() }), false
		}
		return nil, false
	})
	if e == nil {
		return nil
	}
	all, byNode := sample{}, make([]sample, len(f.Nodes))
	for _, fault := range e.explain() {
		for _, i := range fault.cells {
			c := e.cells[i]
			from, to := e.nodes(c)
			if fault.from.kind == onePoint && fault.to.kind == anyNode && !fault.both {
				to = from // the node's own firewall
			}
			if byNode[to] == nil {
				byNode[to] = sample{}
			}
			for _, p := range c.probes {
				if !p.Result.Failed() || slices.Contains(c.broken, p) {
					byNode[to].add(p)
					all.add(p)
				}
			}
		}
	}
	found := e.finding(choosing(), "A firewall lets only some ports through. "+strings.TrimSuffix(describePorts(f), "."))
	for i := range found {
		found[i].Values = f.Faults(func(i int, _ *preflight.Facts) string { return byNode[i].String() })
		found[i].Steps = openPorts(f, all)
	}
	return found
}

// sample holds the results of probes by port, "" for an open port.
type sample map[int]preflight.Result

func (s sample) add(p *preflight.Probe) {
	port := portOf(p.Target)
	switch _, known := s[port]; {
	case p.Result.Failed():
		s[port] = p.Result
	case p.Result.Passed() && !known:
		s[port] = ""
	}
}

// span is a run of neighbouring ports that are all open, or all closed.
type span struct {
	first, last, count int
	closed             []preflight.Result // results of the probes; nil: the ports are open
}

func (s sample) spans() (out []span) {
	for _, port := range slices.Sorted(maps.Keys(s)) {
		r := s[port]
		if n := len(out); n == 0 || (out[n-1].closed == nil) != (r == "") {
			out = append(out, span{first: port})
		}
		x := &out[len(out)-1]
		x.last, x.count = port, x.count+1
		if r != "" && !slices.Contains(x.closed, r) {
			x.closed = append(x.closed, r)
		}
	}
	return out
}

// String returns "50211-60871 timed out (6 tried), 33001-48876 open (10
// tried)".
func (s sample) String() string {
	const most = 4
	spans := s.spans()
	closed := slices.DeleteFunc(slices.Clone(spans), func(x span) bool { return x.closed == nil })
	open := slices.DeleteFunc(spans, func(x span) bool { return x.closed != nil })
	var parts []string
	for i, x := range append(closed, open...) {
		if i == most {
			parts = append(parts, "and more")
			break
		}
		parts = append(parts, x.String())
	}
	return strings.Join(parts, ", ")
}

func (x span) String() string {
	where, what := fmt.Sprint(x.first), "open"
	if x.closed != nil {
		var words []string
		for _, r := range x.closed {
			words = append(words, string(r))
		}
		slices.Sort(words)
		what = strings.Join(words, " or ")
	}
	if x.count > 1 {
		where = fmt.Sprintf("%d-%d", x.first, x.last)
		what += fmt.Sprintf(" (%d tried)", x.count)
	}
	return where + " " + what
}

// portsNotTried returns a note if --port-range confines gorun's ports to
// another range than NCCL's, or to a part of it.
func portsNotTried(f *preflight.Fleet) []preflight.Finding {
	if f.Probes == nil {
		return nil
	}
	return preflight.IfAny(f.Faults(func(_ int, n *preflight.Facts) string {
		first, last := n.Network.PortFirst, n.Network.PortLast
		if first == 0 || len(n.Listeners) == 0 {
			return ""
		}
		lo, hi := n.Listeners[0].Port, n.Listeners[0].Port
		for _, l := range n.Listeners {
			for _, port := range l.Ports {
				lo, hi = min(lo, port), max(hi, port)
			}
		}
		if part := (last - first + 1) / 4; lo <= first+part && hi >= last-part {
			return ""
		}
		return fmt.Sprintf("tried ports %d to %d, NCCL listens on %d-%d", lo, hi, first, last)
	}), preflight.Finding{
		Severity: preflight.Note,
		Text:     "--port-range confines gorun to other ports than NCCL's, or to a part of them: whether the rest is open between the nodes was not tried.",
		Steps:    []preflight.Step{preflight.ByHand.Step("nothing has to be done if all ports are open; without --port-range gorun tries them")},
	})
}

// describePorts says on which ports NCCL listens.
func describePorts(f *preflight.Fleet) string {
	if first, last := portRange(f); first > 0 {
		return fmt.Sprintf("NCCL listens on any port of %d-%d.", first, last)
	}
	return "NCCL listens on any port of net.ipv4.ip_local_port_range."
}

// enoughPorts is how many ports a node needs at least if its programs get only
// the ports that a firewall leaves open.
const enoughPorts = 4096

// openPorts returns the steps against closed ports.
func openPorts(f *preflight.Fleet, tried sample) []preflight.Step {
	first, last := portRange(f)
	if first == 0 {
		return nil
	}
	ask := []preflight.Step{
		preflight.ByHand.Step(fmt.Sprintf("ask the administrator of the firewall to let TCP ports %d-%d through between the nodes, in both directions: NCCL and Gloo have no setting for other ports", first, last)),
		preflight.ToShow.Step("which firewall it is", "nft list ruleset; iptables -S"),
	}
	var widest span
	for _, s := range tried.spans() {
		if s.closed == nil && s.last-s.first > widest.last-widest.first {
			widest = s
		}
	}
	if widest.last-widest.first < enoughPorts {
		return ask
	}
	return preflight.Either([]preflight.Step{preflight.AsRoot.Step("let the kernel give programs only ports that are open",
		fmt.Sprintf("sysctl -w net.ipv4.ip_local_port_range='%d %d'", widest.first, widest.last)).Everywhere()}, ask...)
}

// portRange returns the widest of the nodes' port ranges for programs.
func portRange(f *preflight.Fleet) (first, last int) {
	for _, n := range f.Known() {
		if n.Network.PortFirst > 0 {
			first, last = min(cmp.Or(first, n.Network.PortFirst), n.Network.PortFirst), max(last, n.Network.PortLast)
		}
	}
	return first, last
}

// portOf returns the port in address:port, 0 if there is none.
func portOf(target string) int {
	port, _ := strconv.Atoi(target[strings.LastIndexByte(target, ':')+1:])
	return port
}
