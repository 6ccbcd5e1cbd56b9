package reach_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/probe"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// simnet is a simulated network: a fleet and the results of its connections.
type simnet struct {
	fleet   preflight.Fleet
	connect func(p preflight.Probe) preflight.Result // nil: all connections work
}

// simnode is the address, or the addresses, of one simulated node.
type simnode []string // "eth0 10.0.0.1/24", the first for the bootstrap, all for data

// newSimnet makes nodes that listen as the agents do.
func newSimnet(nodes []simnode) *simnet {
	s := &simnet{}
	for i, n := range nodes {
		f := preflight.Facts{Format: preflight.Format}
		f.Node = preflight.Node{ID: fmt.Sprint("id", i), Host: fmt.Sprint("node", i), Workers: 1}
		f.Host.BootID = fmt.Sprint("boot", i)
		f.GPU.Driver = true // the rules of NCCL apply
		f.Network.PortFirst, f.Network.PortLast = 32768, 60999
		for k, text := range n {
			var name, cidr string
			_, _ = fmt.Sscan(text, &name, &cidr)
			p := netip.MustParsePrefix(cidr)
			ip := p.Addr().String()
			f.Network.Interfaces = append(f.Network.Interfaces, netif.Interface{Index: k + 2, Name: name, Up: true, Running: true, MTU: 9000, Device: true})
			f.Network.Addresses = append(f.Network.Addresses, netif.Address{Index: k + 2, Label: name, IP: ip, Bits: p.Bits(), Scope: "global"})
			ports := sixteenths(32768, 60999, i+7*k)
			if k == 0 {
				f.Listeners = append(f.Listeners, preflight.Listener{Iface: name, Addr: ip, Port: ports[0], Use: preflight.UseBootstrap, Ports: ports})
			}
			f.Listeners = append(f.Listeners, preflight.Listener{Iface: name, Addr: ip, Port: ports[1], Use: preflight.UseData, Ports: ports})
		}
		s.fleet.Nodes = append(s.fleet.Nodes, f)
	}
	return s
}

// sixteenths returns a port of each sixteenth of a range.
func sixteenths(first, last, offset int) (ports []int) {
	size := (last - first + 1) / 16
	for part := range 16 {
		ports = append(ports, first+part*size+offset%size)
	}
	return ports
}

// flat returns n nodes in one subnet.
func flat(n int) *simnet { return newSimnet(spread(n, 1)) }

// spread returns n nodes in several subnets, in blocks.
func spread(n, subnets int) []simnode {
	var out []simnode
	for i := range n {
		a := netip.AddrFrom4([4]byte{10, byte(i * subnets / n), byte(i / 250), byte(i%250 + 1)})
		out = append(out, simnode{fmt.Sprintf("eth0 %s/16", a)})
	}
	return out
}

// run runs the plans.
func (s *simnet) run() *preflight.Fleet {
	s.fleet.Probes = []preflight.Probe{}
	for _, plan := range probe.Plans(&s.fleet) {
		for _, t := range plan.Targets {
			p := preflight.Probe{
				From: plan.Node, To: t.To, Use: t.Use, Iface: t.Iface, Source: t.Source, Target: t.Target,
				Large: t.Large, Seen: t.Source, Answer: t.ID, Result: preflight.OK,
			}
			if s.connect != nil {
				p.Result = s.connect(p)
			}
			if p.Result != preflight.OK && p.Result != preflight.Stalled {
				p.Seen, p.Answer = "", ""
			}
			s.fleet.Probes = append(s.fleet.Probes, p)
		}
	}
	return &s.fleet
}

// reachIDs returns the ids of the rules that use probes.
func reachIDs() []string { return []string{"I02", "I03", "I04", "I05", "I06", "I15", "I16"} }

// findings returns the findings of one rule.
func findings(id string, f *preflight.Fleet) []preflight.Finding {
	return slices.DeleteFunc(compare(f), func(x preflight.Finding) bool { return x.ID != id })
}

// compare returns the findings of all rules about probes.
func compare(f *preflight.Fleet) []preflight.Finding {
	var others []string
	for _, r := range rules.All() {
		if !slices.Contains(reachIDs(), r.ID) {
			others = append(others, r.ID)
		}
	}
	return preflight.Compare(f, rules.All(), preflight.Options{Ignore: others})
}

// oddNodes returns the nodes that a finding names, ascending.
func oddNodes(x preflight.Finding) []int {
	var out []int
	for _, v := range x.Values {
		if v.Odd {
			out = append(out, v.Nodes...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// drawNumbers draws k different numbers below n, ascending.
func drawNumbers(r *rand.Rand, n, k int) []int {
	out := r.Perm(n)[:k]
	slices.Sort(out)
	return out
}
