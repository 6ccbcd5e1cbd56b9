package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// only returns the text of the only file that a pattern names.
func (j *job) only(pattern string) string {
	j.Helper()
	found, err := filepath.Glob(filepath.Join(j.dir, pattern))
	if err != nil || len(found) != 1 {
		j.Fatalf("%s: %q, %v, want one file", pattern, found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		j.Fatal(err)
	}
	return string(text)
}

// sortedLines returns the lines of a text in order.
func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}

// TestLogLinePrefixTemplate checks what stands before the lines of --tee.
func TestLogLinePrefixTemplate(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone", "--nproc-per-node=2", "-t3", "--role=r")
	j.env = []string{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=[${role_name} ${rank} $local_rank ${x}] "}
	a := j.run("variable", sh("echo up")...)
	b := j.run("flag", append([]string{"--log-line-prefix-template", "${rank}:"}, sh("echo up")...)...)
	j.wantExit(longWait, 0, a, b)
	if got := sortedLines(a.out.String()); got != "[r 0 0 ${x}] up\n[r 1 1 ${x}] up\n" {
		t.Errorf("%q", got)
	}
	if got := sortedLines(b.out.String()); got != "0:up\n1:up\n" {
		t.Errorf("%q", got)
	}
}

// TestLocalRanksFilter checks that only some ranks' output is shown, and the files have
// all.
func TestLocalRanksFilter(t *testing.T) {
	t.Parallel()
	j := newJob(t, "--standalone", "--nproc-per-node=3", "--local-ranks-filter=0,2")
	j.flags = append(j.flags, "--log-dir", j.dir)
	a := j.run("plain", sh("echo rank $RANK; echo err $RANK >&2")...)
	j.wantExit(longWait, 0, a)
	if got := sortedLines(a.out.String()); got != "rank 0\nrank 2\n" || strings.Contains(a.err.String(), "err 1") || !strings.Contains(a.err.String(), "err 2\n") {
		t.Errorf("%q, %q", got, a.err.String())
	}
	b := j.run("teed", append([]string{"-t3"}, sh("echo rank $RANK")...)...)
	j.wantExit(longWait, 0, b)
	if got := sortedLines(b.out.String()); got != "[default0]:rank 0\n[default2]:rank 2\n" {
		t.Errorf("%q", got)
	}
	if got := j.only("*/attempt_0/1/stdout.log"); got != "rank 1\n" {
		t.Errorf("the file of rank 1 has %q", got)
	}
}

// TestSignalsToHandle checks which signals end the job, and that the others leave the
// workers no time.
func TestSignalsToHandle(t *testing.T) {
	t.Parallel()
	const worker = `trap 'echo got USR1; exit 3' USR1; trap 'echo got TERM; exit 4' TERM; echo up; while :; do sleep 0.1; done`
	for name, c := range map[string]struct {
		flags  []string
		signal unix.Signal
		code   int
		says   string
	}{
		"listed":         {[]string{"--signals-to-handle=SIGUSR1,SIGTERM"}, unix.SIGUSR1, 128 + 10, "got USR1\n"},
		"not listed":     {[]string{"--signals-to-handle=SIGUSR1"}, unix.SIGTERM, 128 + 15, ""},
		"as by default":  {nil, unix.SIGTERM, 128 + 15, "got TERM\n"},
		"another signal": {[]string{"--signals-to-handle=SIGALRM,SIGNOPE"}, unix.SIGALRM, 128 + 14, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, append([]string{"--standalone"}, c.flags...)...)
			a := j.run("a", sh(worker)...)
			a.waitForStdout("up\n", 1)
			a.signal(c.signal)
			j.wantExit(longWait, c.code, a)
			if got := strings.TrimPrefix(a.out.String(), "up\n"); got != c.says {
				t.Errorf("the worker says %q, want %q", got, c.says)
			}
			if named := strings.Contains(a.err.String(), "Failed to register signal handler for SIGNOPE"); named != (name == "another signal") {
				t.Errorf("a line about SIGNOPE: %v", named)
			}
		})
	}
}

// TestEventLogHandler checks the events of a job: source, state and rank in their order.
func TestEventLogHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program []string
		env     string
		code    int
		want    string
	}{
		"success": {program: sh("exit 0"), want: "AGENT RENDEZVOUS, AGENT ASSIGN_WORKER_RANKS, WORKER START 0, WORKER START 1, WORKER SUCCEEDED 0, WORKER SUCCEEDED 1, AGENT SUCCEEDED"},
		"failure": {program: sh("[ $RANK = 0 ] || exit 3; exec sleep 100"), code: 3, want: "AGENT RENDEZVOUS, AGENT ASSIGN_WORKER_RANKS, WORKER START 0, WORKER START 1, WORKER TERMINATED 0, WORKER FAILED 1 exit 3, AGENT SUCCEEDED"},
		"restart": {
			program: append([]string{"--max-restarts=1"}, sh("[ $RANK = 0 ] && exit 0; kill -9 $$")...), code: 137,
			want: "AGENT RENDEZVOUS, AGENT ASSIGN_WORKER_RANKS, WORKER START 0, WORKER START 1, AGENT RENDEZVOUS, AGENT ASSIGN_WORKER_RANKS, WORKER START 0, WORKER START 1, WORKER TERMINATED 0, WORKER FAILED 1 exit -9, AGENT SUCCEEDED",
		},
		"log level": {program: sh("exit 0"), env: "LOGLEVEL=ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "--standalone", "--nproc-per-node=2", "--event-log-handler=console")
			j.env = []string{c.env}
			a := j.run("a", c.program...)
			j.wantExit(longWait, c.code, a)
			var got []string
			for line := range strings.Lines(a.err.String()) {
				if !strings.HasPrefix(line, "{") {
					continue
				}
				var e struct {
					Name, Source string
					Metadata     struct {
						State    string
						Rank     *int   `json:"global_rank"`
						Metadata string // JSON of its own
					}
				}
				var details struct {
					Exit []*int `json:"exit_code"`
				}
				if err := cmp.Or(json.Unmarshal([]byte(line), &e), json.Unmarshal([]byte(e.Metadata.Metadata), &details)); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				if e.Name != "torchelastic.worker.status."+e.Metadata.State {
					t.Errorf("%s has the state %s", e.Name, e.Metadata.State)
				}
				text := e.Source + " " + e.Metadata.State
				if e.Metadata.Rank != nil {
					text += fmt.Sprintf(" %d", *e.Metadata.Rank)
				}
				if len(details.Exit) == 1 && details.Exit[0] != nil {
					text += fmt.Sprintf(" exit %d", *details.Exit[0])
				}
				got = append(got, text)
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
		})
	}
}
