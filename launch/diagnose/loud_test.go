package diagnose

import (
	"strings"
	"testing"
)

// TestErrorsInAnyWords checks logs whose errors only the general rows know, and jobs
// that worked although a line of them looks like an error.
func TestErrorsInAnyWords(t *testing.T) {
	logs := readLogs(t, "testdata/words/*.txt")
	if len(logs) < 100 {
		t.Fatalf("%d logs", len(logs))
	}
	for _, c := range logs {
		if found := scan(t, "job.log", c.body); c.judge(found) != right {
			got := "nothing"
			if len(found) > 0 {
				got = found[0].OneLine()
			}
			t.Errorf("%s %s: want %v %v, got %.230s", c.name, c.judge(found), c.ids, c.want, got)
		}
	}
}

// TestWhatFollowsAnError shows that lines of progress count against an error, that hints
// hardly do, and that an error which equals a survived one is survived.
func TestWhatFollowsAnError(t *testing.T) {
	const failed = "2026-03-01 10:00:00 ERROR store: the index is damaged\n"
	lines := func(n int, text string) string {
		var all string
		for range n {
			all += text + "\n"
		}
		return all
	}
	for _, c := range []struct {
		name, log string
		isCause   bool
	}{
		{"the last line", "step 1\n" + failed, true},
		{"hints", failed + lines(9, "* run the repair tool and look at the manual"), true},
		{"progress", failed + lines(9, "step 2 loss 2.1"), false},
		{"retries", failed + "retrying in 5 s\n" + lines(3, "step 2 loss 2.1"), false},
		{"one like it was survived", failed + lines(9, "step 2 loss 2.1") + failed, false},
		{"then an exit code", failed + lines(9, "step 2 loss 2.1") + "the program exited with code 3\n", true},
		{"a path with the name of a level", "step 1\nCRITICAL no answer from http://host/a/paths-info/7\n", true},
		{"the last retry", "step 1\nERROR store: no answer after 5 retries\n", true},
		{"another worker goes on", "2: " + failed + lines(13, "0: step 2 loss 2.1"), false},
		{"other workers end, too", "2: " + failed + lines(9, "0: step 2 loss 2.1"), true},
		{"then the good end of the job", failed + "Job 'x' succeeded\n", false},
	} {
		found := scan(t, "job.log", c.log)
		if isCause := len(found) > 0 && found[0].Severity == SeverityCause; isCause != c.isCause {
			t.Errorf("%s: cause %v, want %v: %+v", c.name, isCause, c.isCause, found)
		}
	}
}

// TestHint shows that words of a failure in the last lines of a log are a doubtful cause
// if nothing else is found.
func TestHint(t *testing.T) {
	for _, c := range []struct{ name, log, want string }{
		{"bare words", "loading\nNot enough GPUs: need 8, have 4\n", "Not enough GPUs: need 8, have 4"},
		{"before the sum of it", "the index does not exist: not found\nthe whole program failed\n", "the index does not exist: not found"},
		{"nothing but the sum", "loading\nthe whole program failed\n\n", "the whole program failed"},
		{"a mark of a level", "loading\n[05/01/2024-10:11:12] [TRT-LLM] [E] index 5 of 4\n", "[05/01/2024-10:11:12] [TRT-LLM] [E] index 5 of 4"},
		{"the code of a signal says more than a sum", "step 3\nFailed - Training job failed\nAlgorithmError: Exit Code: 139\n", "AlgorithmError: Exit Code: 139"},
		{"a debugger that is not installed", "the whole queue is stuck: not found\ndump of 7 failed: sh: 1: py-spy: not found\n", "the whole queue is stuck: not found"},
		{"counters", "step 7 errors 0 failed 0 timeout 3\n", ""},
		{"the job went on", "the index is not found\nstep 7 loss 2.1\n", ""},
		{"far from the end", "the index is not found\n" + strings.Repeat("so it goes\n", 9), ""},
		{"a good end", "all tests: 3 passed, 3 total\ndone training\nthe index is not found\n", ""},
		{"beside a cause", "CUDA out of memory. Tried to allocate 2.00 GiB\nthe index is not found\n", "CUDA out of memory. Tried to allocate 2.00 GiB"},
	} {
		found := scan(t, "job.log", c.log)
		got := ""
		if len(found) > 0 {
			got = found[0].Text
		}
		if got != c.want || c.name == "bare words" && !found[0].Doubtful {
			t.Errorf("%s: %+v, want %q", c.name, found, c.want)
		}
	}
}

// TestCascadeIsAConsequence shows that an error that speaks of another failure is no
// cause, in any words.
func TestCascadeIsAConsequence(t *testing.T) {
	for _, line := range []string{
		"ERROR: remote worker 3 disconnected during the step",
		"fatal: another process of the group died, giving up",
		`{"level":"error","msg":"peer of shard 2 is gone"}`,
		"ERROR [comm] connection reset by peer",
		"CRITICAL: interrupted by SIGTERM",
	} {
		if found := scan(t, "job.log", line+"\n"); len(found) == 0 || found[0].Severity != SeverityConsequence {
			t.Errorf("%s: %+v", line, found)
		}
	}
}
