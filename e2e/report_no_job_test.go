package e2e_test

import (
	"io"
	"os"
	"strings"
	"testing"
)

// writeOldReport makes the report of an earlier job that went well.
func (j *job) writeOldReport() string {
	return j.write("report", `{"outcome": "succeeded"}`, 0o600)
}

// TestReportWithoutJob checks that gorun also reports on a job that never began, and
// replaces the report of an earlier job.
func TestReportWithoutJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code int
		kind string
		text string
	}{
		"no program":       {[]string{"e2e-no-such-program"}, 2, "start", "no such program: e2e-no-such-program"},
		"bad flag value":   {[]string{"--nnodes", "many", "/bin/true"}, 2, "start", "many"},
		"bad redirects":    {[]string{"--redirects", "9", "/bin/true"}, 2, "start", "--redirects"},
		"no secret":        {[]string{"--secret-file", "/no/such/secret", "/bin/true"}, 2, "start", "/no/such/secret"},
		"of several nodes": {[]string{"--local-nodes", "2", "--redirects", "9", "/bin/true"}, 2, "start", "--redirects"},
		"in a folder gone": {[]string{"/bin/true"}, 1, "agent", "working directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			file := j.writeOldReport()
			cmd := j.command(append([]string{"--report", file}, c.args...)...)
			if name == "in a folder gone" {
				// PWD would still name the folder.
				inRemovedFolder := []string{"/bin/sh", "-c", `mkdir "$E2E_DIR/gone" && cd "$E2E_DIR/gone" && rmdir "$E2E_DIR/gone" && unset PWD && exec "$@"`, "sh"}
				cmd.Path, cmd.Args = "/bin/sh", append(inRemovedFolder, cmd.Args...)
			}
			a := j.launch("bad", cmd)
			j.wantExit(shortWait, c.code, a)
			r := j.report("report")
			if r.ExitCode != c.code || r.Outcome != "failed" || r.Cause == nil || r.Cause.Kind != c.kind || r.Cause.ExitCode != c.code ||
				r.Cause.Rank != -1 || !strings.Contains(r.Cause.Message, c.text) || len(r.Rounds) != 0 || len(r.Failures) != 1 {
				t.Errorf("%+v, cause %+v", r, r.Cause)
			}
		})
	}
}

// TestReportOfKilledAgent checks that the keeper of a killed agent reports for it,
// unless another node's agent does.
func TestReportOfKilledAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags  []string
		target int
		by     string
	}{
		"alone":  {nil, -1, "the agent was killed by SIGKILL"},
		"run":    {[]string{"run"}, -1, "the agent was killed by SIGKILL"},
		"node 0": {[]string{"--local-nodes", "2"}, 0, "the agent was killed by SIGKILL"},
		"node 1": {[]string{"--local-nodes", "2"}, 1, "its agent closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, c.flags...)
			a := j.run("job", append([]string{"--rdzv-id", "mine", "--report", j.writeOldReport()}, sh(printRankForever)...)...)
			a.waitForStdout("up", max(1, len(c.flags)))
			if c.target < 0 {
				j.kill(a.pid())
			} else {
				j.kill(j.agentOfLocalNode(c.target))
			}
			j.wantExit(longWait, 137, a)
			r := j.report("report")
			if r.RunID != "mine" || r.ExitCode != 137 || r.Outcome != "failed" || r.Cause == nil || r.Cause.Kind != "lost" ||
				!strings.Contains(r.Cause.Message, c.by) {
				t.Errorf("%+v, cause %+v", r, r.Cause)
			}
		})
	}
}

// TestReportToStdout checks that --report /dev/stdout continues at the position of
// standard output, also if that is a file to which other processes write.
func TestReportToStdout(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	f, err := os.OpenFile(j.write("out", "", 0o600), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	io.WriteString(f, "before\n")
	cmd := j.command(append([]string{"--report", "/dev/stdout"}, sh("echo worker")...)...)
	cmd.Stdout = f
	j.wantExit(longWait, 0, j.launch("job", cmd))
	io.WriteString(f, "after\n")
	b, err := os.ReadFile(f.Name())
	if got := string(b); err != nil || !strings.HasPrefix(got, "before\nworker\n{") || !strings.HasSuffix(got, "}\nafter\n") {
		t.Errorf("%v, %q", err, got)
	}
}
