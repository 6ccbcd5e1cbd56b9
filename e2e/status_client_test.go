package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// jobStatus has the fields of gorun status --json that the tests read.
type jobStatus struct {
	RunID     string       `json:"run_id"`
	State     string       `json:"state"`
	Round     int          `json:"round"`
	Restart   int          `json:"restart"`
	Max       int          `json:"max_restarts"`
	WorldSize int          `json:"world_size"`
	Failure   string       `json:"last_failure"`
	Note      string       `json:"note"`
	Nodes     []nodeStatus `json:"nodes"`
}

// nodeStatus is one node of a job.
type nodeStatus struct {
	Addr      string `json:"addr"`
	GroupRank int    `json:"group_rank"`
	Standing  string `json:"standing"`
	Answered  bool   `json:"answered"`
	Trouble   string `json:"trouble"`
	PID       int    `json:"pid"`
	Keeper    int    `json:"keeper"`
	Ranks     []struct {
		Rank   int    `json:"rank"`
		PID    int    `json:"pid"`
		State  string `json:"state"`
		Output *int64 `json:"last_output_ms"`
		Seen   string `json:"output_seen"`
	} `json:"ranks"`
}

// client returns a gorun status or gorun abort that asks this agent about its job. Other
// jobs may run on the machine. An agent answers from a moment after its workers have
// started.
func (a *agent) client(command string, args ...string) *exec.Cmd {
	a.j.Helper()
	if a.running() {
		name := fmt.Sprintf("@gorun.%d.%d", os.Getuid(), a.pid())
		eventually(a.j, longWait, a.name+" can be asked", func() bool {
			sockets, _ := os.ReadFile("/proc/net/unix")
			return strings.Contains(string(sockets), name) || !a.running()
		})
	}
	return exec.Command(os.Getenv(envGorun), append([]string{command, "--pid", fmt.Sprint(a.keeper())}, args...)...)
}

// runClient runs a client and returns its standard output, its standard error and its exit
// code.
func runClient(t testing.TB, cmd *exec.Cmd) (out, errText string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(longWait, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !stop.Stop() {
		t.Fatalf("%v has not ended after %v", cmd.Args, time.Since(began))
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// status asks the agent for the status of its job.
func (a *agent) status() (s jobStatus) {
	a.j.Helper()
	out, stderr, code := runClient(a.j, a.client("status", "--json"))
	if code != 0 {
		a.j.Fatalf("status of %s: exit code %d: %s", a.name, code, stderr)
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		a.j.Fatalf("status of %s: %v: %s", a.name, err, out)
	}
	return s
}
