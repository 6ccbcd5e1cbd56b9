package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/rendezvous/preflight"
)

// The test pastes a fix where it says, on real machines: into the shell that starts
// gorun, or onto its command line. Then the finding does not come again.
func TestFixesArePasted(t *testing.T) {
	t.Parallel()
	everywhere := func(env ...string) func(*fleet) { return func(f *fleet) { f.setenv(env...) } }
	for _, c := range []struct {
		name  string
		nics  [][]nic // nil: twoMachines
		setup func(*fleet)
		flags []string
		id    string
		paste string // in it
	}{
		{name: "one node has an adapter", setup: func(f *fleet) { f.machines[0].adapter() }, id: "N01", paste: "-x NCCL_NET=Socket"},
		{name: "a network that no node has", setup: everywhere("NCCL_NET=IB"), id: "N01", paste: "--unset NCCL_NET"},
		{name: "a family that no node has", setup: everywhere("NCCL_SOCKET_FAMILY=AF_INET6", "NCCL_SOCKET_IFNAME==eth0"), id: "I09", paste: "-x NCCL_SOCKET_FAMILY=AF_INET"},
		{name: "left from debugging", setup: everywhere("NCCL_P2P_DISABLE=1"), id: "E02", paste: "--unset NCCL_P2P_DISABLE"},
		{name: "a container without the environment", nics: append(twoMachines(), eth0("10.77.0.3/24")), setup: func(f *fleet) {
			for _, m := range f.machines[:2] {
				m.env = append(m.env, "NCCL_SOCKET_IFNAME=eth0")
			}
			f.machines[2].env = append(f.machines[2].env, "container=docker")
		}, id: "E03", paste: "-x NCCL_SOCKET_IFNAME=eth0"},
		{name: "different MTUs", nics: [][]nic{{{name: "eth0", addrs: "10.77.0.1/24", extra: "mtu 9000"}}, eth0("10.77.0.2/24")}, id: "I05", paste: "ip link set dev eth0 mtu 1500"},
		{name: "a small /dev/shm", setup: func(f *fleet) { f.machines[1].SHM = "64k" }, flags: []string{"--nproc-per-node", "2"}, id: "L01", paste: "mount -o remount"},
		{name: "the wrong exclusion", setup: everywhere("NCCL_SOCKET_IFNAME=^docker0"), id: "I01", paste: "--iface 10.77.0.0/24"},
		{name: "a node with IPv6 alone", nics: [][]nic{
			{{name: "eth0", addrs: "10.77.0.1/24 fd00:77::1/64"}, {name: "docker0", addrs: "192.168.7.1/24", net: mgmt}}, // NCCL leaves docker out
			{{name: "eth0", addrs: "fd00:77::2/64"}, {name: "docker0", addrs: "192.168.7.2/24", net: mgmt}},
		}, id: "I01", paste: "-x NCCL_SOCKET_FAMILY=AF_INET6"},
		{name: "copies of a machine", setup: func(f *fleet) {
			f.machines[1].Host = f.machines[0].Host
			f.machines[1].write("boot_id", "00000000-0000-4000-8000-000000000001\n")
		}, id: "H01", paste: "export NCCL_HOSTID="},
		{name: "a proxy", setup: everywhere("http_proxy=http://10.9.9.9:3128"), id: "R06", paste: "export NO_PROXY="},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nics := c.nics
			if nics == nil {
				nics = twoMachines()
			}
			f := newFleet(t, nics).healthy()
			if c.setup != nil {
				c.setup(f)
			}
			before := f.checkAfterFix(t, c.flags, nil)
			k := slices.IndexFunc(before, func(x preflight.Finding) bool { return x.ID == c.id })
			if k < 0 || len(before[k].Steps) == 0 || !strings.Contains(before[k].Fix, c.paste) {
				t.Fatalf("%s with %q in its fix is not among %+v", c.id, c.paste, before)
			}
			t.Logf("%s: %s", c.id, before[k].Fix)
			way := before[k].Steps
			if end := slices.IndexFunc(way[1:], func(s preflight.Step) bool { return s.Or }); end >= 0 {
				way = way[:end+1]
			}
			for _, x := range f.checkAfterFix(t, c.flags, way) {
				worse := x.Severity == preflight.Error && !slices.ContainsFunc(before, func(y preflight.Finding) bool { return x.ID == y.ID })
				if x.ID == c.id && x.Text == before[k].Text || worse {
					t.Errorf("after\n%s\n%s %s: %s %+v", before[k].Fix, x.Severity, x.ID, x.Text, x.Values)
				}
			}
		})
	}
}

// checkAfterFix runs gorun check on every machine, after a fix was pasted there.
func (f *fleet) checkAfterFix(t *testing.T, flags []string, way []preflight.Step) (found []preflight.Finding) {
	t.Helper()
	j := f.job(t, flags...)
	var agents []*agent
	for i, m := range f.machines {
		var lines, options []string
		for _, s := range way {
			switch {
			case s.Nodes != nil && !slices.Contains(s.Nodes, i):
			case s.Place == preflight.InShell || s.Place == preflight.AsRoot:
				lines = append(lines, s.Lines...)
			case s.Place == preflight.ToGorun:
				options = append(options, s.Lines...)
			}
		}
		cmd := j.command()
		gorun := fmt.Sprintf(`exec "$GORUN" check --json --nnodes %d --node-rank %d --rdzv-endpoint "$ENDPOINT" --rdzv-id %s %s "$@"`,
			len(f.machines), i, j.id, strings.Join(options, " "))
		cmd.Env = append(cmd.Env, "GORUN="+os.Getenv(envGorun), "ENDPOINT="+j.endpoint)
		cmd.Path = "/bin/bash"
		cmd.Args = append([]string{"bash", "-e", "-c", strings.Join(append(lines, gorun), "\n"), "bash"}, append(j.flags, script)...)
		agents = append(agents, j.launch(m.Host, m.on(cmd)))
	}
	for _, a := range agents {
		if code := a.wait(longWait); code != 0 && code != 78 {
			t.Fatalf("%s: exit code %d: %s", a.name, code, a.err.String())
		}
	}
	if err := json.Unmarshal([]byte(agents[0].out.String()), &found); err != nil {
		t.Fatalf("%v: %s", err, agents[0].out.String())
	}
	return found
}
