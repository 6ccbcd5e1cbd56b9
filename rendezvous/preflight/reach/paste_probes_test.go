package reach_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/envprop/ncclenv"
	"github.com/gorun/gorun/rendezvous/preflight"
)

// TestEveryFixOfProbes tries the fixes of the findings about probes. Mostly a
// person has to fix a firewall, a route or an address. If a line fixes it, the
// finding is absent after the nodes are probed again.
func TestEveryFixOfProbes(t *testing.T) {
	mtu := func(s *simnet, most int) func(preflight.Probe) preflight.Result {
		return func(p preflight.Probe) preflight.Result {
			of := func(node int) int { return s.fleet.Nodes[node].Network.Interfaces[0].MTU }
			if p.Large && min(of(p.From), of(p.To)) > most {
				return preflight.Stalled
			}
			return preflight.OK
		}
	}
	firewall := func(result preflight.Result) func(*simnet) func(preflight.Probe) preflight.Result {
		return func(*simnet) func(preflight.Probe) preflight.Result {
			return func(p preflight.Probe) preflight.Result {
				if p.From == 1 {
					return result
				}
				return preflight.OK
			}
		}
	}
	const network, owner = "addresses, routes and firewalls are others' to change", "the node's own are its administrator's"
	for name, c := range map[string]struct {
		id      string
		nodes   []simnode
		connect func(*simnet) func(preflight.Probe) preflight.Result
		byHand  string // why no line fixes it; "" if a line does
	}{
		"a path that 1500 bytes pass": {"I05", spread(3, 1), func(s *simnet) func(preflight.Probe) preflight.Result { return mtu(s, 1500) }, ""},
		"a data network that leads nowhere": {"I03", []simnode{{"eth0 10.0.0.1/24", "br-1 172.18.0.1/16"}, {"eth0 10.0.0.2/24", "br-1 172.18.0.2/16"}}, func(*simnet) func(preflight.Probe) preflight.Result {
			return func(p preflight.Probe) preflight.Result {
				if strings.HasPrefix(p.Target, "172.") {
					return preflight.Refused
				}
				return preflight.OK
			}
		}, ""},
		"the first interface leads nowhere": {"I02", []simnode{{"eth0 10.9.0.1/24", "eth1 10.0.0.1/16"}, {"eth0 10.9.1.1/24", "eth1 10.0.0.2/16"}}, func(*simnet) func(preflight.Probe) preflight.Result {
			return func(p preflight.Probe) preflight.Result {
				if strings.HasPrefix(p.Target, "10.9.") {
					return preflight.NoRoute
				}
				return preflight.OK
			}
		}, ""},
		"a firewall":       {"I02", spread(3, 1), firewall(preflight.TimedOut), network},
		"its own firewall": {"I02", spread(3, 1), firewall(preflight.Denied), owner},
		"its address":      {"I02", spread(3, 1), firewall(preflight.NoAddress), owner},
		"no route":         {"I02", spread(3, 1), firewall(preflight.NoRoute), network},
		"a firewall over a part of the ports": {"I04", spread(3, 1), func(*simnet) func(preflight.Probe) preflight.Result {
			return func(p preflight.Probe) preflight.Result {
				if port, _ := strconv.Atoi(p.Target[strings.LastIndexByte(p.Target, ':')+1:]); p.To == 1 && port >= 50000 {
					return preflight.TimedOut
				}
				return preflight.OK
			}
		}, ""},
		"lost packets":  {"I15", spread(3, 1), firewall(preflight.Lossy), network},
		"a slow path":   {"I16", spread(3, 1), firewall(preflight.Slow), network},
		"another agent": {"I06", spread(3, 1), firewall(preflight.OtherAgent), network},
		"a translation": {"I02", spread(3, 1), firewall(preflight.OtherSource), network},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimnet(c.nodes)
			s.connect = c.connect(s)
			found := findings(c.id, s.run())
			if len(found) == 0 || len(found[0].Steps) == 0 {
				t.Fatalf("no fix: %+v", found)
			}
			first := found[0].Steps[0]
			if (first.Place == preflight.ByHand) != (c.byHand != "") || c.byHand != "" && !strings.HasPrefix(first.Text, "ask the administrator of ") {
				t.Fatalf("for a person: %q; %+v", c.byHand, first)
			}
			if c.byHand != "" {
				return
			}
			for _, step := range found[0].Steps {
				if step.Or {
					break
				}
				s.paste(t, step)
			}
			if again := findings(c.id, s.run()); len(again) > 0 {
				t.Errorf("after %q: %+v", found[0].Fix, again)
			}
		})
	}
}

// paste changes the simulated network as a step says: an MTU, or the interfaces
// that gorun makes workers use.
func (s *simnet) paste(t *testing.T, step preflight.Step) {
	t.Helper()
	for i := range s.fleet.Nodes {
		n := &s.fleet.Nodes[i]
		for _, line := range step.Lines {
			words := strings.Fields(line)
			switch {
			case step.Place == preflight.ToShow:
			case step.Nodes != nil && !slices.Contains(step.Nodes, i):
			case step.Place == preflight.AsRoot && strings.HasPrefix(line, "ip link set dev eth0 mtu "):
				n.Network.Interfaces[0].MTU, _ = strconv.Atoi(words[6])
			case step.Place == preflight.AsRoot && strings.HasPrefix(line, "sysctl -w net.ipv4.ip_local_port_range="):
				if _, err := fmt.Sscanf(line, "sysctl -w net.ipv4.ip_local_port_range='%d %d'", &n.Network.PortFirst, &n.Network.PortLast); err != nil {
					t.Fatal(err)
				}
				for k := range n.Listeners {
					n.Listeners[k].Ports = sixteenths(n.Network.PortFirst, n.Network.PortLast, i)
					n.Listeners[k].Port = n.Listeners[k].Ports[k]
				}
			case step.Place == preflight.ToGorun && words[0] == "--iface":
				s.use(n, "eth1") // the network that all nodes share
			case step.Place == preflight.ToGorun && words[1] == "NCCL_SOCKET_IFNAME==eth0":
				s.use(n, "eth0")
			default:
				t.Fatalf("this test does not know %s %q", step.Place, line)
			}
		}
	}
}

// use leaves one interface to the node's workers, and so to its listeners.
func (s *simnet) use(n *preflight.Facts, iface string) {
	n.Settings = append(n.Settings, ncclenv.Value{Name: "NCCL_SOCKET_IFNAME", Value: "=" + iface, Source: ncclenv.Environment})
	n.Listeners = slices.DeleteFunc(n.Listeners, func(l preflight.Listener) bool { return l.Iface != iface })
	for _, a := range n.Network.Addresses {
		if a.Label == iface && !slices.ContainsFunc(n.Listeners, func(l preflight.Listener) bool { return l.Use == preflight.UseBootstrap }) {
			n.Listeners = append(n.Listeners, preflight.Listener{Iface: iface, Addr: a.IP, Port: 40000 + len(fmt.Sprint(n.Node.ID)), Use: preflight.UseBootstrap})
		}
	}
}
