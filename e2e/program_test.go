package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// write makes a file in the job's folder.
func (j *job) write(name, text string, mode os.FileMode) string {
	j.Helper()
	path := filepath.Join(j.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		j.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		j.Fatal(err)
	}
	return path
}

// TestProgramMissingOnOneNode checks that a program that one node does not have starts
// nowhere: every node ends with 2 and names the node and the program.
func TestProgramMissingOnOneNode(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*job) []string{
		"no such file": func(j *job) []string { return []string{j.dir + "/absent"} },
		"no such name": func(*job) []string { return []string{"e2e-no-such-program"} },
		"not executable": func(j *job) []string {
			return []string{"--no-python", j.write("prog", "#!/bin/sh\nexit 0\n", 0o600)}
		},
		"no permission on a binary": func(j *job) []string { return []string{j.write("prog", "\x7fELF", 0o600)} },
	} {
		for target, where := range []string{"endpoint", "member"} {
			t.Run(name+" at "+where, func(t *testing.T) {
				t.Parallel()
				j := newJob(t)
				bad := prepare(j)
				agents := make([]*agent, 2)
				for i := range agents {
					args := sh("touch $E2E_DIR/started")
					if i == target {
						args = bad
					}
					agents[i] = j.node(i+1, "2", args...)
				}
				j.wantExit(shortWait, 2, agents...)
				j.wantCause(agents, agents[target].name, "could not be started", bad[len(bad)-1])
				j.wantSameCause(agents...)
				if _, err := os.Stat(j.dir + "/started"); err == nil {
					t.Error("a worker was started")
				}
			})
		}
	}
}

// TestProgramNotExecutableByKernel checks that a script whose interpreter is missing is
// refused before any worker is started.
func TestProgramNotExecutableByKernel(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	bad := j.write("prog", "#!/nonexistent/interpreter\n", 0o700)
	agents := []*agent{j.node(1, "2", sh(printRankForever)...), j.node(2, "2", bad)}
	j.wantExit(longWait, 2, agents...)
	j.wantCause(agents, "127.0.0.2", "could not be started", bad)
	j.wantSameCause(agents...)
}

// playSilent makes the test binary a program that alone sees a file system which answers
// nothing, as one whose server is lost. Its arguments are a folder, a program and the
// program's arguments; descriptor 3 is /dev/fuse.
const playSilent = "silent"

