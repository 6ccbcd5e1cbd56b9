package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/rendezvous/preflight"
	"github.com/gorun/gorun/rendezvous/preflight/netif"
	"github.com/gorun/gorun/rendezvous/preflight/rules"
)

// lab is a switch with hosts. Each host is a network namespace. The switch has
// its own namespace, so the machine's network does not change.
type lab struct {
	testing.TB
	name  string
	fleet preflight.Fleet
	nodes []*node
}

// node is a host's agent.
type node struct {
	in  io.WriteCloser
	out *json.Decoder
}

var labs atomic.Int32

// newLab creates a host for each address, "eth0 10.77.0.1/24", on one switch.
// It skips the test if it lacks the permission.
func newLab(t testing.TB, ports Ports, hosts ...string) *lab {
	t.Helper()
	_, err := exec.LookPath("ip")
	_, err2 := exec.LookPath("iptables")
	need(t, err == nil && err2 == nil && os.Getuid() == 0, "iproute2, iptables and root, for network namespaces")
	l := &lab{TB: t, name: fmt.Sprintf("probe%d-%d", os.Getpid(), labs.Add(1))}
	t.Cleanup(func() {
		for i := range len(hosts) + 1 {
			_ = exec.Command("ip", "netns", "del", l.host(i-1)).Run()
		}
	})
	if out, err := exec.Command("ip", "netns", "add", l.host(-1)).CombinedOutput(); err != nil {
		need(t, false, "network namespaces: "+string(out))
	}
	l.ip(-1, "link add br0 type bridge forward_delay 0 stp_state 0")
	l.ip(-1, "link set br0 up")
	for i, h := range hosts {
		name, addr, _ := strings.Cut(h, " ")
		l.do("ip", "netns", "add", l.host(i))
		l.ip(-1, fmt.Sprintf("link add p%d mtu 9000 type veth peer name %s netns %s", i, name, l.host(i)))
		l.ip(-1, fmt.Sprintf("link set p%d master br0 up", i))
		l.ip(i, fmt.Sprintf("addr add %s dev %s", addr, name))
		l.ip(i, "link set lo up")
		l.ip(i, "link set "+name+" up")
	}
	l.eventually("the switch forwards", func() bool {
		out, _ := exec.Command("bridge", "-n", l.host(-1), "link", "show").Output()
		return strings.Count(string(out), "state forwarding") == len(hosts)
	})
	for i, h := range hosts {
		l.start(i, h, ports)
	}
	return l
}

// start starts the agent of a host: it listens for the bootstrap and for data.
func (l *lab) start(i int, h string, ports Ports) {
	l.Helper()
	name, cidr, _ := strings.Cut(h, " ")
	p := netip.MustParsePrefix(cidr)
	ip := p.Addr().String()
	f := preflight.Facts{Format: preflight.Format}
	f.Node = preflight.Node{ID: fmt.Sprint("id", i), Host: fmt.Sprint("host", i), Workers: 1}
	f.Host.BootID = fmt.Sprint("boot", i)
	f.GPU.Driver = true // the rules of NCCL apply
	f.Network.PortFirst, f.Network.PortLast = ports.Lo, ports.Hi
	f.Network.Interfaces = []netif.Interface{{Index: 2, Name: name, Up: true, Running: true, MTU: 1500, Device: true}}
	f.Network.Addresses = []netif.Address{{Index: 2, Label: name, IP: ip, Bits: p.Bits(), Scope: "global"}}

	exe, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command("ip", "netns", "exec", l.host(i), exe, nodeFlag)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		l.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		in.Close() // ends the agent
		_ = cmd.Wait()
	})
	n := &node{in, json.NewDecoder(out)}
	o := order{f.Node.ID, []Address{{name, ip, preflight.UseBootstrap}, {name, ip, preflight.UseData}}, ports}
	if err := json.NewEncoder(in).Encode(o); err != nil {
		l.Fatal(err)
	}
	if err := n.out.Decode(&f.Listeners); err != nil || len(f.Listeners) != 2 {
		l.Fatalf("host %d does not listen: %v %v", i, f.Listeners, err)
	}
	l.nodes = append(l.nodes, n)
	l.fleet.Nodes = append(l.fleet.Nodes, f)
}

// probe makes all nodes run their plans at once.
func (l *lab) probe() *preflight.Fleet {
	l.Helper()
	begin := time.Now()
	plans := Plans(&l.fleet)
	for i, n := range l.nodes {
		if err := json.NewEncoder(n.in).Encode(plans[i]); err != nil {
			l.Fatal(err)
		}
	}
	l.fleet.Probes = nil
	for i, n := range l.nodes {
		var report json.RawMessage
		if err := n.out.Decode(&report); err != nil {
			l.Fatal(err)
		}
		got, err := DecodeReport(report, plans[i])
		if err != nil || len(got) != len(plans[i].Targets) {
			l.Fatalf("host %d made %d probes of %d: %v", i, len(got), len(plans[i].Targets), err)
		}
		l.fleet.Probes = append(l.fleet.Probes, got...)
	}
	for _, p := range l.fleet.Probes {
		l.Logf("%d -> %d %s: %s %s (%.0f ms)", p.From, p.To, p.Use, p.Result, p.Text, p.TookMS)
	}
	l.Logf("all within %s", time.Since(begin))
	return &l.fleet
}

// results returns what one node found at another, whatever the port and the
// use.
func (l *lab) results(from, to int) []preflight.Result {
	var out []preflight.Result
	for _, p := range l.fleet.Probes {
		if p.From == from && p.To == to {
			out = append(out, p.Result)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// findings returns the findings about reach, as text.
func (l *lab) findings() map[string]string {
	out := map[string]string{}
	for _, x := range preflight.Compare(&l.fleet, rules.All(), preflight.Options{}) {
		if slices.Contains([]string{"I02", "I03", "I04", "I05", "I06", "I15", "I16"}, x.ID) {
			out[x.ID] += x.Text
			for _, v := range x.Values {
				out[x.ID] += fmt.Sprintf(" [%v %s]", v.Nodes, v.Value)
			}
		}
	}
	return out
}

// host returns the name of a namespace; -1 is the switch.
func (l *lab) host(i int) string { return fmt.Sprintf("%s.%d", l.name, i) }

func (l *lab) do(args ...string) {
	l.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		l.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// ip configures a host's network.
func (l *lab) ip(host int, args string) {
	l.Helper()
	l.do(append([]string{"ip", "-n", l.host(host)}, strings.Fields(args)...)...)
}

// firewall adds a rule on a host.
func (l *lab) firewall(host int, args string) {
	l.Helper()
	l.do(append([]string{"ip", "netns", "exec", l.host(host), "iptables", "-w"}, strings.Fields(args)...)...)
}

func (l *lab) eventually(what string, ok func() bool) {
	l.Helper()
	for deadline := time.Now().Add(testTimeout); !ok(); {
		if time.Now().After(deadline) {
			l.Fatalf("not within %s: %s", testTimeout, what)
		}
		time.Sleep(10 * time.Millisecond) // sleep: poll of another process's state
	}
}

// need skips the test, or fails it where every part has to be there.
func need(t testing.TB, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing: %s", what)
	}
	t.Skipf("missing: %s", what)
}
