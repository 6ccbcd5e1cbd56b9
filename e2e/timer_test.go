package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFileTimer checks that a process whose timer has expired is killed, and that each
// round has a server.
func TestFileTimer(t *testing.T) {
	t.Parallel()
	const worker = `#!/bin/bash
set_timer() { echo "{\"version\": 1, \"pid\": $$, \"scope_id\": \"step\", \"expiration_time\": $1, \"signal\": 9}" >$TORCHELASTIC_TIMER_FILE; }
[ -p $TORCHELASTIC_TIMER_FILE ] || exit 5
if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then
	[ $RANK = 0 ] || set_timer 1.5
	while :; do sleep 0.1; done
fi
set_timer 99999999999
set_timer -1
echo done $RANK
`
	j := newJob(t, "--standalone", "--nproc-per-node=2", "--max-restarts=1")
	mine := filepath.Join(j.dir, "timers")
	for _, file := range []string{"", mine} {
		j.env = []string{"TORCHELASTIC_ENABLE_FILE_TIMER=1", "TORCHELASTIC_TIMER_FILE=" + file}
		if file == "" {
			j.env = j.env[:1]
		}
		script := j.write("worker.sh", worker, 0o755)
		a := j.run("a"+filepath.Base(file), script)
		j.wantExit(longWait, 0, a)
		a.waitForStdout("done ", 2)
		if got := a.err.String(); !strings.Contains(got, `gorun: the timer "step" of process `) || !strings.Contains(got, "SIGKILL") || !strings.Contains(got, "restart 1 of 1") {
			t.Errorf("stderr: %s", got)
		}
	}
	if _, err := os.Lstat(mine); err == nil {
		t.Error("the pipe outlives the job")
	}
	j.env = nil
	a := j.run("none", sh(`echo "timers: ${TORCHELASTIC_TIMER_FILE-none}"`)...)
	j.wantExit(longWait, 0, a)
	a.waitForStdout("timers: none\n", 2)
	j.env = []string{"TORCHELASTIC_ENABLE_FILE_TIMER=1", "TORCHELASTIC_TIMER_FILE=" + j.write("file", "mine", 0o600)}
	b := j.run("a file", sh("echo started")...)
	if b.wait(longWait) == 0 || !strings.Contains(b.err.String(), "exists and is no named pipe") || b.out.String() != "" {
		t.Errorf("a file of the user's: %q, %q", b.out.String(), b.err.String())
	}
}

// TestTorchFileTimer checks the server with torch's own client.
func TestTorchFileTimer(t *testing.T) {
	t.Parallel()
	py := python(t, "torch.distributed.elastic.timer.file_based_local_timer")
	j := newJob(t, "--standalone", "--nproc-per-node=1")
	j.env = []string{"PYTHON_EXEC=" + py, "TORCHELASTIC_ENABLE_FILE_TIMER=1"}
	script := j.write("timer.py", `
import os, time
import torch.distributed.elastic.timer as timer
client = timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"])
timer.configure(client)
with timer.expires(after=600, scope="fine"):
    print("in time", flush=True)
with timer.expires(after=0.5, scope="hangs"):
    time.sleep(600)
print("not killed", flush=True)
`, 0o600)
	a := j.run("a", script)
	j.wantExit(4*longWait, 128+9, a)
	if got := a.out.String(); got != "in time\n" {
		t.Errorf("the worker says %q", got)
	}
	if got := a.err.String(); !strings.Contains(got, `the timer "hangs" of process `) {
		t.Errorf("stderr: %s", got)
	}
}
