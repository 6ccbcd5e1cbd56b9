package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/launch/process"
	"github.com/gorun/gorun/rendezvous"
)

// writeEnding writes the end of a job and reads it back: the lines that the agent
// prints, the text report and the JSON report, nil if none was written.
func writeEnding(t *testing.T, e Ending, o rendezvous.Outcome) (printed, text string, r *Report) {
	t.Helper()
	e.Job = Job{File: filepath.Join(t.TempDir(), "report.json"), RunID: "job7", Started: when}
	var out strings.Builder
	e.Out, e.Say = &out, func(format string, args ...any) { printed += fmt.Sprintf(format, args...) + "\n" }
	e.Write(o)
	return printed, out.String(), readReport(t, e.Job.File)
}

func readReport(t *testing.T, path string) *Report {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var r Report
	if err := errors.Join(err, json.Unmarshal(b, &r)); err != nil {
		t.Fatal(err)
	}
	return &r
}

// TestEachEndIsReportedOnce checks that each kind of end has one outcome, and is
// reported in one way.
func TestEachEndIsReportedOnce(t *testing.T) {
	findings := json.RawMessage(`[]`)
	for name, c := range map[string]struct {
		cause   *rendezvous.Cause
		checked bool
		outcome Outcome
		says    int  // number of lines
		text    bool // the full report
	}{
		"succeeded":   {nil, false, Succeeded, 0, false},
		"checked":     {nil, true, Succeeded, 0, false},
		"refused":     {&rendezvous.Cause{Kind: rendezvous.KindPreflight}, true, Refused, 0, false},
		"not met":     {&rendezvous.Cause{Kind: rendezvous.KindRendezvous, Message: "no node came"}, false, Rendezvous, 1, false},
		"stopped":     {&rendezvous.Cause{Kind: rendezvous.KindStopped, Signal: syscall.SIGTERM}, false, Stopped, 1, false},
		"aborted":     {&rendezvous.Cause{Kind: rendezvous.KindAborted, Message: "enough"}, false, Stopped, 1, false},
		"failed":      {&rendezvous.Cause{Kind: rendezvous.KindExit, Rank: 1, ExitCode: 3}, false, Failed, 0, true},
		"not checked": {&rendezvous.Cause{Kind: rendezvous.KindStart, Rank: -1, Message: "no such file"}, true, Failed, 0, true},
	} {
		o := rendezvous.Outcome{Code: 9, Cause: c.cause}
		if c.checked {
			o.Preflight = &rendezvous.CheckResult{Findings: findings}
		}
		printed, text, r := writeEnding(t, Ending{Findings: findings}, o)
		if r == nil || r.Outcome != c.outcome || r.ExitCode != 9 || strings.Count(printed, "\n") != c.says || (text != "") != c.text {
			t.Errorf("%s: said %q, text %q, report %+v", name, printed, text, r)
		}
	}
	printed, text, r := writeEnding(t, Ending{Brief: true, NoFiles: true}, rendezvous.Outcome{Code: 3, Cause: &rendezvous.Cause{Kind: rendezvous.KindExit, ExitCode: 3}})
	if r != nil || text != "" || strings.Count(printed, "\n") != 1 {
		t.Errorf("a brief agent said %q and %q, and wrote %+v", printed, text, r)
	}
}

// TestReportHasAllRanks checks that every rank of a round is in the report, ranks
// that never started without a PID, and that witnesses are no failures.
func TestReportHasAllRanks(t *testing.T) {
	cause := rendezvous.Cause{Kind: rendezvous.KindExit, Rank: 2, ExitCode: 3}
	_, _, r := writeEnding(t, Ending{}, rendezvous.Outcome{
		Code: 3, Cause: &cause, Failures: []rendezvous.Cause{cause, {Kind: rendezvous.KindWitness, Rank: 0}},
		Rounds: []rendezvous.Record{{
			World: rendezvous.World{Round: 5, Members: []rendezvous.Member{{Host: "a", Workers: 2}, {Host: "b", Workers: 1, FirstRank: 2}}},
			Ends:  []rendezvous.End{{Rank: 2, PID: 12, ExitCode: 3}, {Rank: 0, PID: 10, Signal: syscall.SIGTERM}},
		}},
	})
	if len(r.Failures) != 1 || len(r.Rounds) != 1 || len(r.Rounds[0].Nodes) != 2 {
		t.Fatalf("%+v", r)
	}
	first, second := r.Rounds[0].Nodes[0].Ranks, r.Rounds[0].Nodes[1].Ranks
	if len(first) != 2 || first[0].ExitCode != 143 || first[1].Rank != 1 || first[1].LocalRank != 1 || first[1].PID != 0 || len(second) != 1 || second[0].ExitCode != 3 {
		t.Errorf("%+v, %+v", first, second)
	}
}

