package e2e_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fleet is a set of simulated machines. Each has its own interfaces, host name, boot id,
// limits, and files over the real ones, including those of a GPU driver. Only the
// processes that start on a machine see them.
type fleet struct {
	*lan
	machines []*machine
}

// nic is an interface of a machine, in the order of their indexes.
type nic struct {
	name      string
	addrs     string // with prefix lengths, separated by blanks
	net       string // the switch at the other end of its cable; empty: "lan"
	extra     string // further arguments of "ip link set"
	unplugged bool   // true: the cable is not plugged in
}

// mgmt is the network in which agents meet when machines have an interface in
// it; else they meet by their first interface.
const mgmt = "mgmt"

func eth0(addrs string) []nic { return []nic{{name: "eth0", addrs: addrs}} }

// twoMachines returns the interfaces of two machines in one network.
func twoMachines() [][]nic { return [][]nic{eth0("10.77.0.1/24"), eth0("10.77.0.2/24")} }

// newFleet makes one machine for each list of interfaces.
func newFleet(t testing.TB, nics [][]nic) *fleet {
	t.Helper()
	need(t, mayMount() == nil, fmt.Sprint("mounts and overlayfs, for simulated machines: ", mayMount()))
	f := &fleet{lan: newNamespaces(t, len(nics))}
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	for i, list := range nics {
		m := &machine{TB: t, nics: list, place: place{
			Net: f.host(i + 1), Host: fmt.Sprintf("node%d", i+1), Layer: layer(t), SHM: "8g",
			Limits: map[int]uint64{},
			Binds:  map[string]string{"/proc/sys/kernel/random/boot_id": "boot_id"},
		}}
		m.write("boot_id", fmt.Sprintf("00000000-0000-4000-8000-%012d\n", i+1))
		fmt.Fprintf(&hosts, "%s %s\n", m.ip(), m.Host)
		f.machines = append(f.machines, m)
	}
	for _, m := range f.machines {
		m.write("etc/hosts", hosts.String())
	}
	f.wire()
	return f
}

// wire makes the switches and plugs in the cables. Each interface gets only the
// addresses of its list.
func (f *fleet) wire() {
	f.Helper()
	var plug strings.Builder
	nets := map[string]bool{}
	for i, m := range f.machines {
		var set strings.Builder
		set.WriteString("link set lo up\n")
		for k, n := range m.nics {
			net := n.net
			if net == "" {
				net = "lan"
			}
			if !nets[net] {
				nets[net] = true
				fmt.Fprintf(&plug, "link add %s type bridge forward_delay 0 stp_state 0\nlink set %s mtu 65535 up\n", net, net)
			}
			port := fmt.Sprintf("p%d.%d", i+1, k)
			fmt.Fprintf(&plug, "link add %s mtu 9216 type veth peer name %s netns %s\n", port, n.name, m.Net)
			if !n.unplugged {
				fmt.Fprintf(&plug, "link set %s master %s up\n", port, net)
			}
			for _, addr := range strings.Fields(n.addrs) {
				fmt.Fprintf(&set, "addr add %s dev %s\n", addr, n.name)
			}
			fmt.Fprintf(&set, "link set %s addrgenmode none\nlink set %s up %s\n", n.name, n.name, n.extra)
		}
		defer f.batch(i+1, set.String()) // after the interfaces exist
	}
	f.batch(0, plug.String())
}

// batch runs commands of ip(8) in the namespace of a host, 0 the switches.
func (l *lan) batch(host int, lines string) {
	l.Helper()
	cmd := exec.Command("ip", "-n", l.host(host), "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.Fatalf("ip on host %d: %v: %s", host, err, out)
	}
}

// nft loads a rule set on a machine. It skips the test if there is no nft.
func (f *fleet) nft(host int, rules string) {
	f.Helper()
	_, err := exec.LookPath("nft")
	need(f, err == nil, "nft, for a firewall")
	cmd := exec.Command("ip", "netns", "exec", f.host(host), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		need(f, false, "nft: "+string(out))
	}
}

// job makes a job on the fleet, without agents.
func (f *fleet) job(t testing.TB, flags ...string) *job {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Max < 1<<16 && !slices.Contains(flags, "--ignore") {
		flags = append(flags, "--ignore", "L02") // the test's own machine allows few open files
	}
	j := newJob(t, flags...)
	j.endpoint = f.machines[0].ip()
	return j
}

// start starts an agent on machine i, from 1.
func (f *fleet) start(j *job, i int, nnodes string, args ...string) *agent {
	j.Helper()
	m := f.machines[i-1]
	cmd := j.command(append([]string{"--nnodes", nnodes, "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id}, args...)...)
	return j.launch(m.Host, m.on(cmd))
}

// all starts an agent on every machine.
func (f *fleet) all(j *job, args ...string) []*agent {
	j.Helper()
	var out []*agent
	for i := range f.machines {
		out = append(out, f.start(j, i+1, fmt.Sprint(len(f.machines)), args...))
	}
	return out
}
