package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAbort checks that an abort on any node, a spare included, ends all nodes in the
// same way, even with restarts left.
func TestAbort(t *testing.T) {
	t.Parallel()
	for from, where := range []string{"the endpoint", "a member", "a spare"} {
		t.Run("on "+where, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--max-restarts", "3")
			agents := j.nodes(2, sh(printRankForever)...)
			for _, a := range agents {
				a.waitForStdout("up", 1)
			}
			agents = append(agents, j.node(3, "2", sh(printRankForever)...))
			agents[2].waitForStderr("the job runs on ")
			out, stderr, code := runClient(t, agents[from].client("abort", "-m", "wrong learning rate"))
			if code != 0 || !strings.Contains(out, "aborted run "+j.id) || from < 2 && !strings.Contains(out, ": 2 nodes") {
				t.Errorf("exit code %d, %q, %q", code, out, stderr)
			}
			j.wantExit(longWait, 143, agents...)
			j.wantCause(agents, "the job was aborted by ", fmt.Sprintf("(127.0.0.%d): wrong learning rate", from+1))
			j.wantSameCause(agents...)
			j.wantNoProcess()
		})
	}
}

// TestSecondAbortKills checks that workers that ignore SIGTERM get the grace period,
// unless the user aborts twice.
func TestSecondAbortKills(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--shutdown-timeout", "300")
	agents := j.nodes(2, sh(`trap "" TERM; echo up; while :; do sleep 0.1; done`)...)
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	for range 2 {
		if !agents[1].running() {
			t.Fatal("one order was enough")
		}
		if _, stderr, code := runClient(t, agents[1].client("abort")); code != 0 {
			t.Fatalf("exit code %d, %s", code, stderr)
		}
		agents[0].waitForStderr("the job was aborted")
	}
	j.wantExit(longWait, 143, agents...)
	j.wantSameCause(agents...)
}

// TestStatusOfAnotherUser checks that another user gets no status and cannot abort the
// job, unless this user proves the job's secret.
func TestStatusOfAnotherUser(t *testing.T) {
	t.Parallel()
	need(t, os.Geteuid() == 0, "root, to become another user")
	j := newJob(t)
	j.env = []string{"GORUN_SECRET=" + jobSecret}
	a := j.node(1, "1", sh(printRankForever)...)
	a.waitForStdout("up", 1)
	bin := reachable(t, os.Getenv(envGorun))
	for _, tt := range []struct {
		secret string
		ok     bool
	}{{"", false}, {otherSecret, false}, {jobSecret, true}} {
		for _, command := range []string{"status", "abort"} {
			cmd := a.client(command)
			cmd.Path, cmd.Dir = bin, "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if tt.secret != "" {
				cmd.Env = append(os.Environ(), "GORUN_SECRET="+tt.secret)
			}
			out, stderr, code := runClient(t, cmd)
			switch {
			case tt.ok && (code != 0 || !strings.Contains(out, j.id)):
				t.Errorf("%s with the secret: exit code %d, %q, %q", command, code, out, stderr)
			case !tt.ok && (code != 1 || strings.Contains(out+stderr, j.id) || !strings.Contains(stderr, "no gorun job of this user")):
				t.Errorf("%s with the secret %q: exit code %d, %q, %q", command, tt.secret, code, out, stderr)
			}
			if !tt.ok && !a.running() {
				t.Fatalf("%s with the secret %q ended the job", command, tt.secret)
			}
		}
	}
	j.wantExit(longWait, 143, a)
}

// reachable copies a program to a folder in which every user may run it.
func reachable(t testing.TB, bin string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gorun-e2e-bin-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "gorun")
	// Another process copies it, because a child that this process starts at the same
	// time would hold the file open for writing, and then it cannot be executed.
	err = exec.Command("cp", bin, name).Run()
	if err = errors.Join(err, os.Chmod(name, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestStatusChoosesTheJob checks that it must be clear which job the user means. Without
// a job, gorun says so.
func TestStatusChoosesTheJob(t *testing.T) {
	t.Parallel()
	one, two := newJob(t), newJob(t)
	id := fmt.Sprintf("%s-%d-", one.id, os.Getpid())
	one.id, two.id = id+"0", id+"1"
	agents := []*agent{one.node(1, "1", sh(printRankForever)...), two.node(1, "1", sh(printRankForever)...)}
	for _, a := range agents {
		a.waitForStdout("up", 1)
	}
	_, stderr, code := runClient(t, exec.Command(os.Getenv(envGorun), "abort"))
	if code != 2 || !strings.Contains(stderr, "run "+id+"0, ") || !strings.Contains(stderr, "run "+id+"1, ") || !strings.Contains(stderr, fmt.Sprint(agents[0].keeper())) {
		t.Errorf("with two jobs: exit code %d, %q", code, stderr)
	}
	_, stderr, code = runClient(t, exec.Command(os.Getenv(envGorun), "status", "--run-id", id))
	if code != 1 || !strings.Contains(stderr, fmt.Sprintf("no gorun job %q", id)) {
		t.Errorf("with a wrong run id: exit code %d, %q", code, stderr)
	}
	if out, stderr, code := runClient(t, exec.Command(os.Getenv(envGorun), "abort", "--rdzv-id", id+"1")); code != 0 || out != "aborted run "+id+"1: 1 node\n" {
		t.Errorf("of one: exit code %d, %q, %q", code, out, stderr)
	}
	two.wantExit(longWait, 143, agents[1])
	if !agents[0].running() {
		t.Error("the other job ended, too")
	}
	agents[0].signal(syscall.SIGTERM)
	one.wantExit(longWait, 143, agents[0])
	_, stderr, code = runClient(t, agents[0].client("status"))
	if code != 1 || !strings.Contains(stderr, "no gorun job of this user") {
		t.Errorf("after the end: exit code %d, %q", code, stderr)
	}
	for _, args := range [][]string{{"status", "--what"}, {"status", "x"}, {"abort", "-m", "two\nlines"}, {"abort", "-m", strings.Repeat("x", 5000)}, {"status", "--pid", "-4"}} {
		if _, stderr, code := runClient(t, exec.Command(os.Getenv(envGorun), args...)); code != 2 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q", args[:2], code, stderr)
		}
	}
}
