package e2e_test

import (
	"strings"
	"testing"
)

// TestHealthyFleet checks that on machines without findings the job runs, and gorun
// prints nothing about them.
func TestHealthyFleet(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*fleet) []string{
		"GPUs": func(f *fleet) []string {
			f.healthy()
			return []string{script}
		},
		"GPUs behind a wrapper": func(f *fleet) []string {
			f.healthy()
			return []string{"--no-python", "bash", "-lc", venv + "/bin/python " + script}
		},
		"torch on CPUs": func(f *fleet) []string {
			for _, m := range f.machines {
				m.torch(nccl)
			}
			return []string{script}
		},
		"a shell script": func(*fleet) []string { return sh("echo up $RANK") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, twoMachines())
			worker := setup(f)
			j := f.job(t, "--nproc-per-node", "2")
			agents := f.all(j, worker...)
			j.wantExit(longWait, 0, agents...)
			for _, a := range agents {
				a.waitForStdout("up", 2)
				for line := range strings.Lines(a.err.String()) {
					if strings.Contains(line, "preflight: ") && !strings.Contains(line, "preflight: waiting ") {
						t.Errorf("%s: %s", a.name, line)
					}
				}
			}
		})
	}
}

// TestPreflightGloo checks that without GPUs the preflight checks what Gloo needs.
func TestPreflightGloo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nics  [][]nic
		setup func(*fleet)
		finds []string
		text  []string
	}{
		"the host's name is loopback": {
			twoMachines(),
			func(f *fleet) {
				f.machines[1].write("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 node2\n10.77.0.1 node1\n")
			},
			[]string{"error I07"},
			[]string{"> node2 (rank 1)", "127.0.1.1", "loopback"},
		},
		"no interface of that name": {
			twoMachines(),
			func(f *fleet) { f.setenv("GLOO_SOCKET_IFNAME=eth") },
			[]string{"error I08"},
			[]string{"GLOO_SOCKET_IFNAME=eth", "eth0"},
		},
		"a firewall": {
			separateNetworks(2),
			func(f *fleet) {
				f.setenv("GLOO_SOCKET_IFNAME=eth0")
				f.firewall(2, "reject with tcp reset")
			},
			[]string{"error I02"},
			[]string{"Gloo connects every process to every other", "refused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, c.nics)
			for _, m := range f.machines {
				m.torch(nccl)
			}
			c.setup(f)
			j := f.job(t)
			table := j.refused(f.all(j, script)...)
			wantFindings(t, table, c.finds...)
			wantParts(t, table, c.text...)
		})
	}
}
