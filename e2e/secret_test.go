package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	jobSecret       = "one secret of the end-to-end tests"
	otherSecret     = "another secret of the end-to-end tests"
	otherSecretText = "has another secret (or none), or is of another run; give every node of a job the same --secret-file and --rdzv-id, and every job a port of its own"
)

// secretFile writes a secret and returns the flags for it.
func (j *job) secretFile(text string) []string {
	j.Helper()
	if text == "" {
		return nil
	}
	file := filepath.Join(j.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		j.Fatal(err)
	}
	return []string{"--secret-file", file}
}

// TestSecret checks that agents with one secret make a job, whichever way each of them
// got it, over several rounds. No worker has the secret, and no output and no fact shows
// it.
func TestSecret(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gossip", "static", "local nodes"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--max-restarts", "1", "--preflight", "warn")
			report := filepath.Join(j.dir, "report")
			script := sh(`env -0 >$E2E_DIR/env.$RANK; exit $((1 - TORCHELASTIC_RESTART_COUNT))`)
			file := j.secretFile(jobSecret)
			var agents []*agent
			switch kind {
			case "gossip":
				agents = append(agents, j.node(1, "2", with(script, append(file, "--report", report)...)...))
				j.env = []string{"GORUN_SECRET=" + jobSecret}
				agents = append(agents, j.node(2, "2", script...))
			case "static":
				j.env = []string{"GORUN_SECRET=" + jobSecret}
				agents = j.static(2, script...)
			case "local nodes":
				j.env = []string{"GORUN_SECRET=" + jobSecret}
				agents = []*agent{j.run("all", with(script, "--local-nodes", "2", "--report", report)...)}
			}
			j.wantExit(longWait, 0, agents...)
			for rank := range 2 {
				for name, value := range j.environ(rank) {
					if name == "GORUN_SECRET" || strings.Contains(value, jobSecret) {
						t.Errorf("rank %d has %s=%s", rank, name, value)
					}
				}
			}
			shown, _ := os.ReadFile(report)
			for _, a := range agents {
				if all := a.out.String() + a.err.String() + string(shown); strings.Contains(all, jobSecret) {
					t.Errorf("%s shows the secret: %s", a.name, all)
				}
				if strings.Contains(a.err.String(), "secret") {
					t.Errorf("%s says: %s", a.name, a.err)
				}
			}
		})
	}
}

// TestSecretIsNotInEnviron checks that no process of gorun shows the secret in
// /proc/PID/environ once workers run.
func TestSecretIsNotInEnviron(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		nodes int
	}{"one node": {[]string{"--standalone"}, 1}, "local nodes": {[]string{"--local-nodes", "2"}, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, c.flags...)
			j.env = []string{"GORUN_SECRET=" + jobSecret}
			a := j.run("job", sh(`echo up; exec sleep 1000`)...)
			a.waitForStdout("up", c.nodes)
			all := j.processes()
			for _, p := range all {
				env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
				if err != nil || bytes.Contains(env, []byte(jobSecret)) {
					t.Errorf("process %d (%s) shows the secret, or nothing (%v)", p.pid, p.cmdline, err)
				}
			}
			if len(all) < 1+c.nodes {
				t.Errorf("only %d processes were read: %v", len(all), all)
			}
			a.signal(syscall.SIGTERM)
			j.wantExit(longWait, 143, a)
		})
	}
}

// TestSecretIsNotInFacts checks that saved facts do not contain the secret.
func TestSecretIsNotInFacts(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	j.env = []string{"GORUN_SECRET=" + jobSecret}
	facts := filepath.Join(j.dir, "facts")
	a := j.run("check", "check", "--save", facts, "--json")
	a.wait(longWait)
	b, err := os.ReadFile(facts)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) || bytes.Contains(b, []byte(jobSecret)) || bytes.Contains(b, []byte("GORUN_SECRET")) {
		t.Errorf("the facts:\n%s", b)
	}
	if strings.Contains(a.err.String()+a.out.String(), "secret") {
		t.Errorf("it says: %s%s", a.out, a.err)
	}
}

