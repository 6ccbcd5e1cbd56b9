package e2e_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// container starts gorun as PID 1 of its own pid namespace, as in a container. first is
// another program as PID 1, which starts gorun.
func (j *job) container(first []string, args ...string) *agent {
	j.Helper()
	cmd := j.command(args...)
	asPID1(j, cmd, first...)
	return j.launch("container", cmd)
}

// asPID1 makes a command run as PID 1 of its own pid namespace. Its process is then
// unshare, which ends with its exit code.
func asPID1(t testing.TB, cmd *exec.Cmd, first ...string) {
	t.Helper()
	path, err := exec.LookPath("unshare")
	need(t, err == nil && os.Getuid() == 0, "unshare and root, for gorun as PID 1")
	probe := exec.Command(path, "--pid", "--fork", "--mount-proc", "true")
	if out, err := probe.CombinedOutput(); err != nil {
		need(t, false, "pid namespaces: "+string(out))
	}
	cmd.Args = slices.Concat([]string{path, "--pid", "--fork", "--mount-proc", "--kill-child"}, first, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path = path
}

// TestPID1 checks that as PID 1 gorun reaps the orphans that become its children, and
// its exit code is the job's.
func TestPID1(t *testing.T) {
	t.Parallel()
	// A hundred orphans; then no ended process may still have an entry.
	orphans := `i=0; while [ $i -lt 100 ]; do (sleep 0.01 &); i=$((i + 1)); done; sleep 0.5; ` +
		`echo zombies $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '); echo keeper is $(tr '\0' ' ' </proc/1/cmdline); `
	for name, c := range map[string]struct {
		end  string
		code int
	}{"success": {"exit 0", 0}, "failure": {"exit 3", 3}, "killed": {"kill -KILL $$", 137}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			a := j.container(nil, with(sh(orphans+c.end), "--standalone")...)
			j.wantExit(longWait, c.code, a)
			a.waitForStdout("zombies 0\n", 1)
			if !strings.Contains(a.out.String(), "keeper is "+os.Getenv(envGorun)) {
				t.Errorf("PID 1 was not gorun: %s", a.out)
			}
		})
	}
}

// TestPID1FindsNoZombie checks that a PID 1 that waits for nothing but gorun finds no
// zombie of gorun's.
func TestPID1FindsNoZombie(t *testing.T) {
	t.Parallel()
	const first = `import os, subprocess, sys, time
codes = [subprocess.Popen(sys.argv[1:]).wait() for _ in range(5)]
time.sleep(0.2) # sleep: what is left stays
dead = [s for s in (open(f'/proc/{p}/stat').read() for p in os.listdir('/proc') if p.isdigit()) if ') Z ' in s]
print('codes', codes, 'zombies', dead, flush=True)`
	j := newJob(t)
	a := j.container([]string{python(t, "subprocess"), "-c", first}, with(sh("exit 0"), "--standalone")...)
	j.wantExit(longWait, 0, a)
	a.waitForStdout("codes [0, 0, 0, 0, 0] zombies []\n", 1)
}

// TestPID1Signal checks that the signals of `docker stop` and of Ctrl-C reach the
// workers through PID 1.
func TestPID1Signal(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a := j.container(nil, with(sh(noteSignals), "--standalone")...)
	a.waitForStdout("up", 1)
	pid := 0
	for _, p := range j.processes() {
		if p.parent == a.keeper() {
			pid = p.pid // PID 1 in the namespace
		}
	}
	if pid == 0 {
		t.Fatal("no process below unshare")
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	j.wantExit(shortWait, 143, a)
	if got := j.signalsOf(0); got != "TERM" {
		t.Errorf("the worker got %q", got)
	}
}

// TestPID1AgentKilled checks that the exit code shows the agent's death below PID 1.
func TestPID1AgentKilled(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a := j.container(nil, with(sh(printRankForever), "--standalone")...)
	a.waitForStdout("up", 1)
	keeper := 0
	for _, p := range j.processes() {
		if p.parent == a.keeper() {
			keeper = p.pid
		}
	}
	for _, p := range j.processes() {
		if p.parent == keeper {
			j.kill(p.pid)
		}
	}
	j.wantExit(shortWait, 137, a)
}
