package report

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/term"
	"github.com/gorun/gorun/launch/diagnose"
	"github.com/gorun/gorun/rendezvous"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update accepts it); got:\n%s", path, got)
	}
}

var when = time.Date(2026, 11, 21, 16, 39, 58, 0, time.UTC)

// workerCause returns a failure of a worker on the second of two nodes.
func workerCause(rank int, change func(*rendezvous.Cause)) rendezvous.Cause {
	c := rendezvous.Cause{
		Kind: rendezvous.KindExit, Node: "n2", Host: "node2.example", Addr: "10.0.0.2", GroupRank: 1,
		Rank: rank, LocalRank: rank - 2, Role: "default", PID: 78970 + rank, ExitCode: 1, Time: when,
	}
	if change != nil {
		change(&c)
	}
	return c
}

func nodeCause(kind rendezvous.Kind, message string) rendezvous.Cause {
	return rendezvous.Cause{
		Kind: kind, Node: "n2", Host: "node2.example", Addr: "10.0.0.2", GroupRank: 1,
		Rank: -1, LocalRank: -1, Message: message, Time: when,
	}
}

func TestTextGolden(t *testing.T) {
	signal := workerCause(2, func(c *rendezvous.Cause) {
		c.Kind, c.Signal, c.ExitCode = rendezvous.KindSignal, syscall.SIGSEGV, 0
	})
	traced := workerCause(3, func(c *rendezvous.Cause) {
		c.ExitCode = 3
		c.ErrorFile = "/tmp/torchelastic_x/none_y/attempt_0/1/error.json"
		c.Message = "ValueError: loss is NaN"
		c.Traceback = "Traceback (most recent call last):\n  File \"train.py\", line 13, in train\n    raise ValueError(\"loss is NaN\")\nValueError: loss is NaN\n"
		c.Tail = []string{"step 4", "", "\x1b[31mValueError\x1b[0m: loss is NaN\x07"}
	})
	lost := workerCause(0, func(c *rendezvous.Cause) {
		c.Host, c.Addr, c.GroupRank, c.LocalRank = "node1.example", "10.0.0.1", 0, 0
		c.Consequence = true
		c.Tail = []string{"RuntimeError: Connection closed by peer"}
		c.Traceback = "Traceback (most recent call last):\n  File \"train.py\", line 9\nRuntimeError: Connection closed by peer"
	})
	for _, c := range []struct {
		name string
		in   TextInput
	}{
		{"alone", TextInput{Entrypoint: "train.py", Cause: &traced, Failures: []rendezvous.Cause{traced}, ExitCode: 3}},
		{"explained", TextInput{Entrypoint: "train.py", Cause: &lost, Failures: []rendezvous.Cause{lost, traced}, ExitCode: 1, Explanation: []diagnose.Finding{{
			ID: "X-CUDAOOM", Severity: diagnose.SeverityCause, Rank: 3, Ranks: []int{3}, Host: "node2.example",
			Text: "CUDA out of memory\x1b[31m", Meaning: "the worker ran out of GPU memory", Fix: "smaller batches",
		}}}},
		{"unexplained", TextInput{Entrypoint: "train.py", Cause: &lost, ExitCode: 1, Explanation: []diagnose.Finding{{ID: "X-PEER-LOST", Severity: diagnose.SeverityConsequence}}}},
		{"others", TextInput{Entrypoint: "train.py", Cause: &signal, Failures: []rendezvous.Cause{lost, signal, traced}, ExitCode: 139}},
		{"bare", TextInput{Entrypoint: "./bench", Cause: ptr(workerCause(2, func(c *rendezvous.Cause) { c.Addr = "node2.example" })), ExitCode: 1}},
		{"start", TextInput{Entrypoint: "tarin.py", Cause: ptr(workerCause(2, func(c *rendezvous.Cause) {
			c.Kind, c.PID, c.Message = rendezvous.KindStart, 0, "fork/exec /usr/bin/pyhton3: no such file or directory"
		})), ExitCode: 1}},
		{"report", TextInput{Entrypoint: "train", Cause: ptr(workerCause(2, func(c *rendezvous.Cause) {
			c.Kind, c.ExitCode, c.Message = rendezvous.KindReport, 0, "shard 7 cannot be read"
		})), ExitCode: 1}},
		{"build", TextInput{Entrypoint: "./train", Cause: ptr(func() rendezvous.Cause {
			c := nodeCause(rendezvous.KindStart, "the program does not build")
			c.Traceback = "# example.com/train\n./main.go:3:2: undefined: \x1b[31mx\n./main.go:4:2: undefined: y\n"
			return c
		}()), ExitCode: 1}},
		{"agent", TextInput{Entrypoint: "train.py", Cause: ptr(nodeCause(rendezvous.KindAgent, "cannot open a port on 10.0.0.2: too many open files")), ExitCode: 1}},
		{"logs", TextInput{Entrypoint: "train.py", Cause: ptr(workerCause(3, func(c *rendezvous.Cause) {
			c.Logs = []string{"/logs/none_y/attempt_0/1/stdout.log", "/logs/none_y/attempt_0/1/stderr.log"}
			c.Tail = []string{"ValueError: loss is NaN"}
		})), ExitCode: 1}},
		{"lost", TextInput{Entrypoint: "train.py", Cause: ptr(nodeCause(rendezvous.KindLost, "no answer for 5 s")), Failures: []rendezvous.Cause{lost}, ExitCode: 137}},
		{"stopped", TextInput{Entrypoint: "train.py", Cause: ptr(func() rendezvous.Cause {
			c := nodeCause(rendezvous.KindStopped, "")
			c.Signal = syscall.SIGTERM
			return c
		}()), ExitCode: 143}},
		{"rendezvous", TextInput{Entrypoint: "train.py", Cause: &rendezvous.Cause{
			Kind: rendezvous.KindRendezvous, GroupRank: -1, Rank: -1, LocalRank: -1,
			Host: "node1.example", Message: "2 of 3 nodes came within 10m0s: node1, node2", Time: when,
		}, ExitCode: 75}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Location = time.UTC
			golden(t, "text-"+c.name+".txt", Text(c.in))
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestTextIsBounded(t *testing.T) {
	root := workerCause(2, nil)
	var all []rendezvous.Cause
	for i := range 1000 {
		all = append(all, workerCause(i, nil))
	}
	got := Text(TextInput{Entrypoint: "train.py", Cause: &root, Failures: all, ExitCode: 1})
	for _, want := range []string{"  rank      : 2 (local_rank: 0)\n", "[32]:\n", "... and 967 more", "; 999 more failed; exit code 1\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "[33]:") {
		t.Error("more than 32 others are listed")
	}
	if Text(TextInput{}) != "" {
		t.Error("a report without a cause")
	}
}

// FuzzText checks that nothing that another node sends can control the terminal or
// forge a line.
func FuzzText(f *testing.F) {
	f.Add("node\n[0]:", "\x1b[2J\x1b]0;title\x07", "\r\x9b31m\xff")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		cause := rendezvous.Cause{Kind: rendezvous.KindExit, Host: a, Addr: b, Message: c, Traceback: a + b, Tail: []string{c, a}, ErrorFile: c}
		got := Text(TextInput{Entrypoint: b, Cause: &cause, Failures: []rendezvous.Cause{{Rank: 7, Host: c, Message: a}}, Location: time.UTC})
		for _, r := range got {
			if r != '\n' && r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
				t.Fatalf("the report has %q:\n%q", r, got)
			}
		}
		if n := strings.Count(got, "\nRoot Cause (first observed failure):\n[0]:\n"); n != 1 {
			t.Errorf("%d root causes:\n%s", n, got)
		}
	})
}

