package probe

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

func listener(addr string, port int, use preflight.Use) preflight.Listener {
	return preflight.Listener{Iface: "eth0", Addr: addr, Port: port, Use: use}
}

// fleet makes nodes of their listeners.
func fleet(nodes ...[]preflight.Listener) *preflight.Fleet {
	f := &preflight.Fleet{}
	for i, ls := range nodes {
		n := preflight.Facts{Format: preflight.Format, Listeners: ls}
		n.Node.ID = fmt.Sprint("id", i)
		f.Nodes = append(f.Nodes, n)
	}
	return f
}

func TestPlansPairAddressesOfTheSameUse(t *testing.T) {
	const boot, data, gloo = preflight.UseBootstrap, preflight.UseData, preflight.UseGloo
	f := fleet(
		[]preflight.Listener{listener("10.0.0.1", 11, boot), listener("10.0.0.1", 12, data), listener("10.1.0.1", 13, data)},
		[]preflight.Listener{listener("10.0.0.2", 21, boot), listener("10.0.0.2", 22, data), listener("10.1.0.2", 23, data), listener("10.2.0.2", 24, data)},
		[]preflight.Listener{listener("fd00::3", 31, boot), listener("127.0.0.1", 32, data), listener("10.0.0.3", 33, gloo)},
	)
	var got []string
	for _, p := range Plans(f) {
		for _, g := range p.Targets {
			if g.ID != fmt.Sprint("id", g.To) || !g.Large {
				t.Errorf("%+v", g)
			}
			got = append(got, fmt.Sprintf("%d %s %s %s", p.Node, g.Use, g.Source, g.Target))
		}
	}
	want := []string{
		"0 bootstrap 10.0.0.1 10.0.0.2:21",
		"0 data 10.0.0.1 10.0.0.2:22",
		"0 data 10.1.0.1 10.1.0.2:23",
		"0 data 10.0.0.1 10.2.0.2:24",
		"1 bootstrap 10.0.0.2 10.0.0.1:11",
		"1 data 10.0.0.2 10.0.0.1:12",
		"1 data 10.1.0.2 10.1.0.1:13",
		"1 data 10.2.0.2 10.0.0.1:12",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// TestPlansBeginWithEveryPartner checks that the first addresses of all
// partners come before the second of any, because only they are probed if the
// time runs out.
func TestPlansBeginWithEveryPartner(t *testing.T) {
	var nodes [][]preflight.Listener
	for i := range 10 {
		var ls []preflight.Listener
		for k := range 3 {
			ls = append(ls, listener(fmt.Sprintf("10.%d.0.%d", k, i+1), 1000+k, preflight.UseData))
		}
		nodes = append(nodes, ls)
	}
	for _, p := range Plans(fleet(nodes...)) {
		seen := map[int]bool{}
		for _, g := range p.Targets[:9] {
			seen[g.To] = true
		}
		if len(seen) != 9 {
			t.Errorf("node %d begins with %d partners", p.Node, len(seen))
		}
	}
}

func TestLinkLocalTargetsGetTheSourcesZone(t *testing.T) {
	f := fleet(
		[]preflight.Listener{listener("fe80::1%eth0", 11, preflight.UseBootstrap)},
		[]preflight.Listener{listener("fe80::2%ens7", 21, preflight.UseBootstrap)},
	)
	p := Plans(f)[0]
	if len(p.Targets) != 1 || p.Targets[0].Target != "[fe80::2%eth0]:21" || p.Targets[0].Source != "fe80::1%eth0" {
		t.Errorf("%+v", p)
	}
}

// TestLargestPlanIsValid checks that a node accepts the largest plan that Plans
// can make.
func TestLargestPlanIsValid(t *testing.T) {
	var nodes [][]preflight.Listener
	for i := range allPairs {
		ls := []preflight.Listener{listener(fmt.Sprintf("10.0.0.%d", i+1), 1, preflight.UseBootstrap)}
		for port := range 100 {
			ls[0].Ports = append(ls[0].Ports, port+1)
		}
		for k := range 2 * maxData {
			ls = append(ls, listener(fmt.Sprintf("10.1.%d.%d", k, i+1), 2, preflight.UseData), listener(fmt.Sprintf("10.2.%d.%d", k, i+1), 3, preflight.UseGloo))
		}
		nodes = append(nodes, ls)
	}
	f := fleet(nodes...)
	for i := range f.Nodes {
		f.Nodes[i].Node.ID = strings.Repeat("x", 60)
	}
	for _, p := range Plans(f) {
		if len(p.Targets) < (allPairs-1)*(perNode-maxMore)+2 || len(p.Targets) > MaxTargets {
			t.Fatalf("%d targets", len(p.Targets))
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decode(data); err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%v", err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := Target{To: 1, ID: "b", Use: preflight.UseData, Iface: "eth0", Source: "10.0.0.1", Target: "10.0.0.2:7"}
	alter := func(f func(*Target)) []Target { g := good; f(&g); return []Target{g} }
	many := func(n int, f func(i int, g *Target)) (out []Target) {
		for i := range n {
			g := good
			f(i, &g)
			out = append(out, g)
		}
		return out
	}
	for name, ts := range map[string][]Target{
		"no source":            alter(func(g *Target) { g.Source = "" }),
		"a name":               alter(func(g *Target) { g.Target = "metadata.internal:80" }),
		"no port":              alter(func(g *Target) { g.Target = "10.0.0.2:0" }),
		"broadcast":            alter(func(g *Target) { g.Target = "255.255.255.255:9" }),
		"many":                 alter(func(g *Target) { g.Target = "224.0.0.1:9" }),
		"itself":               alter(func(g *Target) { g.Target = "127.0.0.1:22" }),
		"itself, IPv4 in IPv6": alter(func(g *Target) { g.Target = "[::ffff:127.0.0.1]:22" }),
		"no address":           alter(func(g *Target) { g.Target = "0.0.0.0:22" }),
		"two families":         alter(func(g *Target) { g.Target = "[fd00::2]:22" }),
		"its own node":         alter(func(g *Target) { g.To = 0 }),
		"a strange node":       alter(func(g *Target) { g.To = -1 }),
		"a strange use":        alter(func(g *Target) { g.Use = "ssh" }),
		"a long name":          alter(func(g *Target) { g.Iface = strings.Repeat("x", maxName+1) }),
		"the same twice":       {good, good},
		"a scan of a host":     many(perNode+1, func(i int, g *Target) { g.Target = fmt.Sprintf("10.0.0.2:%d", i+1) }),
		"a scan of a net":      many(MaxPeers+1, func(i int, g *Target) { g.To, g.Target = i+1, fmt.Sprintf("10.0.0.%d:22", i%250+1) }),
		"too many":             many(MaxTargets+1, func(i int, g *Target) { g.To, g.Target = i%100+1, fmt.Sprintf("10.0.0.2:%d", i+1) }),
	} {
		data, err := json.Marshal(Plan{Targets: ts})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := Decode(data); err == nil {
			t.Errorf("%s: %+v", name, p.Targets[:1])
		}
	}
	for _, text := range []string{"", "[]", "{", `{"targets":{}}`, `{"targets":[{}`, `{"targets":5}`, `{"targets":[]}x`} {
		if p, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
	if p, err := Decode([]byte(`{"node":3}`)); err != nil || p.Node != 3 || len(p.Targets) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestReportsAreOfThePlan(t *testing.T) {
	p := Plan{Node: 4, Targets: []Target{
		{To: 1, ID: "b", Use: preflight.UseBootstrap, Source: "10.0.0.1", Target: "10.0.0.2:7", Large: true},
		{To: 2, ID: "c", Use: preflight.UseData, Source: "10.0.0.1", Target: "10.0.0.3:7"},
	}}
	result := func(i int) preflight.Probe {
		g := p.Targets[i]
		return preflight.Probe{From: 4, To: g.To, Use: g.Use, Source: g.Source, Target: g.Target, Large: g.Large, Result: preflight.OK}
	}
	decode := func(rs ...preflight.Probe) ([]preflight.Probe, error) {
		data, err := json.Marshal(rs)
		if err != nil {
			t.Fatal(err)
		}
		return DecodeReport(data, p)
	}
	for _, rs := range [][]preflight.Probe{{}, {result(0)}, {result(1)}, {result(0), result(1)}} {
		if got, err := decode(rs...); err != nil || len(got) != len(rs) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	shown := result(1)
	shown.Result, shown.Text, shown.Answer = preflight.Failed, "\x1b[31m"+strings.Repeat("é", 500), "a\nb"
	if got, err := decode(shown); err != nil || len(got[0].Text) > maxText || strings.ContainsAny(got[0].Text+got[0].Answer, "\x1b\n") {
		t.Errorf("%+v, %v", got, err)
	}
	foreign, unknown, long := result(0), result(0), result(0)
	foreign.To = 7
	unknown.Result = "fine"
	long.Seen = strings.Repeat("1", maxSeen+1)
	for _, rs := range [][]preflight.Probe{{foreign}, {unknown}, {long}, {result(0), result(0)}, {result(1), result(0)}, {result(0), result(1), result(1)}} {
		if got, err := decode(rs...); err == nil {
			t.Errorf("believed: %+v", got)
		}
	}
}
