package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// check starts gorun check on every machine, each saving its facts.
func (f *fleet) check(j *job, args ...string) []*agent {
	j.Helper()
	var out []*agent
	for i, m := range f.machines {
		cmd := j.command()
		cmd.Args = append(append([]string{
			cmd.Path, "check", "--nnodes", "2", "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id,
			"--save", save(j, i+1),
		}, j.flags...), args...)
		out = append(out, j.launch(m.Host, m.on(cmd)))
	}
	return out
}

// offline compares the facts that were saved.
func (j *job) offline(args ...string) (out string, code int) {
	j.Helper()
	cmd := j.command()
	cmd.Args = append(append(append([]string{cmd.Path, "check", "--from"}, j.flags...), args...), save(j, 1), save(j, 2))
	b, err := cmd.Output()
	if e, ok := err.(*exec.ExitError); ok {
		return string(b) + string(e.Stderr), e.ExitCode()
	}
	if err != nil {
		j.Fatal(err)
	}
	return string(b), 0
}

// TestCheck checks that gorun check prints the same on every node as a job would, and
// starts nothing. It has the same findings from the facts that it saved.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		setup  func(*fleet)
		flags  []string
		code   int
		finds  []string
		prints string
	}{
		{"healthy", nil, []string{"--strict"}, 0, nil, "preflight: nothing found on 2 nodes\n"},
		{"versions", func(f *fleet) { f.machines[1].wheel("2.19.3") }, nil, 78, []string{"error V01"}, "2.19.3"},
		{"warning", func(f *fleet) { f.setenv("NCCL_P2P_DISABLE=1") }, nil, 0, []string{"warning E02"}, "NCCL_P2P_DISABLE=1"},
		{"strict", func(f *fleet) { f.setenv("NCCL_P2P_DISABLE=1") }, []string{"--strict"}, 1, []string{"warning E02"}, "NCCL_P2P_DISABLE=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, twoMachines()).healthy()
			if c.setup != nil {
				c.setup(f)
			}
			j := f.job(t)
			agents := f.check(j, append(c.flags, script)...)
			j.wantExit(longWait, c.code, agents...)
			for _, a := range agents {
				wantFindings(t, a.out.String(), c.finds...)
				wantParts(t, a.out.String(), c.prints)
				if a.out.String() != agents[0].out.String() {
					t.Errorf("%s prints:\n%s\n%s prints:\n%s", agents[0].name, agents[0].out, a.name, a.out)
				}
				if strings.Contains(a.out.String(), "up ") {
					t.Errorf("%s started a worker", a.name)
				}
			}
			out, code := j.offline(c.flags...)
			if code != c.code || out != agents[0].out.String() {
				t.Errorf("from the saved facts: exit code %d, want %d:\n%s", code, c.code, out)
			}
		})
	}
}

// TestCheckMissingProgram checks that if a program is not on every node, gorun check
// prints what a job would, and exits with the same code.
func TestCheckMissingProgram(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines())
	f.machines[0].write(script, "print('up')")
	j := f.job(t)
	agents := f.check(j, script)
	j.wantExit(longWait, 2, agents...)
	for _, a := range agents {
		wantParts(t, a.err.String(), "node node2 (10.77.0.2) could not be started: no such program: "+script)
		if a.out.String() != "" {
			t.Errorf("%s prints:\n%s", a.name, a.out)
		}
	}
}

// TestCheckJSON checks that with --json every node prints the same list.
func TestCheckJSON(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines()).healthy()
	f.machines[1].wheel("2.19.3")
	j := f.job(t)
	agents := f.check(j, "--json", script)
	j.wantExit(longWait, 78, agents...)
	offline, code := j.offline("--json")
	if code != 78 {
		t.Errorf("from the saved facts: exit code %d", code)
	}
	for name, text := range map[string]string{"node1": agents[0].out.String(), "node2": agents[1].out.String(), "offline": offline} {
		var found []struct {
			ID, Severity, Title, Text, Fix string
			Values                         []struct {
				Value string
				Nodes []int
				Names []string
			}
		}
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
			continue
		}
		if len(found) != 1 || found[0].ID != "V01" || found[0].Severity != "error" || len(found[0].Values) != 2 || found[0].Fix == "" ||
			!slices.Equal(found[0].Values[1].Names, []string{"node2"}) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestCheckAlone checks that on one node alone gorun check looks at this node.
func TestCheckAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, [][]nic{eth0("10.77.0.1/24")}).healthy()
	m := f.machines[0]
	m.nvml("gpus 2 broken 1")
	j := f.job(t)
	cmd := j.command()
	cmd.Args = append([]string{cmd.Path, "check"}, j.flags...)
	a := j.launch(m.Host, m.on(cmd))
	j.wantExit(longWait, 78, a)
	wantFindings(t, a.out.String(), "error D04")
}

// TestCheckRefuses checks that gorun check refuses what it cannot do, before it does
// anything.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	there := j.dir + "/facts.json"
	for _, c := range []struct {
		args []string
		text string
	}{
		{[]string{"check", "--save", "/no/such/folder/x.json"}, "--save /no/such/folder/x.json: there is no folder /no/such/folder"},
		{[]string{"check", "--ignore", "v01,nccl-versoin"}, "cannot use --ignore nccl-versoin: there is no such check"},
		{[]string{"check", "--from", there, there}, "facts.json"},
		{[]string{"help", "nonsense"}, `there is no help for "nonsense"`},
		{[]string{"check", "--local-nodes", "2", "--save", there}, "cannot use --save together with --local-nodes 2"},
	} {
		cmd := j.command()
		cmd.Args = append(cmd.Args[:1], c.args...)
		b, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(b), c.text) {
			t.Errorf("%q: %v, want exit code 2 and %q:\n%s", c.args, err, c.text, b)
		}
	}
	if _, err := os.Stat(there); err == nil {
		t.Errorf("%s was written", there)
	}
}

// TestCheckDoesNotMentionWorkers checks that gorun check does not mention what gorun
// sets for workers, because it starts none.
func TestCheckDoesNotMentionWorkers(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	cmd := j.command()
	cmd.Args = append(cmd.Args[:1], "check", "--nproc-per-node", "2")
	cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "OMP_NUM_THREADS=") })
	if b, _ := cmd.CombinedOutput(); strings.Contains(string(b), "OMP_NUM_THREADS") || !strings.Contains(string(b), "preflight: ") {
		t.Errorf("%s", b)
	}
}

// TestRefusedReport checks that the report of a refused job has its findings, its time
// and its code.
func TestRefusedReport(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoMachines()).healthy()
	f.machines[1].wheel("2.19.3")
	j := f.job(t)
	j.refused(f.all(j, "--report", j.dir+"/report", script)...)
	if r := j.report("report"); r.ExitCode != 78 || r.Cause == nil || r.Cause.ExitCode != 78 || r.Cause.Time.Before(r.Started) {
		t.Errorf("%+v with cause %+v", r, r.Cause)
	}
	if b, err := os.ReadFile(j.dir + "/report"); err != nil || !strings.Contains(strings.Join(strings.Fields(string(b)), ""), `"names":["node2"]`) {
		t.Errorf("no names (%v) in %s", err, b)
	}
}