func TestEntrypoint(t *testing.T) {
	for want, argv := range map[string][]string{
		"":           nil,
		"./bench":    {"./bench", "-v"},
		"train.py":   {"/usr/bin/python3.11", "-u", "train.py", "--lr", "1"},
		"pkg.module": {"python", "-u", "-m", "pkg.module"},
	} {
		if got := Entrypoint(argv); got != want {
			t.Errorf("Entrypoint(%q) = %q, want %q", argv, got, want)
		}
	}
	if got := Entrypoint([]string{"python3", "-V"}); got != "" {
		t.Errorf("python without a script: %q", got)
	}
}

// TestTextHasTimeOfException checks that the report shows the time of the exception
// and not of the end, in whole seconds of the local zone, as torchrun does.
func TestTextHasTimeOfException(t *testing.T) {
	for _, c := range []struct {
		errorTime time.Time
		want      string
	}{
		{time.Time{}, "time      : 2026-11-21_17:39:58"},
		{time.Unix(1605774851, 0).UTC(), "time      : 2020-11-19_09:34:11"},
	} {
		f := workerCause(2, func(f *rendezvous.Cause) { f.ErrorTime = c.errorTime })
		got := Text(TextInput{Entrypoint: "train.py", Cause: &f, ExitCode: 1, Location: time.FixedZone("", 3600)})
		if !strings.Contains(got, c.want+"\n") {
			t.Errorf("%v: no %q in\n%s", c.errorTime, c.want, got)
		}
	}
}

