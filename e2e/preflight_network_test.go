package e2e_test

import (
	"fmt"
	"testing"
)

// preflightCase is a fleet with something odd, and the expected findings.
type preflightCase struct {
	name  string
	nics  [][]nic
	setup func(*fleet) // runs after the healthy parts are set up
	flags []string
	finds []string // nothing: the job runs in silence
	text  []string // parts of the table
}

// run runs a job of scripts on the machines of the case. Errors refuse it on every
// node; with warnings only it runs, and the coordinator shows the table.
func (s preflightCase) run(t *testing.T) {
	t.Parallel()
	f := newFleet(t, s.nics).healthy()
	if s.setup != nil {
		s.setup(f)
	}
	j := f.job(t, s.flags...)
	agents := f.all(j, script)
	errors := false
	for _, id := range s.finds {
		errors = errors || id[0] == 'e'
	}
	table := ""
	if errors {
		table = j.refused(agents...)
	} else {
		j.wantExit(longWait, 0, agents...)
		for _, a := range agents {
			a.waitForStdout("up", 1)
			table += a.table()
		}
	}
	wantFindings(t, table, s.finds...)
	wantParts(t, table, s.text...)
}

// separateNetworks gives n machines a network to meet in, and another in which NCCL takes
// eth0, whose addresses are 10.37.8.1 and on.
func separateNetworks(n int) [][]nic {
	var out [][]nic
	for i := range n {
		out = append(out, []nic{
			{name: "eth0", addrs: fmt.Sprintf("10.37.8.%d/24", i+1)},
			{name: "docker0", addrs: fmt.Sprintf("192.168.7.%d/24", i+1), net: mgmt}, // NCCL leaves docker out
		})
	}
	return out
}

func (f *fleet) setenv(env ...string) {
	for _, m := range f.machines {
		m.env = append(m.env, env...)
	}
}

// firewall sets what a machine does to connections that arrive at eth0.
func (f *fleet) firewall(host int, action string) {
	f.Helper()
	f.nft(host, "table inet e2e { chain in { type filter hook input priority 0; iifname \"eth0\" meta l4proto tcp tcp flags & (syn|ack) == syn "+action+"; }; }")
}

func TestPreflightNetwork(t *testing.T) {
	t.Parallel()
	for _, s := range []preflightCase{
		{
			name: "one network, different names",
			nics: [][]nic{eth0("10.77.0.1/24"), {{name: "ens1f0np0", addrs: "10.77.0.2/24"}}},
		},
		{
			name: "routed subnets",
			nics: [][]nic{eth0("10.77.0.1/24"), eth0("10.77.1.2/24")},
			setup: func(f *fleet) {
				f.batch(1, "route add 10.77.1.0/24 dev eth0\n")
				f.batch(2, "route add 10.77.0.0/24 dev eth0\n")
			},
		},
		{
			name:  "different MTUs",
			nics:  [][]nic{{{name: "eth0", addrs: "10.77.0.1/24", extra: "mtu 9000"}}, eth0("10.77.0.2/24")},
			finds: []string{"warning I05"}, text: []string{"9000", "1500", "node1", "node2"},
		},
		{
			name: "large packets vanish",
			nics: separateNetworks(2),
			setup: func(f *fleet) { // the switch passes less than its ports claim
				f.nft(2, `table inet e2e { chain in { type filter hook input priority 0; iifname "eth0" meta l4proto tcp meta length > 1400 drop; }; }`)
			},
			finds: []string{"error I05"}, text: []string{"No large packet passes within 10.37.8.0/24", "stalled"},
		},
		{
			name: "large packets vanish where the agents meet, too",
			nics: [][]nic{eth0("10.77.0.1/24"), eth0("10.77.0.2/24")},
			setup: func(f *fleet) {
				for i := range 2 {
					f.nft(i+1, `table inet e2e { chain in { type filter hook input priority 0; iifname "eth0" meta l4proto tcp meta length > 1400 drop; }; }`)
				}
			},
			finds: []string{"error I05"}, text: []string{"stalled"},
		},
		{
			name:  "bond0 is missing on one node",
			nics:  [][]nic{{{name: "bond0", addrs: "10.77.0.1/24"}}, eth0("10.77.0.2/24"), {{name: "bond0", addrs: "10.77.0.3/24"}}},
			setup: func(f *fleet) { f.setenv("NCCL_SOCKET_IFNAME=bond0") },
			finds: []string{"error I01"}, text: []string{"> node2 (rank 1)", "NCCL_SOCKET_IFNAME=bond0"},
		},
		{
			name:  "asked for bond0, which is missing on one node",
			nics:  [][]nic{{{name: "bond0", addrs: "10.77.0.1/24"}}, eth0("10.77.0.2/24")},
			flags: []string{"--iface", "bond0"},
			finds: []string{"error I14"}, text: []string{"node2", "--iface bond0"},
		},
		{
			name:  "a firewall drops",
			nics:  separateNetworks(3),
			setup: func(f *fleet) { f.firewall(3, "drop") },
			finds: []string{"error I02"}, text: []string{"node3", "timed out"},
		},
		{
			name: "a firewall rejects a part of the ports",
			nics: separateNetworks(2),
			setup: func(f *fleet) {
				f.nft(2, `table inet e2e { chain in { type filter hook input priority 0; iifname "eth0" tcp dport 50000-60999 tcp flags & (syn|ack) == syn reject with tcp reset; }; }`)
			},
			finds: []string{"error I04"}, text: []string{"node2", "refused (", "open (", "net.ipv4.ip_local_port_range="},
		},
		{
			name: "other versions, and a firewall that rejects",
			nics: separateNetworks(2),
			setup: func(f *fleet) {
				f.firewall(2, "reject with tcp reset")
				f.machines[0].wheel("2.27.5")
				f.machines[1].wheel("2.19.3")
			},
			finds: []string{"error I02", "error V01"}, text: []string{"refused", "2.19.3"},
		},
		{
			name:  "a firewall rejects",
			nics:  separateNetworks(3),
			setup: func(f *fleet) { f.firewall(2, "reject with tcp reset") },
			finds: []string{"error I02"}, text: []string{"node2", "refused"},
		},
		{
			name: "a duplicate address",
			nics: func() [][]nic {
				nics := separateNetworks(3)
				nics[2][0].addrs = nics[1][0].addrs
				return nics
			}(),
			finds: []string{"error I06"}, text: []string{"10.37.8.2", "node2", "node3"},
		},
		{
			name:  "the interface that is asked for is down",
			nics:  separateNetworks(2),
			setup: func(f *fleet) { f.setenv("NCCL_SOCKET_IFNAME=eth0"); f.batch(2, "link set eth0 down\n") },
			finds: []string{"error I02", "warning I12"}, text: []string{"> node2 (rank 1)", "eth0 has no carrier"},
		},
		{
			name: "a cable is not plugged in",
			nics: func() [][]nic { nics := separateNetworks(2); nics[1][0].unplugged = true; return nics }(),
			setup: func(f *fleet) {
				f.setenv("NCCL_SOCKET_IFNAME=eth0")
				for _, m := range f.machines {
					m.wheel("2.28.3") // leaves out what has no carrier
				}
			},
			finds: []string{"error I01", "warning I12"}, text: []string{"node2", "no carrier"},
		},
		{
			name:  "loopback is asked for",
			nics:  twoMachines(),
			setup: func(f *fleet) { f.setenv("NCCL_SOCKET_IFNAME=^docker0") },
			finds: []string{"error I01"}, text: []string{"loopback"},
		},
	} {
		t.Run(s.name, s.run)
	}
}
