package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/porttest"
)

const (
	envToken  = "E2E_TOKEN"      // marks every process of a job
	envDir    = "E2E_DIR"        // the job's folder, for its workers
	longWait  = 30 * time.Second // bound for what must happen at all
	shortWait = 15 * time.Second // bound for what must not take long, on a busy machine
)

// job has the agents of one run on this machine and all that they started.
type job struct {
	testing.TB
	token    string
	id       string   // --rdzv-id
	endpoint string   // --rdzv-endpoint
	dir      string   // scratch
	flags    []string // flags of every agent
	env      []string // environment of every agent, besides this process's
	wd       string   // working directory of every agent
	agents   []*agent
}

var jobs atomic.Int64

// newJob makes a job without agents; each agent will get the flags. When the test ends,
// no process of the job may be left.
func newJob(t testing.TB, flags ...string) *job {
	t.Helper()
	n := jobs.Add(1)
	j := &job{
		TB: t, token: fmt.Sprintf("%s=%d.%d", envToken, os.Getpid(), n), id: fmt.Sprintf("e2e-%d", n),
		endpoint: fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, "")), dir: t.TempDir(), flags: flags,
	}
	t.Cleanup(func() {
		j.wantNoProcess()
		j.killAll()
		for _, a := range j.agents {
			<-a.done
		}
		if t.Failed() {
			j.dump()
		}
	})
	return j
}

// hideGPUs is the entry of an environment that hides all GPUs.
const hideGPUs = "CUDA_VISIBLE_DEVICES="

// command makes the command of gorun with the job's flags and environment.
func (j *job) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Getenv(envGorun), append(append([]string{}, j.flags...), args...)...)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", j.token, envDir+"="+j.dir)
	if _, err := os.Stat("/dev/nvidiactl"); err == nil { // these workers need no GPU, and may be more than there are
		cmd.Env = append(cmd.Env, hideGPUs)
	}
	cmd.Env = append(cmd.Env, j.env...)
	cmd.Dir = j.wd
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

// run starts one agent with the given arguments.
func (j *job) run(name string, args ...string) *agent {
	j.Helper()
	return j.launch(name, j.command(args...))
}

// node starts the agent of 127.0.0.i, in a job that meets at the endpoint. The
// arguments, flags and program, come after --nnodes.
func (j *job) node(i int, nnodes string, args ...string) *agent {
	j.Helper()
	addr := fmt.Sprintf("127.0.0.%d", i)
	return j.run(addr, append([]string{
		"--nnodes", nnodes, "--rdzv-endpoint", j.endpoint, "--rdzv-id", j.id, "--local-addr", addr,
	}, args...)...)
}

// nodes starts n agents at 127.0.0.1 to n.
func (j *job) nodes(n int, args ...string) []*agent {
	j.Helper()
	return j.nodesOf(fmt.Sprint(n), n, args...)
}

// nodesOf starts n agents with --nnodes nnodes, at 127.0.0.1 and on.
func (j *job) nodesOf(nnodes string, n int, args ...string) []*agent {
	j.Helper()
	var out []*agent
	for i := range n {
		out = append(out, j.node(i+1, nnodes, args...))
	}
	return out
}

// sh makes the arguments of a worker that is a shell script. As torchrun does,
// gorun turns $$ in arguments into $.
func sh(script string) []string {
	return []string{"/bin/sh", "-c", strings.ReplaceAll(script, "$$", "$$$$")}
}

// with joins flags and a program.
func with(program []string, flags ...string) []string {
	return append(append([]string{}, flags...), program...)
}

// wantExit waits until all agents have ended, each with code.
func (j *job) wantExit(limit time.Duration, code int, agents ...*agent) {
	j.Helper()
	deadline := time.Now().Add(limit)
	for _, a := range agents {
		if got := a.wait(time.Until(deadline)); got != code {
			j.Errorf("%s: exit code %d, want %d", a.name, got, code)
		}
	}
}

// wantCause asserts that the last line of each agent, which names the cause, has all the
// texts.
func (j *job) wantCause(agents []*agent, texts ...string) {
	j.Helper()
	for _, a := range agents {
		line := a.lastLine()
		for _, text := range texts {
			if !strings.Contains(line, text) {
				j.Errorf("%s: no %q in the last line: %s", a.name, text, line)
			}
		}
	}
}

// wantSameCause asserts that all agents name the same cause.
func (j *job) wantSameCause(agents ...*agent) {
	j.Helper()
	for _, a := range agents[1:] {
		if a.lastLine() != agents[0].lastLine() {
			j.Errorf("%s says:\n%s\n%s says:\n%s", agents[0].name, agents[0].lastLine(), a.name, a.lastLine())
		}
	}
}

func (j *job) dump() {
	for _, a := range j.agents {
		j.Logf("--- %s: exit code %d after %v\n--- stdout\n%s--- stderr\n%s", a.name, a.code,
			a.ended.Sub(a.began).Round(time.Millisecond), clip(a.out.String()), clip(a.err.String()))
	}
}

func clip(s string) string {
	const most = 6000
	if len(s) > most {
		return s[:most/2] + "\n[...]\n" + s[len(s)-most/2:]
	}
	return s
}

// eventually polls a condition.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) { // sleep: between two looks
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// need skips the test on a laptop and fails it in CI when a part is missing.
func need(t testing.TB, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing: %s", what)
	}
	t.Skipf("missing: %s", what)
}
