package e2e_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAgentCannotGoOn checks that when one node's gorun cannot go on, every node ends
// with the same code and the same first cause.
func TestAgentCannotGoOn(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("prlimit")
	need(t, err == nil, "prlimit")
	// The store of the next round needs a descriptor, and the agent of node 0 has
	// none left when its worker fails.
	starve := `echo up; while [ ! -e $E2E_DIR/go ]; do sleep 0.05; done; [ $RANK = 1 ] && exec sleep 1000; prlimit --pid $PPID --nofile=3:3; exit 7`
	for restarts := range 2 {
		t.Run(fmt.Sprint(restarts, " restarts"), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--max-restarts", fmt.Sprint(restarts))
			agents := j.nodes(2, sh(starve)...)
			for _, a := range agents {
				a.waitForStdout("up", 1)
			}
			j.touch("go")
			j.wantExit(shortWait, 7, agents...)
			j.wantCause(agents, "rank 0", "exited with code 7")
			j.wantSameCause(agents...)
			for _, a := range agents {
				stderr := strings.Contains(a.err.String(), "cannot open a store for the next round")
				if stderr != (restarts > 0) {
					t.Errorf("%s names the store: %v", a.name, stderr)
				}
			}
		})
	}
}

// TestKilledAgentLeavesNoFiles asserts that the keeper removes the worker socket, empty
// log folders and the files of a build.
func TestKilledAgentLeavesNoFiles(t *testing.T) {
	t.Parallel()
	left := func(j *job) (names []string) {
		entries, err := os.ReadDir(j.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "gorun-") || strings.HasPrefix(e.Name(), "go-build") || strings.HasPrefix(e.Name(), "torchelastic_") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	for _, flags := range [][]string{{"--standalone"}, {"--local-nodes", "2"}} {
		t.Run(flags[0], func(t *testing.T) {
			t.Parallel()
			j := newJob(t, flags...)
			j.env = []string{"TMPDIR=" + j.dir}
			a := j.run("gorun", sh(printRankForever)...)
			a.waitForStdout("up", 1)
			if n := len(left(j)); n == 0 {
				t.Error("no socket: this test looks at the wrong folder")
			}
			j.kill(a.pid())
			j.wantExit(shortWait, 137, a)
			if names := left(j); len(names) > 0 {
				t.Errorf("left: %v", names)
			}
		})
	}
	t.Run("build", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		tool := j.write("bin/go", "#!/bin/sh\nmkdir ${GOTMPDIR:-$TMPDIR}/go-build1\necho building\ntouch $E2E_DIR/builds\nexec sleep 1000\n", 0o700)
		j.env = []string{"TMPDIR=" + j.dir, "PATH=" + filepath.Dir(tool) + ":" + os.Getenv("PATH")}
		a := j.run("gorun", j.write("prog.go", "package main\n", 0o600))
		eventually(t, longWait, "the build has begun", func() bool {
			_, err := os.Stat(filepath.Join(j.dir, "builds"))
			return err == nil
		})
		if !slices.ContainsFunc(left(j), func(name string) bool { return strings.HasSuffix(name, ".build") }) {
			t.Errorf("no folder for the build: %v", left(j))
		}
		j.kill(a.pid())
		j.wantExit(shortWait, 137, a)
		if names := left(j); len(names) > 0 {
			t.Errorf("left: %v", names)
		}
	})
}

// TestSignalAtStart checks that an agent handles a signal at any moment of its start as
// it does later. The signal never kills it.
func TestSignalAtStart(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM} {
			j := newJob(t)
			a := j.run("gorun", sh("sleep 0.1")...)
			<-time.After(time.Duration(i) * 250 * time.Microsecond)
			a.signal(sig)
			<-a.done
			// USR1 may also kill the worker, and either signal gorun's first process
			// while it is hardly there.
			own := a.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
			fine := []int{0, 128 + int(sig)}
			if stderr := a.err.String(); !own && (!slices.Contains(fine, a.code) || strings.Contains(stderr, "the agent of node")) {
				t.Errorf("%v after %d steps: exit code %d: %s", sig, i, a.code, stderr)
			}
		}
	}
}

// TestStoppingIsReported checks that while workers take their time to end, gorun says
// how long they may and how to have it faster.
func TestStoppingIsReported(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a := j.run("gorun", sh(`trap "" TERM INT; `+printRankForever)...)
	a.waitForStdout("up", 1)
	a.signal(syscall.SIGINT)
	a.waitForStderr("s (Ctrl-C again kills them now)")
	a.signal(syscall.SIGINT)
	j.wantExit(shortWait, 130, a)
}

// TestReportNamesLogs checks that the report of a failure names the files that have the
// worker's output.
func TestReportNamesLogs(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a := j.run("gorun", with(sh("echo out; echo err >&2; exit 3"), "-r", "1", "-t", "2", "--log-dir", j.dir)...)
	j.wantExit(shortWait, 3, a)
	for _, name := range []string{"stdout.log", "stderr.log"} {
		found, _ := filepath.Glob(filepath.Join(j.dir, "*", "attempt_0", "0", name))
		if len(found) != 1 || !strings.Contains(a.err.String(), found[0]) {
			t.Errorf("%s is not named: %v", name, found)
		}
	}
}

// The port of a node's own endpoint belongs to another program: it says so soon,
// long before the nodes' time is over.
func TestEndpointPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	j := newJob(t)
	j.endpoint = l.Addr().String()
	j.wantExit(longWait, 1, j.node(1, "2", sh("exit 0")...))
	j.wantCause(j.agents, j.endpoint, "used by another program")
}
