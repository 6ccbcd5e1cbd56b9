package e2e_test

import (
	"testing"
)

// TestWorkersInheritLimits checks that a worker has the limit of open files that gorun
// was started with, as under torchrun, although Go raises it for gorun's own processes.
func TestWorkersInheritLimits(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{"--standalone"}, {"--local-nodes", "2"}} {
		j := newJob(t, flags...)
		cmd := j.command(sh("echo limit $(ulimit -Sn)")...)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -Sn 777; exec "$0" "$@"`}, cmd.Args...)
		a := j.launch("limited", cmd)
		j.wantExit(longWait, 0, a)
		a.waitForStdout("limit 777", len(flags))
	}
}
