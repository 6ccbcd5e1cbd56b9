package preflight_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/host"
)

// rails is n nodes with a bootstrap and data network and a second data network.
func rails(n int, second string) *simnet {
	var nodes []simnode
	for i := range n {
		nodes = append(nodes, simnode{fmt.Sprintf("eth0 10.0.0.%d/24", i+1), fmt.Sprintf(second, i+1)})
	}
	return newSimnet(nodes)
}

// only returns the one finding that there is, of a rule.
func only(t *testing.T, id string, f *preflight.Fleet) preflight.Finding {
	t.Helper()
	found := judge(f)
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
	x := only(t, "I03", s.run())
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
	x := only(t, "I03", s.run())
	if !strings.HasPrefix(x.Text, "Nobody can connect to node2 (eth1 10.0.1.3), nor from there to anybody: no route.") || !slices.Equal(odd(x), []int{2}) {
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
		x := only(t, "I05", s.run())
		if x.Severity != preflight.Error || n > 2 && (!slices.Equal(odd(x), []int{1}) || !strings.HasPrefix(x.Text, "Large packets do not pass to or from node1 (eth0 10.0.0.2): stalled.")) ||
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
	x := only(t, "I04", s.run())
	if x.Severity != preflight.Error || !slices.Equal(odd(x), []int{2}) || !strings.Contains(x.Text, "32768-60999") {
		t.Errorf("%+v", x)
	}

	// Each node has one port, and those of a range pass.
	s = flat(20)
	for i := range s.fleet.Nodes {
		s.fleet.Nodes[i].Listeners = s.fleet.Nodes[i].Listeners[:1]
	}
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To >= 12 {
			return preflight.TimedOut
		}
		return preflight.OK
	}
	found := ask("I04", s.run())
	if len(found) != 1 || found[0].Severity != preflight.Warning || !strings.Contains(found[0].Text, "All 12 ports between 40000 and 40011") {
		t.Errorf("%+v", found)
	}
}

func TestPortsThatWereNotTried(t *testing.T) {
	s := flat(2)
	for i := range s.fleet.Nodes {
		s.fleet.Nodes[i].Network.PortFirst, s.fleet.Nodes[i].Network.PortLast = 10000, 20000
	}
	if x := only(t, "I04", s.run()); x.Severity != preflight.Note || !strings.Contains(x.Values[0].Value, "NCCL listens on 10000-20000") {
		t.Errorf("%+v", x)
	}
	s.fleet.Probes = nil
	if found := ask("I04", &s.fleet); len(found) > 0 {
		t.Errorf("nothing was tried, and: %+v", found)
	}
}

func TestSomebodyElseAnswers(t *testing.T) {
	s := flat(4)
	f := s.run()
	for i := range f.Probes {
		if p := &f.Probes[i]; p.To == 2 && p.From != 3 {
			p.Result, p.Answer = preflight.Stranger, "id3"
		}
	}
	x := only(t, "I06", f)
	if x.Severity != preflight.Error || !slices.Equal(odd(x), []int{2}) || !strings.Contains(x.Values[0].Value, "10.0.0.3: node3 answered") {
		t.Errorf("%+v", x)
	}
	for i := range f.Probes {
		f.Probes[i].Answer = ""
	}
	if x := only(t, "I06", f); !strings.Contains(x.Values[0].Value, "who is not of this job") {
		t.Errorf("%+v", x)
	}
}

// Who connects to an address that two nodes hold reaches one of them: the other
// one is not broken.
func TestAddressThatTwoNodesHold(t *testing.T) {
	s := newSimnet([]simnode{{"eth0 10.0.0.1/24"}, {"eth0 10.0.0.2/24"}, {"eth0 10.0.0.2/24"}})
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To == 2 && p.From == 0 {
			return preflight.Refused // node 1 has no such port
		}
		return preflight.OK
	}
	found := ask("I06", s.run()) // the facts tell it, too
	if len(found) != 2 || !slices.Equal(odd(found[1]), []int{1, 2}) || !strings.Contains(found[1].Values[0].Value, "10.0.0.2: held by 2 nodes") {
		t.Errorf("%+v", found)
	}
	if found := ask("I02", &s.fleet); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	s.connect = func(p preflight.Probe) preflight.Result {
		if p.To == 1 && p.From == 0 && p.Use == preflight.UseData {
			return preflight.Reset // the other node took over between two probes
		}
		return preflight.OK
	}
	if found := ask("I04", s.run()); len(found) > 0 {
		t.Errorf("an address that two nodes hold is taken for a firewall: %+v", found)
	}
}

// Two agents of one machine have its address in common, and nobody holds it
// twice.
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
	if x := only(t, "I02", s.run()); !slices.Equal(odd(x), []int{1, 2}) {
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
	x := only(t, "I02", f)
	if x.Severity != preflight.Warning || x.Values[0].Value != "10.0.0.2 arrives as 192.0.2.7" {
		t.Errorf("%+v", x)
	}
}

// Nodes on one machine are not probed when they share the network, too.
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
	if len(s.fleet.Probes) != 8 { // two pairs, two directions, two uses
		t.Errorf("%d probes", len(s.fleet.Probes))
	}
}

// Probes come from other nodes: no nonsense among them stops the judgement, and
// the same probes give the same findings.
func TestNonsenseAmongTheProbes(t *testing.T) {
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
		s.fleet.Nodes[0].Format = r.IntN(2) // unknown, at times
		if r.IntN(2) == 0 {
			s.fleet.Nodes[0].Listeners = []preflight.Listener{{Addr: pick(addrs), Port: r.IntN(70000) - 10, Use: preflight.Use(pick(addrs))}}
		}
		for range r.IntN(60) {
			s.fleet.Probes = append(s.fleet.Probes, preflight.Probe{
				From: r.IntN(9) - 1, To: r.IntN(9) - 1, Source: pick(addrs), Target: pick(addrs), Answer: pick([]string{"", "id1", "?"}),
				Use: preflight.Use(pick([]string{"bootstrap", "data", "gloo", ""})), Result: results[r.IntN(len(results))], Large: r.IntN(2) == 0,
			})
		}
		first := preflight.Compare(&s.fleet, preflight.Options{})
		preflight.Render(first, s.fleet.Names(), preflight.Style{})
		if again := preflight.Compare(&s.fleet, preflight.Options{}); !reflect.DeepEqual(first, again) {
			t.Fatalf("seed %d: two judgements of the same probes:\n%+v\n%+v", seed, first, again)
		}
	}
}