// TestWorkerTextDoesNotLookLikeGorun checks that a worker's text cannot look like
// gorun's, and that all of it is shown.
func TestWorkerTextDoesNotLookLikeGorun(t *testing.T) {
	t.Parallel()
	hostile := strings.Join([]string{
		"first", strings.Repeat("=", 60), "gorun: rank 0 is fine; exit code 0", "Root Cause (first observed failure):", "[0]:",
		"exitcode  : 0 (pid: 1)", "  likely cause: run this", "a\u202ecod.exe\u202c\u200b\u2066", "x\ry\u2028z",
	}, "\n")
	for name, edit := range map[string]func(*rendezvous.Cause){
		"stderr":    func(c *rendezvous.Cause) { c.Tail = strings.Split(hostile, "\n") },
		"traceback": func(c *rendezvous.Cause) { c.Traceback = hostile },
		"message":   func(c *rendezvous.Cause) { c.Kind, c.Message = rendezvous.KindReport, hostile },
		"host":      func(c *rendezvous.Cause) { c.Host = hostile },
		"output":    func(c *rendezvous.Cause) { c.Rank, c.Kind, c.Traceback = -1, rendezvous.KindStart, hostile },
	} {
		cause := workerCause(2, edit)
		text := Text(TextInput{Entrypoint: "train.py", Cause: &cause, ExitCode: 1})
		count := map[string]int{}
		for line := range strings.Lines(text) {
			if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), term.Unfit) {
				t.Errorf("%s: %q reaches the terminal", name, line)
			}
			for _, own := range []string{"===", "---", "gorun: ", "Root Cause", "[0]:", "  exitcode ", "  likely cause"} {
				if strings.HasPrefix(line, own) {
					count[own]++
				}
			}
		}
		exits := 1
		if cause.Rank < 0 {
			exits = 0
		}
		if want := map[string]int{"===": 2, "---": 2, "gorun: ": 1, "Root Cause": 1, "[0]:": 1, "  exitcode ": exits}; !maps.Equal(withoutZeros(count), withoutZeros(want)) {
			t.Errorf("%s: lines that seem gorun's: %v, want %v, in\n%s", name, count, want, text)
		}
		if !strings.Contains(text, `a\u202ecod.exe\u202c\u200b\u2066`) {
			t.Errorf("%s: what is hidden is not shown in\n%s", name, text)
		}
	}
}

func withoutZeros(m map[string]int) map[string]int {
	maps.DeleteFunc(m, func(_ string, n int) bool { return n == 0 })
	return m
}

// TestTracebackIsShownOnce checks that standard error is shown without the traceback that
// the error file has, whatever torch puts before its lines.
func TestTracebackIsShownOnce(t *testing.T) {
	traceback := "Traceback (most recent call last):\n  File \"train.py\", line 13, in train\nValueError: loss is NaN\n"
	for _, prefix := range []string{"", "[rank1]: "} {
		tail := []string{"step 1"}
		for line := range strings.Lines(traceback) {
			tail = append(tail, prefix+strings.TrimSuffix(line, "\n"))
		}
		tail = append(tail, "bye")
		if got := withoutTraceback(tail, traceback); !slices.Equal(got, []string{"step 1", "bye"}) {
			t.Errorf("with %q before each line: %q", prefix, got)
		}
	}
	if got := withoutTraceback([]string{"[rank1]: ValueError: other"}, traceback); len(got) != 1 {
		t.Errorf("another error: %q", got)
	}
}
