package diagnose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/launch/diagnose/match"
)

// TestWhatCameFirst shows which error of several is the cause: what cannot be reached after
// another process ended is an effect, a time limit is the cause of what follows it, and what
// was tried again until the program gave up is the cause.
func TestWhatCameFirst(t *testing.T) {
	const (
		panicked = "svc-1  | thread 'main' panicked at src/mod.rs:57:5: two ranks need the feature nccl\nsvc-1 exited with code 101\n"
		unknown  = "webui-1  | ERROR Cannot connect to host svc:8000 ssl:default [Name or service not known]\n"
		refused  = "distributed.comm - ERROR - Connection to tcp://10.148.3.118:8786 failed: ConnectionRefusedError: [Errno 111] Connection refused\n"
		limit    = "slurmstepd: error: *** JOB 1018784 ON n25 CANCELLED AT 2019-07-18T15:35:23 DUE TO TIME LIMIT ***\ndistributed.worker - INFO - Connection to scheduler broken.  Reconnecting...\n"
		full     = "Traceback (most recent call last):\n  File \"/w/job.py\", line 3, in open\nOSError: [Errno 28] No space left on device: '/tmp/node-1'\n"
		gaveUp   = "INFO retrying the job\nINFO 3 jobs are running\nINFO 2 jobs are running\nINFO step 1\nINFO step 2\nINFO step 3\nINFO step 4\nWARNING job 'blast' is completely failed\nmain.FailedJobsException: The store contains 7 failed jobs\n"
		table    = "88120         NODE_FAIL      1:0\n"
		step     = "$ srun -n 2 ./cpi\n"
		rejected = "srun: error: Unable to create job step: More processors requested than permitted\n"
	)
	for _, c := range []struct{ name, log, id string }{
		{"a name after its container ended", panicked + unknown, "X-ERROR"},
		{"a name before another container ended", unknown + panicked, "X-DNS"},
		{"a server after the time limit", limit + refused, "X-TIMELIMIT"},
		{"a server alone", refused, "X-CONNECT"},
		{"tried again until the end", full + gaveUp, "X-DISK"},
		{"a job that was requeued", full + table + "88120         COMPLETED      0:0\n", ""},
		{"another job of the table", full + table + "88121         COMPLETED      0:0\n", "X-DISK"},
		{"another failed job beside it", full + "88119         FAILED      1:0\n" + table + "88120         COMPLETED      0:0\n", "X-DISK"},
		{"another task of Airflow", full + "INFO - Marking task as FAILED. task_id=a\nINFO - Marking task as SUCCESS. task_id=b\n", "X-DISK"},
		{"a command typed on another host", "root@gpu-1:~$ torchrun train.py\nFATAL: cannot read the index\nroot@gpu-2:~$ torchrun train.py\nstep 1 loss 3\n", "X-ERROR"},
		{"a name after the first of two containers ended", panicked + unknown + "webui-1 exited with code 1\n", "X-ERROR"},
		{"a server after a restart", "svc-1  | exited with exit code 3\ngorun: restart 1 of 3: \nwebui-1  | ERROR " + refused, "X-CONNECT"},
		{"the second exception after a retry", "INFO upload failed, retrying\n" + raisedAs("TimeoutError: 5 s") + raisedAs("ValueError: bad shape"), "X-PYEXC"},
		{"a command typed again", step + rejected + step + "pi is 3.14\n", ""},
		{"a command typed once", step + rejected + "pi is 3.14\n", "X-RESOURCES"},
	} {
		found := scan(t, "job.log", c.log)
		if c.id == "" && len(found) > 0 || c.id != "" && (len(found) == 0 || found[0].ID != c.id || found[0].Severity != SeverityCause) {
			t.Errorf("%s: want %q, got %+v", c.name, c.id, found)
		}
	}
}

// raisedAs returns a traceback of an exception.
func raisedAs(exception string) string {
	return "Traceback (most recent call last):\n  File \"/w/t.py\", line 3, in <module>\n    f()\n" + exception + "\n"
}

// TestLeadIsBounded shows that many bare exceptions do not make the text of the line before
// the first one long.
func TestLeadIsBounded(t *testing.T) {
	var log strings.Builder
	log.WriteString("RuntimeError: CUDA error: an illegal memory access was encountered\n")
	for i := range 2000 {
		fmt.Fprintf(&log, "Traceback (most recent call last):\n  File \"/w/%d%s.py\", line 3, in up\nTimeoutError\n", i, strings.Repeat("x", 200))
	}
	for _, f := range scan(t, "job.log", log.String()) {
		if len(f.Text) > 2*match.MaxText {
			t.Errorf("a text of %d bytes", len(f.Text))
		}
	}
}

// TestSeveralPrintedIt shows that an error which several processes print is seen by the one
// whose end follows, and not blamed on it.
func TestSeveralPrintedIt(t *testing.T) {
	const (
		raised = "Traceback (most recent call last):\n  File \"/w/t.py\", line 9, in <module>\n    main()\nValueError: cannot flatten integers\n"
		end    = "E0517 08:39:06.880000 140 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 30125) of binary: /usr/bin/python\n"
		hosts  = "srun: error: gn07: tasks 0-7: Exited with exit code 1\nsrun: error: gn08: tasks 8-15: Exited with exit code 1\n"
	)
	for _, c := range []struct {
		name, log string
		blames    bool
	}{
		{"one process", raised + end, true},
		{"two processes", raised + raised + end, false},
		{"two hosts", raised + hosts, false},
		{"one host, the other was ended", raised + "srun: error: gn07: tasks 0-7: Exited with exit code 1\nsrun: error: gn08: tasks 8-15: Terminated\n", true},
	} {
		found := scan(t, "job.log", c.log)
		if len(found) == 0 || found[0].ID != "X-PYEXC" || found[0].ofJob == c.blames {
			t.Errorf("%s: want blamed %v, got %+v", c.name, c.blames, found)
		}
	}
}

// TestBareException shows that the line which a logger printed before an exception without
// words is in its text.
func TestBareException(t *testing.T) {
	const raised = "Traceback (most recent call last):\n  File \"/w/nanny.py\", line 9, in start\n"
	for message, want := range map[string]string{
		"ValueError: 5 s\n" + raised + "queue.Empty": "ValueError: 5 s (w/nanny.py:9)",
		"TimeoutError: Timeout":                      "ERROR - cannot start the worker: TimeoutError: Timeout (w/nanny.py:9)",
		"TimeoutError: 5 s are over":                 "TimeoutError: 5 s are over (w/nanny.py:9)",
	} {
		found := scan(t, "job.log", "ERROR - cannot start the worker\n"+raised+message+"\n")
		if len(found) == 0 || found[0].Text != want {
			t.Errorf("want %q, got %+v", want, found)
		}
	}
}
