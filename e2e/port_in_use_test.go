package e2e_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSecondJobAtOneEndpoint checks that a second job at the same endpoint ends with the
// command that starts it beside the first one, which works when it is pasted.
func TestSecondJobAtOneEndpoint(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	for _, a := range j.nodes(2, sh(printRankForever)...) {
		a.waitForStdout("up", 1)
	}
	second := newJob(t)
	second.endpoint = j.endpoint
	nodes := second.nodes(2, "/bin/echo", "it's $HOME")
	second.wantExit(longWait, 75, nodes...)
	var again []*agent
	for _, a := range nodes {
		_, command, ok := strings.Cut(a.lastLine(), "on this node: gorun ")
		if !ok {
			t.Fatalf("%s suggests nothing: %s", a.name, a.lastLine())
		}
		cmd := second.command()
		pasted := exec.Command("/bin/sh", "-c", "exec "+cmd.Path+" "+command)
		pasted.Env, pasted.SysProcAttr = cmd.Env, cmd.SysProcAttr
		again = append(again, second.launch(a.name, pasted))
	}
	second.wantExit(longWait, 0, again...)
	for _, a := range again {
		a.waitForStdout("it's $HOME\n", 1)
	}
	j.agents[0].signal(15)
	j.wantExit(longWait, 143, j.agents...)
}
