package reach_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// rails returns n nodes with one network for bootstrap and data and a second
// one for data.
func rails(n int, second string) *simnet {
	var nodes []simnode
	for i := range n {
		nodes = append(nodes, simnode{fmt.Sprintf("eth0 10.0.0.%d/24", i+1), fmt.Sprintf(second, i+1)})
	}
	return newSimnet(nodes)
}

// onlyFinding returns the only finding, which must be of the rule id.
func onlyFinding(t *testing.T, id string, f *preflight.Fleet) preflight.Finding {
	t.Helper()
	found := compare(f)
	if len(found) != 1 || found[0].ID != id {
		t.Fatalf("not %s alone: %+v", id, found)
	}
	return found[0]
}

func TestDataInterfacesThatLeadNowhere(t *testing.T) {
	s := rails(4, "br-1234 172.18.0.%d/16")
	s.connect = func(p preflight.Probe) preflight.Result {
		if strings.HasPrefix(p.Target, "172.") {
			return preflight.Refused
		}
		return preflight.OK
	}
	x := onlyFinding(t, "I03", s.run())
	if x.Severity != preflight.Error || !strings.HasPrefix(x.Text, "No connection within 172.18.0.0/16: refused.") ||
		!strings.Contains(x.Fix, "gorun -x NCCL_SOCKET_IFNAME==eth0 ...") || !strings.Contains(x.Fix, "br-1234") {
		t.Errorf("%+v", x)
	}
}

func TestOneDataInterfaceOfOneNode(t *testing.T) {
	s := rails(5, "eth1 10.0.1.%d/24")
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.Source == "10.0.1.3" || strings.HasPrefix(p.Target, "10.0.1.3:") {
			return preflight.NoRoute
		}
		return preflight.OK
	}
	x := onlyFinding(t, "I03", s.run())
	if !strings.HasPrefix(x.Text, "No connection to or from node2 (eth1 10.0.1.3): no route.") || !slices.Equal(oddNodes(x), []int{2}) {
		t.Errorf("%+v", x)
	}
}

func TestLargeWritesThatVanish(t *testing.T) {
	for _, n := range []int{2, 3, 40, 300} {
		s := flat(n)
		s.connect = func(p preflight.Probe) preflight.Result {
			if p.Large && (p.From == 1 || p.To == 1) {
				return preflight.Stalled
			}
			return preflight.OK
		}
		x := onlyFinding(t, "I05", s.run())
		if x.Severity != preflight.Error || n > 2 && (!slices.Equal(oddNodes(x), []int{1}) || !strings.HasPrefix(x.Text, "Large packets do not pass to or from node1 (eth0 10.0.0.2): stalled.")) ||
			!strings.Contains(x.Fix, "ip link set dev eth0 mtu 1500") {
			t.Errorf("%d nodes: %+v", n, x)
		}
	}
}

func TestFirewallThatChoosesByPort(t *testing.T) {
	s := flat(3)
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To == 2 && p.Use == preflight.UseData { // another port of the address
			return preflight.TimedOut
		}
		return preflight.OK
	}
	x := onlyFinding(t, "I04", s.run())
	if x.Severity != preflight.Error || !slices.Equal(oddNodes(x), []int{2}) || !strings.Contains(x.Text, "32768-60999") {
		t.Errorf("%+v", x)
	}
}

// TestFirewallOverAPartOfTheRange checks the finding about a firewall that
// closes a part of the range: the ports that were found closed and open, the
// node of the firewall, and a range that programs can be given.
func TestFirewallOverAPartOfTheRange(t *testing.T) {
	for _, n := range []int{2, 4, 16, 40} {
		for _, own := range []bool{false, true} {
			s := flat(n)
			s.connect = func(p preflight.Probe) preflight.Result {
				var port int
				_, _ = fmt.Sscanf(p.Target[strings.LastIndexByte(p.Target, ':'):], ":%d", &port)
				if port >= 50000 && (own && p.From == 1 || !own && p.To == 1) {
					return preflight.TimedOut
				}
				return preflight.OK
			}
			x := onlyFinding(t, "I04", s.run())
			want := []int{1}
			if n == 2 && own { // two nodes do not show whose firewall it is
				want = []int{0}
			}
			if !slices.Equal(oddNodes(x), want) || len(x.Values) != 1 {
				t.Fatalf("%d nodes, own %v: %+v", n, own, x)
			}
			value, last := x.Values[0].Value, x.Steps[0]
			if !strings.HasPrefix(value, "50") || !strings.Contains(value, " timed out (") || !strings.Contains(value, " open (10") && n == 2 {
				t.Errorf("%d nodes, own %v: %s", n, own, value)
			}
			var lo, hi int
			if _, err := fmt.Sscanf(last.Lines[0], "sysctl -w net.ipv4.ip_local_port_range='%d %d'", &lo, &hi); err != nil || lo < 32768 || hi >= 50000 || hi < 48000 {
				t.Errorf("%d nodes, own %v: %+v", n, own, last)
			}
		}
	}
}

