package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// writeUntilGo makes the script of every machine run until the job's folder has a file
// go. In the first round rank 0 ends it with a file fail, and rank 1 takes its
// time to end.
func (f *fleet) writeUntilGo() {
	for _, m := range f.machines {
		m.write(script, `import os, signal, sys, time
dir, rank = os.environ["E2E_DIR"], os.environ["RANK"]
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if first and rank == "1":
    signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.5), os._exit(1)))
print("up", rank, "of", os.environ["WORLD_SIZE"], flush=True)
while not os.path.exists(dir + "/go"):
    if first and rank == "0" and os.path.exists(dir + "/fail"):
        sys.exit(5)
    time.sleep(0.02)
`)
	}
}

// elastic starts a job of two or three nodes on the first two of three machines.
// The third one sees the workers of the others, since simulated machines share
// their processes: R05 is not looked at.
func elastic(t *testing.T, setup func(*fleet), flags ...string) (f *fleet, j *job, two []*agent) {
	t.Helper()
	f = newFleet(t, append(twoMachines(), eth0("10.77.0.3/24"))).healthy()
	f.writeUntilGo()
	setup(f)
	j = f.job(t, append([]string{"--max-restarts", "1", "--rdzv-conf", "last_call_timeout=1", "--ignore", "R05,L02"}, flags...)...)
	for i := range 2 {
		two = append(two, f.start(j, i+1, "2:3", script))
	}
	for _, a := range two {
		a.waitForStdout("of 2", 1)
	}
	return f, j, two
}

// A node joins while the job runs or restarts, and has an error. Only this node is
// refused, with the table; the job goes on.
func TestPreflightLateNode(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			t.Parallel()
			f, j, two := elastic(t, func(f *fleet) { f.machines[2].wheel("2.19.3") })
			if restart {
				j.touch("fail")
				two[0].waitForStderr("stopping the workers")
			}
			late := f.start(j, 3, "2:3", script)
			table := j.wantRefused(late)
			wantFindings(t, table, "error V01")
			wantParts(t, table, "> node3 (rank 2)", "2.19.3", "node1, node2 (ranks 0-1)", "2.27.5")
			if restart {
				two[0].waitForStdout("of 2", 2)
			}
			j.touch("go")
			j.wantExit(longWait, 0, two...)
			for _, a := range two {
				if strings.Contains(a.out.String(), "of 3") || a.table() != "" {
					t.Errorf("%s: %s%s", a.name, a.out, a.err)
				}
			}
		})
	}
}

// TestPreflightAtRestart checks that a node without findings is taken in, at once or
// with --on-join=wait at the restart, and gorun prints nothing about it.
func TestPreflightAtRestart(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprint("wait ", wait), func(t *testing.T) {
			t.Parallel()
			how := "restart"
			if wait {
				how = "wait"
			}
			f, j, two := elastic(t, func(*fleet) {}, "--on-join", how)
			third := f.start(j, 3, "2:3", script)
			if wait {
				third.waitForStderr("the job runs on ")
				j.touch("fail")
			}
			third.waitForStdout("up 2 of 3", 1)
			j.touch("go")
			j.wantExit(longWait, 0, append(two, third)...)
			for _, a := range j.agents {
				if a.table() != "" {
					t.Errorf("%s: %s", a.name, a.err)
				}
			}
		})
	}
}

// wantRefused asserts that only this agent was refused, and returns its table.
func (j *job) wantRefused(a *agent) string {
	j.Helper()
	j.wantExit(longWait, 78, a)
	if out := a.out.String(); out != "" {
		j.Errorf("%s: a worker was started: %s", a.name, out)
	}
	return a.table()
}

// TestPreflightChoice checks that the user chooses what an error leads to.
func TestPreflightChoice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		flags []string
		finds []string
	}{
		{"warn", []string{"--preflight", "warn"}, []string{"error V01"}},
		{"off", []string{"--preflight=off"}, nil},
		{"ignore", []string{"--ignore", "v01,L02"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, twoMachines()).healthy()
			f.machines[1].wheel("2.19.3")
			j := f.job(t, c.flags...)
			agents := f.all(j, script)
			j.wantExit(longWait, 0, agents...)
			tables := 0
			for _, a := range agents {
				a.waitForStdout("up", 1)
				if table := a.table(); table != "" {
					tables++
					wantFindings(t, table, c.finds...)
				}
			}
			if want := min(1, len(c.finds)); tables != want {
				t.Errorf("%d tables, want %d", tables, want)
			}
		})
	}
}

// save returns the file in which machine i saves its facts.
func save(j *job, i int) string { return filepath.Join(j.dir, fmt.Sprintf("node%d.json", i)) }