// TestBuildOutputIsShownOnce checks that each terminal shows a compiler's output
// once.
func TestBuildOutputIsShownOnce(t *testing.T) {
	cause := rendezvous.Cause{Kind: rendezvous.KindStart, Node: "n1", Rank: -1, GroupRank: 0, Message: "main.go:3: no", Traceback: "OUTPUT"}
	for name, c := range map[string]struct {
		e     Ending
		shown bool
	}{
		"here":                  {Ending{Node: "n1"}, true},
		"here, and seen before": {Ending{Node: "n1", BuildShown: true}, false},
		"on another node":       {Ending{Node: "n2"}, false},
		"at the same terminal":  {Ending{Node: "n2", Shared: true}, true},
		"there, by another":     {Ending{Node: "n2", Shared: true, Brief: true, NoFiles: true}, false},
	} {
		printed, text, _ := writeEnding(t, c.e, rendezvous.Outcome{Code: 1, Cause: &cause})
		if strings.Contains(printed+text, "OUTPUT") != c.shown {
			t.Errorf("%s: %s%s", name, printed, text)
		}
	}
}

// TestEndingCopiesErrorFile checks that the error file of a worker of this node
// becomes gorun's own.
func TestEndingCopiesErrorFile(t *testing.T) {
	from := filepath.Join(t.TempDir(), "error.json")
	if err := os.WriteFile(from, []byte(`{"message": {"message": "no cheese"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for node, copied := range map[rendezvous.NodeID]bool{"n1": true, "n2": false} {
		to := filepath.Join(t.TempDir(), "own.json")
		cause := rendezvous.Cause{Kind: rendezvous.KindSignal, Node: "n1", Signal: syscall.SIGKILL, ErrorFile: from}
		writeEnding(t, Ending{Node: node, ErrorFile: to}, rendezvous.Outcome{Cause: &cause})
		if b, _ := os.ReadFile(to); strings.Contains(string(b), `"errorCode":-9`) != copied {
			t.Errorf("%s: %s", node, b)
		}
	}
}

// TestReportWithoutAgent checks that a job has a report even without an agent that
// could write it.
func TestReportWithoutAgent(t *testing.T) {
	j := Job{File: filepath.Join(t.TempDir(), "report.json"), RunID: "job7"}
	for name, c := range map[string]struct {
		write func() error
		kind  rendezvous.Kind
		code  int // exit code of the cause
		exit  int
	}{
		"an error":      {func() error { return j.WriteError(errors.New("no"), 1) }, rendezvous.KindAgent, 1, 1},
		"a usage error": {func() error { return j.WriteError(errors.New("no"), 2) }, rendezvous.KindStart, 2, 2},
		"killed":        {func() error { return j.WriteKilled(process.Exit{Signal: syscall.SIGKILL}, 7) }, rendezvous.KindLost, 137, 7},
	} {
		if err := c.write(); err != nil {
			t.Fatal(err)
		}
		r := readReport(t, j.File)
		if r.Outcome != Failed || r.Cause.Kind != c.kind || r.Cause.ExitCode != c.code || r.ExitCode != c.exit || r.Cause.Host == "" || !r.Started.Equal(r.Ended) {
			t.Errorf("%s: %+v, cause %+v", name, r, r.Cause)
		}
	}
	if err := (Job{}).WriteError(errors.New("no"), 1); err != nil {
		t.Error(err)
	}
}