// degrade makes the connections between a node and the others lose packets or
// be slow.
func (s *simnet) degrade(node int, how func(i int, p *preflight.Probe)) *preflight.Fleet {
	f := s.run()
	for i := range f.Probes {
		p := &f.Probes[i]
		if p.Sent = 3; p.Large {
			p.Sent = 48
		}
		if p.From == node || p.To == node {
			how(i, p)
		}
	}
	return f
}

func TestPacketLoss(t *testing.T) {
	for _, n := range []int{2, 4, 40} {
		lost := func(i int, p *preflight.Probe) {
			if i%3 == 0 {
				p.Resent = 1
			}
		}
		x := onlyFinding(t, "I15", flat(n).degrade(1, lost))
		if x.Severity != preflight.Warning || !slices.Contains(marked(x), 1) || n > 2 && !slices.Equal(oddNodes(x), []int{1}) {
			t.Errorf("%d nodes: %+v", n, x)
		}
		if n > 16 {
			continue // here only neighbours try further ports
		}
		// A probe that stalls or gets no answer on such a path belongs to the
		// same finding.
		x = onlyFinding(t, "I15", flat(n).degrade(1, func(i int, p *preflight.Probe) {
			lost(i, p)
			switch {
			case p.Large && p.Use == preflight.UseBootstrap:
				p.Result = preflight.Lossy
			case p.Large:
				p.Result = preflight.Stalled
			case i%5 == 0:
				p.Result, p.Text = preflight.Failed, "connected, but no answer"
			}
		}))
		if x.Severity != preflight.Error || !slices.Contains(marked(x), 1) {
			t.Errorf("%d nodes: %+v", n, x)
		}
	}
	// One segment that is sent again does not count as loss.
	s := flat(4)
	f := s.degrade(1, func(i int, p *preflight.Probe) {
		if p.Large && p.Use == preflight.UseData {
			p.Resent = 1
		}
	})
	if found := compare(f); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

func TestSlowPaths(t *testing.T) {
	for _, n := range []int{2, 4, 16} {
		x := onlyFinding(t, "I16", flat(n).degrade(1, func(_ int, p *preflight.Probe) {
			if p.Large {
				p.Mbit = 9.5
			}
			p.Resent = 1 // the path's queue overflows
		}))
		if x.Severity != preflight.Warning || !slices.Contains(marked(x), 1) || !strings.Contains(x.Text, "9.5 Mbit/s") {
			t.Errorf("%d nodes: %+v", n, x)
		}
		x = onlyFinding(t, "I16", flat(n).degrade(1, func(i int, p *preflight.Probe) {
			switch {
			case p.Large && p.Use == preflight.UseBootstrap:
				p.Result = preflight.Slow
			case p.Large:
				p.Result = preflight.Stalled
			case i%5 == 0:
				p.Result = preflight.TimedOut
			}
		}))
		if x.Severity != preflight.Error || !slices.Contains(marked(x), 1) {
			t.Errorf("%d nodes: %+v", n, x)
		}
	}
}

// marked returns the nodes that a finding names.
func marked(x preflight.Finding) (out []int) {
	for _, v := range x.Values {
		out = append(out, v.Nodes...)
	}
	return out
}

func TestPortsThatWereNotTried(t *testing.T) {
	s := flat(2)
	for _, r := range [][2]int{{10000, 20000}, {10000, 60999}, {32768, 65535 * 2}} { // another range, and parts
		for i := range s.fleet.Nodes {
			s.fleet.Nodes[i].Network.PortFirst, s.fleet.Nodes[i].Network.PortLast = r[0], r[1]
		}
		if x := onlyFinding(t, "I04", s.run()); x.Severity != preflight.Note || !strings.Contains(x.Values[0].Value, fmt.Sprintf("NCCL listens on %d-%d", r[0], r[1])) {
			t.Errorf("%+v", x)
		}
	}
	s.fleet.Probes = nil
	if found := findings("I04", &s.fleet); len(found) > 0 {
		t.Errorf("nothing was tried, and: %+v", found)
	}
}

func TestAnotherAgentAnswers(t *testing.T) {
	s := flat(4)
	f := s.run()
	for i := range f.Probes {
		if p := &f.Probes[i]; p.To == 2 && p.From != 3 {
			p.Result, p.Answer = preflight.OtherAgent, "id3"
		}
	}
	x := onlyFinding(t, "I06", f)
	if x.Severity != preflight.Error || !slices.Equal(oddNodes(x), []int{2}) || !strings.Contains(x.Values[0].Value, "10.0.0.3: node3 answered") {
		t.Errorf("%+v", x)
	}
	for i := range f.Probes {
		f.Probes[i].Answer = ""
	}
	if x := onlyFinding(t, "I06", f); !strings.Contains(x.Values[0].Value, "that is not of this job") {
		t.Errorf("%+v", x)
	}
}

// TestAddressThatTwoNodesHold checks that no fault names a node only because
// another node holds its address, so that a connection reaches one of the two.
func TestAddressThatTwoNodesHold(t *testing.T) {
	s := newSimnet([]simnode{{"eth0 10.0.0.1/24"}, {"eth0 10.0.0.2/24"}, {"eth0 10.0.0.2/24"}})
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To == 2 && p.From == 0 {
			return preflight.Refused // node 1 has no such port
		}
		return preflight.OK
	}
	found := findings("I06", s.run()) // the facts show it, too
	if len(found) != 2 || !slices.Equal(oddNodes(found[1]), []int{1, 2}) || !strings.Contains(found[1].Values[0].Value, "10.0.0.2: 2 nodes have it") {
		t.Errorf("%+v", found)
	}
	if found := findings("I02", &s.fleet); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To == 1 && p.From == 0 && p.Use == preflight.UseData {
			return preflight.Reset // the other node got the address between two probes
		}
		return preflight.OK
	}
	if found := findings("I04", s.run()); len(found) > 0 {
		t.Errorf("an address that two nodes hold is taken for a firewall: %+v", found)
	}
}

