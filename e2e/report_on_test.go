package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// reporters starts n nodes whose output goes to one place, as under srun.
func (j *job) reporters(n int, program ...string) (agents []*agent) {
	j.Helper()
	for i := range n {
		flags := []string{"--report-on", "first", "--node-rank", fmt.Sprint(i)}
		agents = append(agents, j.node(i+1, fmt.Sprint(n), with(program, flags...)...))
	}
	return agents
}

// reports counts the agents that printed a report. Every other agent must have printed
// one line about the end.
func (j *job) reports(agents ...*agent) (n int) {
	j.Helper()
	for _, a := range agents {
		text := a.err.String()
		switch ends := strings.Count(text, "exit code"); {
		case strings.Contains(text, "Root Cause"):
			n++
		case ends != 1 || !strings.HasPrefix(a.lastLine(), "gorun["):
			j.Errorf("%s has %d lines about the end, want one:\n%s", a.name, ends, text)
		}
	}
	return n
}

// TestFirstNodeReports checks that of many nodes that print to one place one reports a
// failure.
func TestFirstNodeReports(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	agents := j.reporters(8, sh("[ $RANK != 5 ] || exit 7; sleep 60")...)
	j.wantExit(longWait, 7, agents...)
	if n := j.reports(agents...); n != 1 || !strings.Contains(agents[0].err.String(), "Root Cause") {
		t.Errorf("%d nodes printed a report, the first one: %s", n, agents[0].err.String())
	}
	warnings := 0
	for _, a := range agents {
		warnings += strings.Count(a.err.String(), "OMP_NUM_THREADS is set")
	}
	if warnings > 1 {
		t.Errorf("%d lines about OMP_NUM_THREADS", warnings)
	}
}

// TestSecondNodeReportsLossOfFirst checks that when the first node is lost, the second
// one reports it.
func TestSecondNodeReportsLossOfFirst(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	agents := j.reporters(3, sh("echo started; sleep 60")...)
	for _, a := range agents {
		a.waitForStdout("started", 1)
	}
	agents[0].signal(syscall.SIGKILL)
	j.wantExit(longWait, 137, agents[1:]...)
	if n := j.reports(agents[1:]...); n != 1 || !strings.Contains(agents[1].err.String(), "Root Cause") {
		t.Errorf("%d nodes printed a report, the second one: %s", n, agents[1].err.String())
	}
}

// TestEachNodeSaysWhatItDoesNotFind checks that nodes that find no other node say so,
// each by itself.
func TestEachNodeSaysWhatItDoesNotFind(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--rdzv-conf", "join_timeout=6")
	agents := []*agent{
		j.node(2, "3", with(sh("true"), "--report-on", "first", "--node-rank", "1")...),
		j.node(3, "3", with(sh("true"), "--report-on", "first", "--node-rank", "2")...),
	}
	for _, a := range agents {
		a.waitForStderr("looking for the other nodes")
	}
	j.wantExit(longWait, 75, agents...)
}