// TestOtherSecret checks that agents with different secrets, with only one secret, or of
// two runs, say so within seconds. The agent that came to the wrong endpoint ends. The
// other one waits for the right agent.
func TestOtherSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, second, run string }{
		"different": {jobSecret, otherSecret, ""}, "the second has none": {jobSecret, "", ""}, "the first has none": {"", jobSecret, ""},
		"another run": {jobSecret, jobSecret, "another"},
	} {
		for _, kind := range []string{"gossip", "static"} {
			t.Run(kind+", "+name, func(t *testing.T) {
				t.Parallel()
				j := newJob(t)
				start := func(rank int, text, run string) *agent {
					args := append(j.secretFile(text), sh("echo up")...)
					if run != "" {
						args = append([]string{"--rdzv-id", run}, args...)
					}
					if kind == "gossip" {
						return j.node(rank+1, "2", args...)
					}
					_, port, _ := strings.Cut(j.endpoint, ":")
					return j.run(fmt.Sprint("node ", rank), append([]string{
						"--nnodes", "2", "--node-rank", fmt.Sprint(rank), "--master-addr", "127.0.0.1", "--master-port", port,
					}, args...)...)
				}
				first := start(0, c.first, "")
				first.waitForStderr("have 1 of 2 nodes")
				second := start(1, c.second, c.run)
				j.wantExit(shortWait, 75, second)
				j.wantCause([]*agent{second}, j.endpoint+" "+otherSecretText)
				first.waitForStderr("127.0.0.1 " + otherSecretText)
				if out := first.out.String() + second.out.String(); strings.Contains(out, "up") || !first.running() {
					t.Errorf("workers were started, or the first agent ended: %s", out)
				}
				j.wantExit(longWait, 0, start(1, c.first, ""), first)
			})
		}
	}
}

// TestOtherSecretEndsInTime checks that a job whose nodes have different secrets ends
// with 75 on both.
func TestOtherSecretEndsInTime(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=5")
	agents := []*agent{
		j.node(1, "2", append(j.secretFile(jobSecret), sh("echo up")...)...),
		j.node(2, "2", append(j.secretFile(otherSecret), sh("echo up")...)...),
	}
	j.wantExit(longWait, 75, agents...)
	for _, a := range agents {
		if !strings.Contains(a.err.String(), otherSecretText) || a.out.String() != "" {
			t.Errorf("%s says: %s%s", a.name, a.out, a.err)
		}
	}
}

// Strangers without the secret send garbage to the ports of agents with a secret. Still
// the job starts, and ends with 0.
func TestGarbageAndSecret(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gossip", "static"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.env = []string{"GORUN_SECRET=" + jobSecret}
			script := sh(untilGo)
			var agents []*agent
			if kind == "static" {
				agents = j.static(2, script...)
			} else {
				agents = []*agent{j.node(1, "2", script...)}
				agents[0].waitForStderr("have 1 of 2 nodes")
				sendGarbageToAll(t, agents[0])
				agents = append(agents, j.node(2, "2", script...))
			}
			for _, a := range agents {
				a.waitForStdout("up", 1)
				sendGarbageToAll(t, a)
			}
			j.touch("go")
			j.wantExit(shortWait, 0, agents...)
		})
	}
}

// TestSecretWarning checks that between machines, a job without a secret gets a warning,
// and one with a secret none, on every node.
func TestSecretWarning(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"with": jobSecret, "without": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 2)
			j := newJob(t)
			agents := l.nodes(j, "2", append(j.secretFile(text), sh("exit 0")...)...)
			j.wantExit(longWait, 0, agents...)
			for _, a := range agents {
				want := 0
				if text == "" {
					want = 1
				}
				if got := strings.Count(a.err.String(), "warning: this job has no secret"); got != want {
					t.Errorf("%s: %d warnings: %s", a.name, got, a.err)
				}
			}
		})
	}
}

// TestBadSecret checks that a secret that cannot be used ends gorun with 2, on every
// node, and does not show it.
func TestBadSecret(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, env, text string }{
		"no file":    {"/nonexistent/secret", "", "cannot use --secret-file /nonexistent/secret: no such file"},
		"a device":   {"/dev/zero", "", "it has more than 4096 bytes"},
		"short":      {"", "hunter2", "GORUN_SECRET: it has 7 bytes, at least 16"},
		"empty name": {"empty", "", "cannot use --secret-file without a file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--standalone")
			var flags []string
			if c.env != "" {
				j.env = []string{"GORUN_SECRET=" + c.env}
			}
			if c.file != "" {
				flags = []string{"--secret-file", strings.TrimPrefix(c.file, "empty")}
			}
			a := j.run(name, with(sh("echo up"), flags...)...)
			j.wantExit(shortWait, 2, a)
			j.wantCause([]*agent{a}, c.text)
			if s := a.err.String() + a.out.String(); strings.Contains(s, "hunter2") || strings.Contains(s, "up") {
				t.Errorf("it says: %s", s)
			}
		})
	}
}