// TestAddressThatTwoAgentsOfOneMachineShare checks that an address which two
// agents of one machine share is no duplicate.
func TestAddressThatTwoAgentsOfOneMachineShare(t *testing.T) {
	s := newSimnet([]simnode{{"eth0 10.0.0.1/24"}, {"eth0 10.0.0.2/24"}, {"eth0 10.0.0.2/24"}, {"eth0 10.0.0.3/24"}})
	for _, i := range []int{1, 2} {
		s.fleet.Nodes[i].Host = host.Facts{BootID: "b", NS: host.NS{Net: "net:[1]"}}
	}
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To == 1 || p.To == 2 {
			return preflight.TimedOut
		}
		return preflight.OK
	}
	if x := onlyFinding(t, "I02", s.run()); !slices.Equal(oddNodes(x), []int{1, 2}) {
		t.Errorf("%+v", x)
	}
}

func TestTranslationIsAWarning(t *testing.T) {
	s := flat(3)
	f := s.run()
	for i := range f.Probes {
		if p := &f.Probes[i]; p.From == 1 {
			p.Result, p.Seen = preflight.OtherSource, "192.0.2.7"
		}
	}
	x := onlyFinding(t, "I02", f)
	if x.Severity != preflight.Warning || x.Values[0].Value != "10.0.0.2 arrives as 192.0.2.7" {
		t.Errorf("%+v", x)
	}
}

// TestNodesOfOneMachine checks that nodes on one machine are not probed if they
// share the network, too.
func TestNodesOfOneMachine(t *testing.T) {
	s := flat(3)
	for i := range s.fleet.Nodes {
		s.fleet.Nodes[i].Host = host.Facts{BootID: "b", NS: host.NS{Net: "net:[1]"}}
	}
	s.fleet.Nodes[2].Host.NS.Net = "net:[2]"
	for _, p := range s.run().Probes {
		if p.From < 2 && p.To < 2 {
			t.Errorf("%+v", p)
		}
	}
	if len(s.fleet.Probes) != 64 { // two pairs, two directions, two uses and 14 further ports
		t.Errorf("%d probes", len(s.fleet.Probes))
	}
}

// TestInvalidProbes checks that invalid probes, which may come from other
// nodes, do not stop the rules, and that the same probes give the same
// findings.
func TestInvalidProbes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	addrs := []string{"", "10.0.0.1", "10.0.0.2:5", "[fe80::1%eth0]:7", "fe80::1%eth0", "[", "::", "x:y:z", "%", "10.0.0.9:99999999999"}
	results := []preflight.Result{
		"", "ok", "refused", "no route", "timed out", "stalled", "reset", "denied",
		"no address", "other agent", "other source", "failed", "nonsense",
	}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	for range 300 {
		s := flat(1 + r.IntN(6))
		s.fleet.Nodes[0].Format = r.IntN(2) // sometimes unknown
		if r.IntN(2) == 0 {
			s.fleet.Nodes[0].Listeners = []preflight.Listener{{Addr: pick(addrs), Port: r.IntN(70000) - 10, Use: preflight.Use(pick(addrs))}}
		}
		for range r.IntN(60) {
			s.fleet.Probes = append(s.fleet.Probes, preflight.Probe{
				From: r.IntN(9) - 1, To: r.IntN(9) - 1, Source: pick(addrs), Target: pick(addrs), Answer: pick([]string{"", "id1", "?"}),
				Use: preflight.Use(pick([]string{"bootstrap", "data", "gloo", ""})), Result: results[r.IntN(len(results))], Large: r.IntN(2) == 0,
			})
		}
		first := preflight.Compare(&s.fleet, rules.All(), preflight.Options{})
		preflight.Render(first, s.fleet.Names(), preflight.Style{})
		if again := preflight.Compare(&s.fleet, rules.All(), preflight.Options{}); !reflect.DeepEqual(first, again) {
			t.Fatalf("seed %d: two results for the same probes:\n%+v\n%+v", seed, first, again)
		}
	}
}
