package e2e_test

import (
	"os"
	"strings"
	"testing"
)

// fakeDocker treats the environment as docker run does: only variables that -e names
// arrive. It lists the programs that it runs in the file programs.
const fakeDocker = `#!/bin/bash
shift; pass=() entry=()
while [ $# -gt 0 ]; do case $1 in
  -e) pass+=("$2=${!2}"); shift 2 ;;
  --entrypoint=*) entry=("${1#*=}"); shift ;;
  -*) shift ;;
  *) break ;;
esac; done
shift
echo "${entry[@]} $1" >> "$0.programs"
exec env -i PATH="$PATH" "${pass[@]}" "${entry[@]}" "$@"
`

func docker(j *job) (programs func() string) {
	j.Helper()
	path := j.write("docker", fakeDocker, 0o755)
	j.env = append(j.env, "PATH="+strings.TrimSuffix(path, "/docker")+":"+os.Getenv("PATH"), "NCCL_ALGO=Ring")
	return func() string {
		text, _ := os.ReadFile(path + ".programs")
		return string(text)
	}
}

// A container without -e: every node says which variables do not arrive, and prints a
// line that passes them on. That line works.
func TestContainerWithoutEnvironment(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--no-python", "--nproc-per-node", "2")
	programs := docker(j)
	run := func(options ...string) []*agent {
		line := append(append([]string{"docker", "run"}, options...), "image", "sh", "-c", "echo rank=$RANK algo=$NCCL_ALGO store=${MASTER_PORT:+yes}")
		return j.nodes(2, line...)
	}
	table := j.refused(run()...)
	wantFindings(t, table, "error E03")
	wantParts(t, table, "both nodes", "behind docker run: without RANK", "NCCL_ALGO", "docker run -e RANK -e LOCAL_RANK")
	if strings.Contains(programs(), "echo") {
		t.Errorf("the program was started: %s", programs())
	}
	_, fix, _ := strings.Cut(table, "  docker run ")
	fix, _, _ = strings.Cut(fix, " ...")
	agents := run(strings.Fields(fix)...)
	j.wantExit(longWait, 0, agents...)
	for i, a := range agents {
		a.waitForStdout("rank="+string(rune('0'+2*i))+" algo=Ring store=yes\n", 1)
		if table := a.table(); table != "" {
			t.Errorf("%s says:\n%s", a.name, table)
		}
	}
}

// TestWrapperOfOneNode checks that a single node gets the finding too; with one worker
// it is a warning.
func TestWrapperOfOneNode(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone", "--no-python")
	j.write(".bash_profile", "export NCCL_ALGO=Tree\n", 0o600)
	docker(j)
	j.env = append(j.env, "HOME="+j.dir)
	a := j.run("node", "bash", "-lc", "echo $NCCL_ALGO")
	j.wantExit(longWait, 0, a)
	wantParts(t, a.table(), "warning E03", "behind bash -l: changed: NCCL_ALGO", j.dir+"/.bash_profile sets or unsets NCCL_ALGO")

	a = j.run("node", "docker", "run", "image", "true")
	j.wantExit(longWait, 0, a)
	wantParts(t, a.table(), "warning E03", "behind docker run: without RANK")

	a = j.run("node", "timeout", "60", "sh", "-c", "exec true")
	j.wantExit(longWait, 0, a)
	if table := a.table(); table != "" {
		t.Errorf("a program that hands everything on: %s", table)
	}
}

// TestWrapperLosesRequestedVariables checks that the variables of -x and of a rank's
// devices have to arrive too. gorun checks the options of a command line without
// starting its wrappers.
func TestWrapperLosesRequestedVariables(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone", "--no-python", "--nproc-per-node", "2")
	j.write(".bash_profile", "unset MYVAR\nexport CUDA_VISIBLE_DEVICES=0\n", 0o600)
	j.env = append(j.env, "HOME="+j.dir)
	a := j.run("node", "--virtual-local-rank", "-x", "MYVAR=1", "bash", "-lc", "true")
	j.wantExit(longWait, 0, a)
	wantParts(t, strings.Join(strings.Fields(a.table()), " "), "warning E03", "behind bash -l: without MYVAR; changed: CUDA_VISIBLE_DEVICES",
		j.dir+"/.bash_profile sets or unsets MYVAR", j.dir+"/.bash_profile sets or unsets CUDA_VISIBLE_DEVICES")

	a = j.run("node", "env", "RANK=3", "true")
	j.wantExit(longWait, 0, a)
	wantParts(t, a.table(), "warning E03", "behind env: set by the command line: RANK", "do not give RANK a value of your own")
}

// TestPreviewStartsNoWrapper checks that a preview starts no wrapper, and says so.
func TestPreviewStartsNoWrapper(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"dry-run": {"run", "--dry-run"}, "env": {"env"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, append(flags, "--standalone", "--no-python", "--nproc-per-node", "2")...)
			j.write(".bash_profile", "echo >> "+j.dir+"/started\n", 0o600)
			j.env = append(j.env, "HOME="+j.dir)
			a := j.run("node", "bash", "-lc", "true")
			j.wantExit(longWait, 0, a)
			wantParts(t, a.out.String(), "not checked: which of these variables reach the program behind bash -l (E03)")
			if _, err := os.Stat(j.dir + "/started"); err == nil {
				t.Error("the login shell was started")
			}
		})
	}
}