// enterSilent mounts the file system and becomes the program. It returns only when it fails.
func enterSilent(args []string) int {
	const fuse = 3
	unix.CloseOnExec(fuse) // the test keeps it open
	// The namespace belongs to this thread, and exec makes it the process's only thread.
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNS)
	if err == nil {
		err = mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err == nil {
		err = mount("none", args[0], "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse))
	}
	if err == nil {
		err = os.NewSyscallError("exec "+args[1], syscall.Exec(args[1], args[1:], os.Environ()))
	}
	fmt.Fprintf(os.Stderr, "[e2e: cannot mount a silent file system: %v]\n", err)
	return 1
}

// launchWithSilentFolder starts a command that alone sees a silent file system at dir.
func (j *job) launchWithSilentFolder(dir string, cmd *exec.Cmd) *agent {
	j.Helper()
	need(j, os.Geteuid() == 0, "root, to mount a file system")
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	need(j, err == nil, "/dev/fuse")
	j.Cleanup(func() { fuse.Close() })
	self, err := os.Executable()
	if err != nil {
		j.Fatal(err)
	}
	cmd.Args = append([]string{self, playFlag, playSilent, dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = self
	cmd.ExtraFiles = []*os.File{fuse}
	return j.launch("silent", cmd)
}

// TestSilentFileSystem checks that gorun says what it waits for where a file system does
// not answer, and ends at a signal.
func TestSilentFileSystem(t *testing.T) {
	t.Parallel()
	silent := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"program":     {[]string{silent + "/train.py"}, "looking for the program " + silent + "/train.py"},
		"logs":        {append([]string{"-t", "3", "--log-dir", silent + "/logs"}, sh("exit 0")...), "making the folder of the log files"},
		"report":      {append([]string{"--report", silent + "/report"}, sh("exit 0")...), "looking for the folder of --report " + silent + "/report"},
		"local nodes": {[]string{"--local-nodes", "2", silent + "/train.py"}, "looking for the program " + silent + "/train.py"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			flags := []string{"--standalone"}
			if c.args[0] == "--local-nodes" {
				flags = nil
			}
			a := j.launchWithSilentFolder(silent, j.command(append(flags, c.args...)...))
			a.waitForStderr("still " + c.says)
			a.signal(syscall.SIGTERM)
			j.wantExit(shortWait, 143, a)
		})
	}
}

// TestGoPackageDoesNotCompile checks that a Go package that does not compile on one node
// ends the job with 1. That node prints the compiler's output, once. The other node
// names it and prints the first line.
func TestGoPackageDoesNotCompile(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	j.goPackages()
	agents := []*agent{j.node(1, "2", j.dir+"/good"), j.node(2, "2", j.dir+"/bad")}
	j.wantExit(2*longWait, 1, agents...)
	j.wantCause(agents, "127.0.0.2", "could not be started")
	agents[1].wantStderrOnce("undefined: undefinedThing", "undefined: otherThing")
	j.wantCause(agents[:1], "cannot build "+j.dir+"/bad: ./more.go:3:9: undefined: undefinedThing")
	if strings.Contains(agents[0].err.String(), "otherThing") {
		t.Error("a node shows another node's compiler output")
	}
}

// TestGoPackageDoesNotCompileHere checks that of the nodes of one machine only one
// prints the compiler's output, and a single node prints it too. The report has it.
func TestGoPackageDoesNotCompileHere(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"1": nil, "3": {"--local-nodes", "3"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, flags...)
			j.goPackages()
			a := j.run("job", "--report", j.dir+"/report", j.dir+"/bad")
			j.wantExit(2*longWait, 1, a)
			j.wantCause(j.agents, "could not be started", "does not build")
			a.wantStderrOnce("undefined: undefinedThing", "undefined: otherThing")
			if c := j.report("report").Cause; c == nil || !strings.Contains(c.Message, "undefined: undefinedThing") || !strings.Contains(c.Traceback, "undefined: otherThing") {
				t.Errorf("cause %+v", c)
			}
		})
	}
}

// goPackages makes the folders good and bad.
func (j *job) goPackages() {
	j.Helper()
	for _, name := range []string{"good", "bad"} {
		j.write(name+"/go.mod", "module example.com/prog\n\ngo 1.21\n", 0o600)
		j.write(name+"/main.go", "package main\n\nfunc main() {}\n", 0o600)
	}
	j.write("bad/more.go", "package main\n\nvar _ = undefinedThing\nvar _ = otherThing\n", 0o600)
}

// wantStderrOnce asserts that the agent has printed each of the texts once.
func (a *agent) wantStderrOnce(texts ...string) {
	a.j.Helper()
	for _, text := range texts {
		if n := strings.Count(a.err.String(), text); n != 1 {
			a.j.Errorf("%s says %q %d times", a.name, text, n)
		}
	}
}

// TestProgramMissingOnLocalNodes checks that if several nodes of one machine lack a
// program, only the first of them says so.
func TestProgramMissingOnLocalNodes(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--local-nodes", "3")
	a := j.run("job", "./e2e-no-such-program")
	j.wantExit(shortWait, 2, a)
	j.wantCause(j.agents, "no such program: ./e2e-no-such-program")
	if n := strings.Count(a.err.String(), "no such program"); n > 2 {
		t.Errorf("printed %d times", n)
	}
}

// TestProgramMissing checks that on a single node a wrong program counts as a wrong
// command line.
func TestProgramMissing(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	a := j.run("alone", "e2e-no-such-program")
	j.wantExit(shortWait, 2, a)
	j.wantCause(j.agents, "gorun: no such program: e2e-no-such-program")
}
